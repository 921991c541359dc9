"""The lines that the engine logs: failures and changes that people should see, never a single step.

A line is made from a fact, so it is written once, after the commit, and only if the commit happened. Every line about a
workflow carries `workflow_id` and `workflow_name` as extra fields for log processors, and `position` and `attempt`
where they apply.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from durable.engine.operations import facts
from durable.engine.operations.facts import Fact
from durable.errors import CodecError
from durable.model.dead_letters import DeadLetterReason
from durable.model.error_codec import error_summary
from durable.model.statuses import WorkflowStatus

_log = logging.getLogger("durable")
# Longer errors are cut: a log line is not the place for a traceback, and `runs.describe` shows more.
_LENGTH_MAX = 500
# How many suspects, and how many names of events, one line shows.
_SHOWN = 5


class Line(NamedTuple):
    """A line of the log. `error` is shown with its traceback."""

    level: int
    text: str
    fields: dict[str, Any]
    error: BaseException | None = None


def write(*told: Fact) -> None:
    """Write the lines of these facts. Most facts have none."""
    for fact in told:
        make = LINES.get(type(fact))
        line = None if make is None else make(fact)
        if line is not None:
            _log.log(line.level, "%s", line.text, extra=line.fields, exc_info=line.error)


def summary(error: str) -> str:
    """The class and the message of a stored error, cut to a readable length."""
    try:
        return _short(": ".join(error_summary(error)))
    except CodecError as problem:
        return str(problem)


def _short(text: str) -> str:
    return text if len(text) <= _LENGTH_MAX else f"{text[:_LENGTH_MAX]}..."


def _about(fact: Any, *more: str) -> dict[str, Any]:
    """The extra fields of a line about a workflow; those in `more` only if the fact has them."""
    fields = {name: getattr(fact, name) for name in ("workflow_id", "workflow_name", *more)}
    return {name: value for name, value in fields.items() if value is not None}


def _name(fact: Any) -> str:
    return f"{fact.workflow_id} ({fact.workflow_name})"


def _ended(fact: facts.WorkflowEnded) -> Line | None:
    if fact.status is not WorkflowStatus.FAILED:
        return None
    return Line(logging.WARNING, f"workflow {_name(fact)} failed: {summary(fact.error or '')}", _about(fact))


def _parked(fact: facts.WorkflowParked) -> Line:
    text = f"workflow {_name(fact)} is parked ({fact.reason}): {_short(fact.detail)}"
    return Line(logging.WARNING, text, _about(fact, "position"))


def _unparked(fact: facts.WorkflowUnparked) -> Line:
    return Line(logging.INFO, f"workflow {_name(fact)} is no longer parked", _about(fact))


def _undo_failed(fact: facts.UndoFailed) -> Line:
    return Line(logging.ERROR, f"workflow {_name(fact)}: {fact.text}", _about(fact, "position"))


def _body_died(fact: facts.BodyDied) -> Line:
    died = f"the process died while the body of workflow {_name(fact)} ran"
    return Line(logging.WARNING, f"{died}: crash {fact.crashes} of {fact.limit}", _about(fact))


def _attempt_failed(fact: facts.AttemptFailed) -> Line:
    delay = fact.delay_us
    after = "no further attempt follows" if delay is None else f"the next one follows in {delay / 1_000_000:g} s"
    attempt = f"attempt {fact.attempt} of activity {fact.activity} at {fact.position} of workflow {_name(fact)}"
    level = logging.WARNING if delay is None else logging.INFO
    text = f"{attempt} failed, {after}: {summary(fact.error)}"
    return Line(level, text, _about(fact, "position", "attempt"))


def _buried(fact: facts.EventsBuried) -> Line:
    count = sum(number for _, number in fact.events)
    shown = ", ".join(f"{name} ({number})" for name, number in fact.events[:_SHOWN])
    names = shown if len(fact.events) <= _SHOWN else f"{shown} and {len(fact.events) - _SHOWN} other names"
    if fact.reason == DeadLetterReason.WORKFLOW_ENDED.value:
        status = "" if fact.status is None else f" ({fact.status.value})"
        text = f"workflow {_name(fact)} ended{status} and left {count} events, which are dead letters now: {names}"
    elif fact.reason == DeadLetterReason.UNREADABLE.value:
        text = (
            f"event {fact.events[0][0]} ({fact.serial}) is a dead letter now: workflow {_name(fact)} waits for "
            f"it at {fact.position} and cannot read it: {fact.detail}"
        )
    else:
        text = f"{count} events were not taken within event_retention and are dead letters now: {names}"
    return Line(logging.WARNING, text, _about(fact, "position"))


def _suspects(fact: facts.SuspectsTried) -> Line:
    ids = fact.workflow_ids
    if len(ids) == 1:
        text = f"the process died when workflow {ids[0]} began an activity; it is on trial"
    else:
        shown = ", ".join(ids[:_SHOWN]) + (f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else "")
        text = f"the process died when {len(ids)} workflows began activities ({shown}); {fact.first} of them run first"
    return Line(logging.WARNING, text, {"workflow_ids": list(ids)})


def _set_aside(fact: facts.LetterSetAside) -> Line:
    return Line(logging.ERROR, f"letter {fact.letter} from shard {fact.sender} is set aside: {fact.problem}", {})


def _commit_failed(fact: facts.CommitFailed) -> Line:
    text = f"a commit failed and is tried again for up to {fact.seconds_left:g} s: {fact.error}"
    return Line(logging.WARNING, text, {})


def _recovered(fact: facts.Recovered) -> Line | None:
    is_empty = not (fact.resumed or fact.parked or fact.unparked or fact.suspects)
    return None if is_empty else Line(logging.INFO, fact.text, {})


def _stopped(fact: facts.EngineStopped) -> Line | None:
    if fact.error is None:
        return None
    return Line(logging.CRITICAL, f"the engine has stopped: {fact.error}", {}, fact.error if fact.is_bug else None)


def _draining(fact: facts.Draining) -> Line:
    return Line(logging.INFO, fact.text, {"workflow_ids": list(fact.workflow_ids)})


def _slow(fact: facts.BodySlow) -> Line:
    took = f"workflow {_name(fact)} took {fact.seconds:.2f} s for one step and held up all others"
    return Line(logging.WARNING, f"{took}; move the work into an activity", _about(fact))


def _stuck(fact: facts.BodyStuck) -> Line:
    text = f"workflow {_name(fact)} has not come back for {fact.seconds:.0f} s; no other workflow can continue."
    return Line(logging.ERROR, f"{text} It is here:\n{fact.stack}", _about(fact))


def _notice(fact: facts.Notice) -> Line:
    return Line(fact.level, fact.text, dict(fact.fields))


def _dropped(fact: facts.FactsDropped) -> Line:
    text = f"observer {fact.observer} is too slow: {fact.count} facts were dropped, and more may follow without a line"
    return Line(logging.WARNING, text, {})


# How to make the line of a fact; None from one of these means that this fact needs none.
LINES: dict[type[Any], Callable[[Any], Line | None]] = {
    facts.WorkflowEnded: _ended,
    facts.WorkflowParked: _parked,
    facts.WorkflowUnparked: _unparked,
    facts.UndoFailed: _undo_failed,
    facts.BodyDied: _body_died,
    facts.AttemptFailed: _attempt_failed,
    facts.EventsBuried: _buried,
    facts.SuspectsTried: _suspects,
    facts.LetterSetAside: _set_aside,
    facts.CommitFailed: _commit_failed,
    facts.Recovered: _recovered,
    facts.EngineStopped: _stopped,
    facts.Draining: _draining,
    facts.BodySlow: _slow,
    facts.BodyStuck: _stuck,
    facts.Notice: _notice,
    facts.FactsDropped: _dropped,
}

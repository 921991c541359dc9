"""What an answer promises: each is checked against the ledger at the moment it arrives.

A refusal is judged by the client, which knows what it had been answered before (`clients`). Here are the answers that
are not refusals, one function for each kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from durable.errors import CannotFork, CannotRetry, WorkflowAlreadyExists
from durable.model.ids import digest
from simulation.agenda import MILLISECOND
from simulation.calls import arguments_of, job_of
from simulation.checker import Checker
from simulation.rows import simulated
from simulation.scenario import Act, Verb
from simulation.violation import Violation


def _started(checker: Checker, act: Act, reply: Any) -> None:
    """An acknowledged start: the workflow is stored with this program, and delayed as asked."""
    life = checker.seen(reply)
    checker.started.add(reply.id)
    if reply.round == 0 and reply.start_at - reply.created_at != act.delay * MILLISECOND:
        raise Violation("I19", f"{act.id} was to be delayed by {act.delay} ms: {reply}")
    if life.record.start_digest != digest(simulated.name, arguments_of(act)):
        raise Violation("I2", f"the start of {act.id} was acknowledged, but it runs another program")


def _sent(checker: Checker, act: Act, reply: Any) -> None:
    """An acknowledged event is stored."""
    checker.accepted(act.event_id)


def _cancelled(checker: Checker, act: Act, reply: Any) -> None:
    """The answer to a cancel or a terminate is true."""
    checker.cancelled(act.id or "", reply)


def _cancelled_again(checker: Checker, act: Act, reply: Any) -> None:
    """Besides, every accepted cancel is raised in the body."""
    checker.cancelled(act.id or "", reply)
    if reply:
        checker.cancelled_again(act.id or "")


def _retried(checker: Checker, act: Act, reply: Any) -> None:
    """A retry is accepted, or refused as one that is not possible."""
    if reply is not None and not isinstance(reply, CannotRetry):
        raise Violation("I2", f"retry of {act.id} was refused: {reply!r}")


def _forked(checker: Checker, act: Act, reply: Any) -> None:
    """A fork is stored, or refused as one that is not possible."""
    if reply is not None and not isinstance(reply, CannotFork | WorkflowAlreadyExists):
        raise Violation("I2", f"fork of {act.id} was refused: {reply!r}")
    if not isinstance(reply, CannotFork) and checker.ledger.life(act.run) is None:
        raise Violation("I1", f"the fork {act.run} of {act.id} was acknowledged and is not stored")


def _ended(checker: Checker, act: Act, reply: Any) -> None:
    """A workflow that is reported as ended has ended."""
    life = checker.seen(reply)
    if not life.has_ended and not life.was_reopened:
        raise Violation("I5", f"{act.id} was reported as ended and still runs")


def _found(checker: Checker, act: Act, reply: Any) -> None:
    """A record that is shown is stored."""
    if reply is not None:
        checker.seen(reply)


def _described(checker: Checker, act: Act, reply: Any) -> None:
    """The status in a description is the stored one."""
    life = checker.ledger.life(act.id)
    is_other = life is not None and not life.was_reopened and reply.summary.status is not life.record.status
    if life is None or (reply.summary.status.is_terminal and is_other):
        raise Violation("I5", f"{act.id} was described as {reply}")


def _read(checker: Checker, act: Act, reply: Any) -> None:
    """A history that is shown has no holes, except for trimmed entries."""
    life = checker.ledger.life(act.id)
    seqs = [entry.seq for entry in reply]
    last = seqs[-1] if seqs else 0
    trimmed = life.trimmed if life is not None else set()
    # Entries that the same commit trims may still have been shown.
    if seqs != sorted(set(seqs)) or not {*range(1, last + 1)} - {*seqs} <= trimmed:
        raise Violation("I4", f"the history of {act.id} was shown with a hole: {reply}")


def _replayed(checker: Checker, act: Act, reply: Any) -> None:
    """Nothing to check here: the rules follow the event of the dead letter."""


def _scheduled(checker: Checker, act: Act, reply: Any) -> None:
    """A change of a schedule is stored."""
    stored = checker.ledger.schedule(act.id)
    if act.verb is Verb.TRIGGER_SCHEDULE:
        checker.seen(reply)
    elif act.verb is Verb.DELETE_SCHEDULE:
        if stored is not None:
            raise Violation("I23", f"{act.id} was deleted and is stored")
    elif stored is None or (act.verb is Verb.SCHEDULE and stored.job != job_of(act)):
        raise Violation("I23", f"{act.id} was acknowledged and is not stored as it should be: {stored}")
    elif act.verb is not Verb.SCHEDULE and stored.is_paused != (act.verb is Verb.PAUSE_SCHEDULE):
        raise Violation("I23", f"{act.verb.value} was acknowledged: {stored}")


# The check for the answer to each verb.
PROMISES: dict[Verb, Callable[[Checker, Act, Any], None]] = {
    Verb.START: _started,
    Verb.SEND: _sent,
    Verb.CANCEL: _cancelled_again,
    Verb.TERMINATE: _cancelled,
    Verb.RETRY: _retried,
    Verb.FORK: _forked,
    Verb.AWAIT: _ended,
    Verb.FIND: _found,
    Verb.DESCRIBE: _described,
    Verb.HISTORY: _read,
    Verb.REPLAY: _replayed,
    Verb.SCHEDULE: _scheduled,
    Verb.PAUSE_SCHEDULE: _scheduled,
    Verb.RESUME_SCHEDULE: _scheduled,
    Verb.TRIGGER_SCHEDULE: _scheduled,
    Verb.DELETE_SCHEDULE: _scheduled,
}

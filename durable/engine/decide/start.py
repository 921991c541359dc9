"""A workflow is started: by a caller, by a parent in this shard or another, or by a schedule.

Starting is idempotent by id: the same call under the same id finds the first workflow. A different call is refused, and
the error tells the caller which argument, tag or delay is different (`difference`).

`register_workflow` runs the body at once, in the decision that stores the workflow. `store_workflow` only stores it,
and the body begins after the commit. Both make the events that were sent to the id before into the workflow's mailbox.
"""

from __future__ import annotations

import json
from typing import Any

import attrs

from durable.engine.decide.body import begin
from durable.engine.decide.endings import check_payload
from durable.engine.decide.facts import tell_start
from durable.engine.decide.turn import Turn
from durable.engine.operations import Follow, ResumeWorkflow, StartWorkflow
from durable.errors import InvalidValue, WorkflowAlreadyExists
from durable.model.clock import SECOND, later
from durable.model.codec import Arguments
from durable.model.ids import digest
from durable.model.records import BY_KEY, WorkflowRecord, WorkflowStatus
from durable.runner.definitions import WorkflowDef

# The longest value that is shown in full.
_WIDTH = 60


def decide_start_workflow(turn: Turn, op: StartWorkflow, *, at: int | None = None) -> WorkflowRecord:
    """Start a workflow. A repeat of the same call under the same id returns the first workflow.

    `at` is when it was asked for, if not now. Raises `WorkflowAlreadyExists`, with the difference, if the id belongs to
    another call.
    """
    state = turn.state
    stored = state.find(op.id)
    if stored is not None:
        if (problem := difference(stored, op)) is not None:
            raise WorkflowAlreadyExists(op.id, stored.name, problem)
        return stored
    definition = op.definition or state.registry.get(op.name, op.version)
    check_payload(turn, f"{definition.label}: arguments", op.input)
    if len(op.tags) > state.config.max_tags:
        raise InvalidValue("tags", f"{len(op.tags)} are more than max_tags={state.config.max_tags}")
    state.registry.add(definition)
    created_at = turn.now if at is None else min(at, turn.now)
    return register_workflow(
        turn,
        op.id,
        definition,
        op.input,
        created_at=created_at,
        start_at=later("start: delay", created_at, op.delay),
        arguments=op.arguments,
        tags=op.tags,
        trace=op.trace,
    )


def register_workflow(
    turn: Turn,
    id: str,
    definition: WorkflowDef[Any, Any],
    input: str,
    *,
    created_at: int,
    start_at: int,
    arguments: Arguments | None = None,
    **more: Any,
) -> WorkflowRecord:
    """Store a new workflow and run its body, unless it starts later.

    While `Trials.stores_first` is set, the body runs only after the commit, so that a body that kills the process
    belongs to a stored workflow.
    """
    state = turn.state
    is_delayed = start_at > turn.now
    record = WorkflowRecord(
        key=state.next_serial(),
        id=id,
        name=definition.name,
        version=definition.version,
        status=WorkflowStatus.SUSPENDED if is_delayed else WorkflowStatus.RUNNING,
        input=input,
        start_digest=digest(definition.name, input),
        created_at=created_at,
        start_at=start_at,
        wake_at=start_at if is_delayed else None,
        position_format=BY_KEY,
        **more,
    )
    state.workflows.register_workflow(record, begins_later=not is_delayed and state.trials.stores_first)
    tell_start(turn, record)
    mail = adopt_mail(turn, record)
    if is_delayed:
        return record
    if state.trials.stores_first:
        turn.effects.append(Follow(ResumeWorkflow(record.key)))
    else:
        begin(turn, record, mail, arguments)
    return record


def store_workflow(turn: Turn, id: str, *, name: str, version: int, input: str, **more: Any) -> WorkflowRecord:
    """Store a new workflow whose body begins after this commit.

    Its code need not be registered here. If it is missing when the body should begin, the workflow is parked.
    """
    state = turn.state
    record = WorkflowRecord(
        key=state.next_serial(),
        id=id,
        name=name,
        version=version,
        status=WorkflowStatus.RUNNING,
        input=input,
        start_digest=digest(name, input),
        created_at=turn.now,
        start_at=turn.now,
        position_format=BY_KEY,
        **more,
    )
    state.workflows.register_workflow(record, begins_later=True)
    tell_start(turn, record)
    adopt_mail(turn, record)
    turn.effects.append(Follow(ResumeWorkflow(record.key)))
    return record


def adopt_mail(turn: Turn, record: WorkflowRecord) -> int:
    """A workflow is new: events that were sent to its id before become its mailbox. Returns how many."""
    state = turn.state
    kept = state.post.mailbox(unstarted=record.id) if state.post.pending_count() else []
    for event in kept:
        state.post.drop_event(event)
        state.post.put_event(attrs.evolve(event, target=record.key, unstarted=None))
    return len(kept)


# --- is it the same call? ---------------------------------------------------------------------------------------------


def difference(stored: WorkflowRecord, op: StartWorkflow) -> str | None:
    """How a start differs from the one that created a workflow; None if it is the same call.

    A different version of the code is not a difference: a workflow keeps the version that it started with.
    """
    if stored.start_digest != digest(op.name, op.input):
        return _other_call(stored, op)
    # Order does not count: the tags may come from a set, whose order changes from process to process.
    if set(stored.tags) != set(op.tags):
        return f"tags={_brief(list(op.tags))}, but it was started with tags={_brief(list(stored.tags))}"
    # A later round, or a child that was started again with its parent, no longer knows its first delay.
    delay = max(0, stored.start_at - stored.created_at)
    if stored.round == 0 and delay != op.delay:
        return f"delay={op.delay / SECOND:g} s, but it was started with delay={delay / SECOND:g} s"
    return None


def _other_call(stored: WorkflowRecord, op: StartWorkflow) -> str:
    if stored.name != op.name:
        return f"this call is for {op.name!r} version {op.version}, it runs version {stored.version}"
    if stored.round:
        return "other arguments than those it was started with (it has continued with others since)"
    first, second = _arguments(stored.input), _arguments(op.input)
    parts = [
        f"{name}={_value(second, name)}, but it was started with {name}={_value(first, name)}"
        for name in dict.fromkeys((*second, *first))
        if name not in second or name not in first or second[name] != first[name]
    ]
    versions = "" if stored.version == op.version else f" (version {op.version} against {stored.version})"
    return ("; ".join(parts) or "other arguments") + versions


def _arguments(text: str) -> dict[str, Any]:
    """The arguments by name; empty if the stored text is damaged."""
    try:
        arguments = json.loads(text)
    except ValueError:
        return {}
    return arguments if isinstance(arguments, dict) else {}


def _value(arguments: dict[str, Any], name: str) -> str:
    return _brief(arguments[name]) if name in arguments else "nothing"


def _brief(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."

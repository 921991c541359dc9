"""A workflow is started: by a caller, by a parent in this shard or another, or by a schedule.

Starting is idempotent by id. `register_workflow` runs the body at once, in the decision that stores the workflow.
`store_workflow` only stores it, and the body begins after the commit. Both make the events that were sent to the id
before into the workflow's mailbox.
"""

from __future__ import annotations

from typing import Any

from durable.engine.decide.body import begin
from durable.engine.decide.differences import difference
from durable.engine.decide.endings import check_payload
from durable.engine.decide.events import adopt_mail
from durable.engine.decide.turn import Turn
from durable.engine.operations import (
    Follow,
    ResumeWorkflow,
    StartWorkflow,
)
from durable.errors import (
    InvalidValue,
    WorkflowAlreadyExists,
)
from durable.model.clock import later
from durable.model.codec import Arguments
from durable.model.ids import digest
from durable.model.records import (
    BY_KEY,
    WorkflowRecord,
    WorkflowStatus,
)
from durable.runner.definitions import WorkflowDef


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
    adopt_mail(turn, record)
    turn.effects.append(Follow(ResumeWorkflow(record.key)))
    return record

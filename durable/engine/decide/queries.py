"""Pure decisions that only look: how workflows stand, and what is recorded of them; and the purge of old ones."""

from __future__ import annotations

import attrs

from durable.backends.base import Workflows
from durable.engine.decide.turn import Turn
from durable.engine.operations import (
    AwaitEnd,
    FindWorkflow,
    PurgeWorkflows,
    ReadHistory,
)
from durable.engine.state.state import State, shown
from durable.errors import CodecError, WorkflowNotFound
from durable.model.position import Place
from durable.model.records import HistoryEntry, WorkflowRecord, WorkflowStatus


@attrs.frozen
class Pending:
    """Not an answer yet: it comes when this workflow ends."""

    key: int


def decide_find_workflow(turn: Turn, op: FindWorkflow) -> WorkflowRecord | None:
    """The record, or None."""
    try:
        return shown(turn.state, op.id)
    except WorkflowNotFound:
        return None


def decide_await_end(turn: Turn, op: AwaitEnd) -> WorkflowRecord | Pending:
    """The record if the workflow has ended, or is parked and that is an answer; else a promise."""
    record = shown(turn.state, op.id)
    is_answer = record.status is WorkflowStatus.PARKED and not op.wait_if_parked
    return record if is_answer or record.status.is_terminal else Pending(record.key)


def decide_read_history(turn: Turn, op: ReadHistory) -> list[HistoryEntry]:
    """All entries, in order."""
    return turn.state.chronicle.of(shown(turn.state, op.id).key)


def decide_purge_workflows(turn: Turn, op: PurgeWorkflows) -> int:
    """Remove workflows that ended long ago, but none whose parent may still ask for the result."""
    state = turn.state
    ends = (WorkflowStatus.SUCCEEDED, WorkflowStatus.FAILED, WorkflowStatus.CANCELLED)
    query = Workflows(statuses=ends, finished_before=op.finished_before, limit=op.limit)
    purged = 0
    # A page may hold nothing but children that must stay; then the next one is looked at.
    while not purged and (found := state.backend.find(query)):
        for record in found:
            purged += purge(state, record)
        query = attrs.evolve(query, after=found[-1].key)
    return purged


def purge(state: State, record: WorkflowRecord) -> bool:
    """Remove a workflow that has ended, unless its parent may still ask for the result; whether it goes now."""
    is_known = not record.is_damaged or record.mended is not None
    return is_known and _may_go(state, record) and state.workflows.purge_workflow(record)


def _may_go(state: State, record: WorkflowRecord) -> bool:
    if record.parent_key is None:
        return True
    try:
        parent = state.by_key(record.parent_key)
    except CodecError:
        # A parent whose row is damaged may be mended one day, and then asks for the result.
        return False
    if parent is None or parent.status.is_terminal:
        return True
    # A parent that has gone on to another round has no place left from which it could ask.
    where = Place.parse(record.parent_place or "")
    return where is None or where.round != parent.round

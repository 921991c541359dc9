"""Questions about one workflow: its record, its end, its history. And the purge of ended workflows.

The questions change nothing. They also work for a workflow whose row is damaged (`state.shown`).
"""

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
    """A promise instead of an answer: the answer comes when this workflow ends."""

    key: int


def decide_find_workflow(turn: Turn, op: FindWorkflow) -> WorkflowRecord | None:
    """The record of a workflow; None if there is no workflow with this id."""
    try:
        return shown(turn.state, op.id)
    except WorkflowNotFound:
        return None


def decide_await_end(turn: Turn, op: AwaitEnd) -> WorkflowRecord | Pending:
    """The record if the workflow has ended, or if it is parked and the caller accepts that; otherwise a promise."""
    record = shown(turn.state, op.id)
    is_answer = record.status is WorkflowStatus.PARKED and not op.wait_if_parked
    return record if is_answer or record.status.is_terminal else Pending(record.key)


def decide_read_history(turn: Turn, op: ReadHistory) -> list[HistoryEntry]:
    """The history of the current round, in order. Raises `WorkflowNotFound`."""
    return turn.state.chronicle.of(shown(turn.state, op.id).key)


def decide_purge_workflows(turn: Turn, op: PurgeWorkflows) -> int:
    """Remove a page of workflows that ended before an instant. Returns how many; 0 means that there are no more.

    A child stays while its parent may still ask for its result.
    """
    state = turn.state
    ends = (WorkflowStatus.SUCCEEDED, WorkflowStatus.FAILED, WorkflowStatus.CANCELLED)
    query = Workflows(statuses=ends, finished_before=op.finished_before, limit=op.limit)
    purged = 0
    # A page may contain only children that must stay; then try the next page.
    while not purged and (page := state.backend.find(query)):
        for record in page:
            purged += purge(state, record)
        query = attrs.evolve(query, after=page[-1].key)
    return purged


def purge(state: State, record: WorkflowRecord) -> bool:
    """Remove a workflow that has ended, unless its parent may still ask for its result. Returns whether it goes."""
    is_known = not record.is_damaged or record.mended is not None
    return is_known and _may_go(state, record) and state.workflows.purge_workflow(record)


def _may_go(state: State, record: WorkflowRecord) -> bool:
    """Whether no parent can ask for the result any more. Without a parent that is always so."""
    if record.parent_key is None:
        return True
    try:
        parent = state.by_key(record.parent_key)
    except CodecError:
        # A parent whose row is damaged may be mended one day, and may ask for the result then.
        return False
    if parent is None or parent.status.is_terminal:
        return True
    # A parent in a later round can no longer ask: the position of the call belongs to the old round.
    where = Place.parse(record.parent_place or "")
    return where is None or where.round != parent.round

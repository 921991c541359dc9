"""Pure decisions that only look: how a workflow stands and what it waits for; and the purge of old ones."""

from __future__ import annotations

import attrs

from durable.backends.base import Workflows
from durable.clock import to_datetime
from durable.engine.operations import (
    AwaitEnd,
    CountWorkflows,
    DescribeWorkflow,
    FindWorkflow,
    ListWorkflows,
    PurgeWorkflows,
    ReadHistory,
)
from durable.engine.progress import load
from durable.engine.state import Loaded, State
from durable.engine.turn import Turn
from durable.engine.views import Description, OwedUndo, Waiting, WorkflowSummary, instant
from durable.errors import CodecError
from durable.ids import place
from durable.outcomes import error_summary, undos_summary
from durable.records import FailedUndo, HistoryEntry, WorkflowRecord, WorkflowStatus
from durable.runner.fibers import WaitCondition
from durable.runner.undo import Owed


@attrs.frozen
class Pending:
    """Not an answer yet: it comes when this workflow ends."""

    key: int


def decide_find_workflow(turn: Turn, op: FindWorkflow) -> WorkflowRecord | None:
    """The record, or None."""
    return turn.state.find(op.id)


def decide_await_end(turn: Turn, op: AwaitEnd) -> WorkflowRecord | Pending:
    """The record if the workflow has ended, else a promise."""
    record = turn.state.record(op.id)
    return record if record.status.is_terminal else Pending(record.key)


def decide_list_workflows(turn: Turn, op: ListWorkflows) -> list[WorkflowRecord]:
    """A page of workflows."""
    after = None if op.after is None else turn.state.record(op.after).key
    return list(turn.state.backend.find(attrs.evolve(op.query, after=after)))


def decide_count_workflows(turn: Turn, op: CountWorkflows) -> int:
    """How many there are."""
    return turn.state.backend.count(op.query)


def decide_read_history(turn: Turn, op: ReadHistory) -> list[HistoryEntry]:
    """All entries, in order."""
    return turn.state.chronicle.of(turn.state.record(op.id).key)


def decide_describe_workflow(turn: Turn, op: DescribeWorkflow) -> Description:
    """What a workflow waits for. Its body is rebuilt for this if need be: only the body knows its source line."""
    state = turn.state
    record = state.record(op.id)
    loaded: Loaded | None = None
    is_unstarted = record.wake_at == record.start_at and record.start_at > turn.now
    if not record.status.is_terminal and record.status is not WorkflowStatus.PARKED and not is_unstarted:
        loaded = load(turn, record)
        record = state.by_key(record.key) or record
    return Description(
        summary=WorkflowSummary.of(record),
        waits=() if loaded is None else tuple(_waiting(loaded, wait) for wait in loaded.session.waits.values()),
        history_length=len(state.chronicle.of(record.key)),
        round=record.round,
        pending_events=0 if record.status.is_terminal else len(state.post.mailbox(target=record.key)),
        park_reason=record.park_reason,
        cancel_requested=record.cancel_requested,
        owed_undos=() if loaded is None else tuple(map(_owed, loaded.session.owed())),
        failed_undos=_failed(record) if loaded is None else tuple(loaded.session.failed_undos()),
    )


def _waiting(loaded: Loaded, wait: WaitCondition) -> Waiting:
    return Waiting(
        position=wait.position,
        kind=wait.kind.value,
        name=wait.name,
        since=to_datetime(wait.opened_at),
        until=instant(wait.due),
        attempt=wait.attempt,
        last_error=None if wait.error is None else ": ".join(error_summary(wait.error)),
        source=loaded.session.source(wait.position),
    )


def _owed(owed: Owed) -> OwedUndo:
    return OwedUndo(position=owed.position, step=str(owed.op), undo=owed.name)


def _failed(record: WorkflowRecord) -> tuple[FailedUndo, ...]:
    return () if record.error is None else undos_summary(record.error)


def decide_purge_workflows(turn: Turn, op: PurgeWorkflows) -> int:
    """Remove workflows that ended long ago, but none whose parent may still ask for the result."""
    state = turn.state
    ends = (WorkflowStatus.SUCCEEDED, WorkflowStatus.FAILED, WorkflowStatus.CANCELLED)
    query = Workflows(statuses=ends, finished_before=op.finished_before, limit=op.limit)
    purged = 0
    # A page may hold nothing but children that must stay; then the next one is looked at.
    while not purged and (found := state.backend.find(query)):
        for record in found:
            # What has ended changes only when it is retried, and then it goes on.
            if record.key not in state.batch.workflows_changed and _may_go(state, record):
                state.batch.workflows_purged.add(record.key)
                purged += 1
        query = attrs.evolve(query, after=found[-1].key)
    return purged


def _may_go(state: State, record: WorkflowRecord) -> bool:
    if record.parent_key is None:
        return True
    try:
        parent = state.by_key(record.parent_key)
    except CodecError:
        # A parent whose row is damaged may be mended one day, and then asks for the result.
        return False
    position = (record.parent_place or "").rpartition(":")[2]
    # A parent that has gone on to another round has no place left from which it could ask.
    return parent is None or parent.status.is_terminal or record.parent_place != place(parent.round, position)

"""Cancel and terminate.

`cancel` raises `Cancelled` in the body, which cleans up, runs the undos that it owes and then ends. `terminate` ends
the workflow at once without running the body; the undos that it owed are given up and listed in its error.
"""

from __future__ import annotations

from durable.engine.decide.body import feed_cancel, load
from durable.engine.decide.dry_run import Misfit, examined
from durable.engine.decide.endings import mark_finished
from durable.engine.decide.turn import Turn
from durable.engine.operations import CancelWorkflow, Ended, TerminateWorkflow, log_lines
from durable.engine.state.state import has_begun, shown
from durable.errors import Cancelled, CodecError, WorkflowParked
from durable.model.error_codec import pack_error, report_undos
from durable.model.records import (
    CancelCause,
    EntryStatus,
    FailedUndo,
    HistoryEntry,
    ParkReason,
    WorkflowRecord,
    WorkflowStatus,
)
from durable.runner.session import WorkflowSessionRunner


def decide_cancel_workflow(turn: Turn, op: CancelWorkflow) -> bool:
    """Cancel by id; False if the workflow has ended already.

    A workflow whose row is damaged may owe undos that cannot be read, so only `terminate` ends it: raises
    `WorkflowParked`.
    """
    record = shown(turn.state, op.id)
    if record.is_damaged:
        raise WorkflowParked(record.id, record.park_detail or "")
    return cancel_workflow(turn, record, op.reason)


def cancel_workflow(
    turn: Turn, record: WorkflowRecord, reason: str | None, cause: CancelCause = CancelCause.REQUESTED
) -> bool:
    """Raise `Cancelled` in a body, even if it was raised before. From here on the workflow can only end cancelled.

    A delayed start that has not begun has nothing to clean up, so it ends at once. A body that cannot run now may owe
    undos: the cancel is stored as pending, and raised when the body can be rebuilt.
    """
    if record.status.is_terminal:
        return False
    state = turn.state
    # Any other workflow that has not begun is about to. It sees the cancel in its first step: it may have to clean up
    # after its earlier rounds.
    if record.status is WorkflowStatus.SUSPENDED and not has_begun(state, record):
        asked = {"cancel_requested": True, "cancel_reason": reason, "cancel_cause": cause}
        mark_finished(turn, record, WorkflowStatus.CANCELLED, **asked)
        return True
    is_crashed = record.park_reason is ParkReason.CRASHED
    if record.cancel_pending or is_crashed:
        kept = state.workflows.cancel_workflow(record, reason, cause, is_pending=True)
        # A body that took the process down is rebuilt only when an operator retries it.
        if not is_crashed:
            load(turn, kept)
        return True
    loaded = load(turn, record)
    # Loading may have parked the workflow, or ended it, because under new code it has nothing left to do.
    current = state.by_key(record.key) or record
    if current.status.is_terminal:
        return False
    state.workflows.cancel_workflow(current, reason, cause, is_pending=loaded is None)
    if loaded is not None:
        feed_cancel(turn, loaded)
    return True


def decide_terminate_workflow(turn: Turn, op: TerminateWorkflow) -> bool:
    """End a workflow at once; False if it has ended already. The undos it owes are given up and listed in its error."""
    record = shown(turn.state, op.id)
    if record.is_damaged:
        return _end_damaged(turn, record, op.reason)
    if record.status.is_terminal:
        return False
    error = given_up(turn, record, op.reason)
    asked = {"cancel_requested": True, "cancel_reason": op.reason, "cancel_cause": CancelCause.REQUESTED}
    mark_finished(turn, record, WorkflowStatus.CANCELLED, error=error, **asked)
    return True


def _end_damaged(turn: Turn, record: WorkflowRecord, reason: str | None) -> bool:
    """End a workflow whose row cannot be read, by writing a readable row. If it had ended before, it keeps that end."""
    if record.mended is not None:
        turn.state.workflows.mend_workflow(record.mended)
        turn.effects.append(Ended(record.mended))
        return False
    asked = {"cancel_requested": True, "cancel_reason": reason, "cancel_cause": CancelCause.REQUESTED}
    mark_finished(turn, record, WorkflowStatus.CANCELLED, is_damaged=False, **asked)
    return True


# In place of the name of an error class: the undo raised nothing, because it never ran to its end.
GIVEN_UP = "terminated"


def given_up(turn: Turn, record: WorkflowRecord, reason: str | None) -> str | None:
    """The stored error of a terminated workflow, which lists the undos that were given up; None if it owed nothing."""
    undos = _owed_by(turn, record)
    if not undos:
        return None
    turn.effects += [log_lines.undo_failed(record, undo) for undo in undos]
    error = Cancelled(reason)
    report_undos(error, undos)
    return pack_error(error)


def _owed_by(turn: Turn, record: WorkflowRecord) -> list[FailedUndo]:
    """The undos that a workflow owes, as failed ones. One that says "unknown" if its body cannot be rebuilt."""
    loaded = turn.state.loaded.get(record.key)
    if loaded is not None:
        return _undos_of(loaded.session)
    try:
        history = turn.state.chronicle.of(record.key)
    except CodecError as error:
        return [_unknown(str(error))]
    if not _may_owe(history):
        return []
    if record.park_reason is ParkReason.CRASHED:
        # Rebuilding it may take the process down again.
        return [_unknown(record.park_detail or "")]
    with examined(turn, record, history) as body:
        return [_unknown(body.detail)] if isinstance(body, Misfit) else _undos_of(body[0])


def _may_owe(history: list[HistoryEntry]) -> bool:
    """Whether a step has succeeded. Otherwise no undo can be owed, and the body need not be rebuilt."""
    return any(entry.status is EntryStatus.OK and entry.position for entry in history)


def _undos_of(session: WorkflowSessionRunner) -> list[FailedUndo]:
    owed = [
        FailedUndo(
            position=undo.position,
            step=str(undo.op),
            undo=undo.name,
            error_type=GIVEN_UP,
            message="the workflow was terminated before this undo was done",
        )
        for undo in session.owed()
    ]
    return [*session.failed_undos(), *owed]


def _unknown(problem: str) -> FailedUndo:
    return FailedUndo(
        position="",
        step="unknown",
        undo="unknown",
        error_type=GIVEN_UP,
        message=f"the body could not be rebuilt, so it is unknown which undos were owed: {problem[:500]}",
    )

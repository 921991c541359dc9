"""Pure decisions: what a workflow owes when it is terminated. Nobody undoes it any more, so its error must tell."""

from __future__ import annotations

from durable.engine import journal
from durable.engine.trial import Misfit, examined
from durable.engine.turn import Turn
from durable.errors import Cancelled, CodecError
from durable.outcomes import pack_error, report_undos
from durable.records import EntryStatus, FailedUndo, HistoryEntry, ParkReason, WorkflowRecord
from durable.runner.session import WorkflowSessionRunner

# In place of the name of an error class: nothing was raised, the undo was never run to its end.
GIVEN_UP = "terminated"


def given_up(turn: Turn, record: WorkflowRecord, reason: str | None) -> str | None:
    """The error of a workflow that is terminated, as text: which undos were given up. None if it owed nothing."""
    undos = _owed_by(turn, record)
    if not undos:
        return None
    turn.effects += [journal.undo_failed(record, undo) for undo in undos]
    error = Cancelled(reason)
    report_undos(error, undos)
    return pack_error(error)


def _owed_by(turn: Turn, record: WorkflowRecord) -> list[FailedUndo]:
    loaded = turn.state.loaded.get(record.key)
    if loaded is not None:
        return _undos_of(loaded.session)
    if record.key in turn.state.workflows.unbegun:
        return []
    try:
        history = turn.state.chronicle.of(record.key)
    except CodecError as error:
        return [_unknown(str(error))]
    if not _may_owe(history):
        return []
    if record.park_reason is ParkReason.CRASHED:
        # Rebuilding it may be what takes the process down.
        return [_unknown(record.park_detail or "")]
    with examined(turn, record, history) as body:
        return [_unknown(body.detail)] if isinstance(body, Misfit) else _undos_of(body[0])


def _may_owe(history: list[HistoryEntry]) -> bool:
    """Whether a step has succeeded: only then can an undo be owed."""
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
        message=f"the body could not be rebuilt, so nobody knows which undos were owed: {problem[:500]}",
    )

"""Repair: an operator replaces a recorded result by a value, and the workflow continues with that.

The history is first replayed with the new value. If later entries no longer fit, the repair is refused and nothing is
written. The entry that was replaced stays in the history; the entry of the repair holds the new value and the reason.
"""

from __future__ import annotations

from durable.engine.decide.body import last_seq, load
from durable.engine.decide.dry_run import Misfit, nothing_there, try_out
from durable.engine.decide.endings import check_payload, stop_activities
from durable.engine.decide.turn import Turn
from durable.engine.operations import RepairWorkflow
from durable.errors import (
    CannotRepair,
    CodecError,
    DurableError,
    PayloadTooLarge,
    WorkflowTerminated,
)
from durable.model.codec import Coder
from durable.model.records import EntryKind, EntryStatus, HistoryEntry, ParkReason, WorkflowStatus
from durable.model.shapes.own_types import read_own
from durable.runner.past import NOTES, Past, Repair, effective


def _coder_of_step(turn: Turn, op: RepairWorkflow) -> Coder | DurableError:
    """The coder for the result to replace, or why it cannot be replaced. Raises `WorkflowNotFound`."""
    record = turn.state.record(op.id)
    if record.status in (WorkflowStatus.SUCCEEDED, WorkflowStatus.CANCELLED):
        return WorkflowTerminated(record.id, record.status)
    history = turn.state.chronicle.of(record.key)
    target = _recorded_at(history, op.position)
    if target is None:
        return CannotRepair(record.id, op.position, _nothing_to_repair(history, op.position))
    # Only up to the entry to replace, which may be the one that cannot be read.
    before = [entry for entry in effective(history) if entry.seq < target.seq or entry.kind is EntryKind.PATCH]
    tried = try_out(turn, record, before)
    if isinstance(tried, Misfit):
        return CannotRepair(record.id, op.position, tried.detail)
    wait = tried.waits.get(op.position)
    if wait is None or (wait.kind, wait.name) != (target.kind, target.name):
        return CannotRepair(record.id, op.position, f"the current code does not wait for {target.name} there")
    coder = tried.session.coder_of(wait.op)
    if coder is None:
        return CannotRepair(record.id, op.position, f"a {target.kind.value} has no result that could be replaced")
    return coder


def decide_repair_workflow(turn: Turn, op: RepairWorkflow) -> DurableError | None:
    """Replace a result. A parked or waiting workflow continues with it; a failed one can be retried afterwards."""
    coder = _coder_of_step(turn, op)
    if isinstance(coder, DurableError):
        return coder
    try:
        check_payload(turn, coder.where, op.value)
        value, _ = read_own(coder, op.value, op.written_as)
        check_payload(turn, coder.where, value)
    except (CodecError, PayloadTooLarge) as error:
        return error
    state = turn.state
    record = state.record(op.id)
    history = state.chronicle.of(record.key)
    target = _recorded_at(history, op.position)
    assert target is not None, "it was found just now"
    text = Repair.text(target.seq, value, op.reason)
    seq = last_seq(history) + 1
    note = HistoryEntry(seq, op.position, EntryKind.REPAIRED, target.name, EntryStatus.OK, text, turn.now)
    tried = try_out(turn, record, [*history, note])
    # More than one result may be unreadable. Then they are replaced one by one, and the workflow stays parked.
    are_more = isinstance(tried, Misfit) and tried.reason is record.park_reason is ParkReason.UNREADABLE
    if isinstance(tried, Misfit) and not are_more:
        return CannotRepair(record.id, op.position, tried.detail)
    stop_activities(turn, record)
    state.unload(record.key)
    state.chronicle.add(record.key, [note])
    if not record.status.is_terminal and record.park_reason is not ParkReason.CRASHED:
        load(turn, state.by_key(record.key) or record)
    return None


def _nothing_to_repair(history: list[HistoryEntry], position: str) -> str:
    """Why there is no result to replace at a position, and which positions have one."""
    recorded = effective(history)
    needed = {entry.seq for entry in Past(history).entries}
    if any(entry.position == position and entry.seq not in needed for entry in recorded):
        return "its round is over, and its result is part of the state of the next round"
    # Of a loop, only the current round can be repaired: earlier results are part of its state.
    return nothing_there(Past(history).entries)


def _recorded_at(history: list[HistoryEntry], position: str) -> HistoryEntry | None:
    """The result at a position, with earlier repairs applied. None if there is none, or only a failed attempt."""
    entries = [entry for entry in Past(history).entries if entry.position == position and entry.kind not in NOTES]
    return entries[-1] if entries and entries[-1].status is not EntryStatus.RETRY else None

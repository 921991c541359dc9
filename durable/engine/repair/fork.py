"""Pure decisions: a workflow is done again from an earlier step on, under another id, beside the first.

What it has learnt before that step is copied; what is its own, such as mail and children, stays with the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs

from durable.engine.decide.body import last_seq, load
from durable.engine.decide.dry_run import Misfit, Tried, nothing_there, try_out
from durable.engine.decide.events import adopt_mail
from durable.engine.decide.turn import Turn
from durable.engine.operations import ForkWorkflow
from durable.errors import (
    CannotFork,
    DurableError,
    NotAcrossShards,
    WorkflowAlreadyExists,
)
from durable.model.ids import digest
from durable.model.position import Position
from durable.model.records import (
    EntryKind,
    EntryStatus,
    HistoryEntry,
    ParkReason,
    TakenBroadcast,
    WorkflowRecord,
    WorkflowStatus,
)
from durable.runner.events import event_step
from durable.runner.past import NOTES, Forked, Past, effective
from durable.runner.undo import Owed


def decide_fork_workflow(turn: Turn, op: ForkWorkflow) -> DurableError | None:
    """Start a workflow with what another had learnt before a position. Raises `WorkflowNotFound`."""
    state = turn.state
    source = state.record(op.id)
    if (known := state.find(op.new_id)) is not None:
        return WorkflowAlreadyExists(op.new_id, known.name)
    if not state.shard.owns_key(source.key):
        raise NotAcrossShards(f"a fork of {source.id!r}, which lives in another shard than {op.new_id!r},")
    history = state.chronicle.of(source.key)
    recorded = effective(history)
    copied = _before(recorded, op.position)
    if copied is None:
        return CannotFork(source.id, op.position, nothing_there(recorded))
    if any(entry.kind is EntryKind.CANCEL for entry in copied):
        return CannotFork(source.id, op.position, "it was being cancelled by then; choose an earlier position")
    # What has not moved the body makes the part that was lived by the source no longer.
    lived = [entry for entry in Past(copied).entries if entry.kind not in NOTES]
    text = Forked(source.id, last_seq(lived)).text()
    seq = last_seq(copied) + 1
    note = HistoryEntry(seq, op.position, EntryKind.FORKED, "fork", EntryStatus.OK, text, turn.now)
    record = WorkflowRecord(
        key=state.serial + state.shard.count,
        id=op.new_id,
        name=source.name,
        version=source.version,
        status=WorkflowStatus.RUNNING,
        input=source.input,
        start_digest=digest(source.name, source.input),
        created_at=turn.now,
        start_at=source.start_at,
        round=source.round,
        tags=source.tags,
        position_format=source.position_format,
    )
    tried = try_out(turn, record, [*copied, note])
    if isinstance(tried, Misfit):
        return CannotFork(source.id, op.position, tried.detail)
    if (step := _undone_since(turn, source, recorded[len(copied) :], tried)) is not None:
        problem = f"{step.op} at {step.position} was undone since; fork it from {step.position}, or an earlier position"
        return CannotFork(source.id, op.position, problem)
    if (loop := _lost_loop(history, copied, tried.waits, op.position)) is not None:
        problem = f"the loop at {loop} had done rounds by then that are trimmed; choose a later position"
        return CannotFork(source.id, op.position, problem)
    state.next_serial()
    state.workflows.register_workflow(record, begins_later=True)
    state.chronicle.add(record.key, [*copied, note])
    for taken in list(_taken(turn, source, copied, recorded[len(copied) :])):
        state.archive.put_taken(attrs.evolve(taken, workflow_key=record.key))
    adopt_mail(turn, record)
    load(turn, record)
    return None


def _before(recorded: list[HistoryEntry], position: str) -> list[HistoryEntry] | None:
    """What was recorded before the first entry at a position or below it."""
    notes = False
    for number, entry in enumerate(recorded):
        if Position(position).covers(entry.position):
            if entry.kind not in NOTES:
                return recorded[:number]
            notes = True
    # What was begun there anew has come to nothing yet.
    return recorded if notes else None


def _taken(
    turn: Turn, source: WorkflowRecord, copied: Sequence[HistoryEntry], cut: Sequence[HistoryEntry]
) -> Iterator[TakenBroadcast]:
    """Up to which broadcast the source had come: one that stands in the copied part is not taken again.

    Histories do not say which broadcast it was, so they are found by what they have told, in order.
    """
    for taken in turn.state.archive.taken_by(source):
        step = event_step(taken.name, taken.event_key)
        serial = taken.serial
        if any((entry.kind, entry.name) == (EntryKind.EVENT, step) for entry in cut):
            told = [entry.outcome for entry in copied if (entry.kind, entry.name) == (EntryKind.EVENT, step)]
            serial = 0
            for event in turn.state.post.broadcasts(taken.name, taken.event_key):
                if told and event.payload == told[0]:
                    del told[0]
                    serial = event.serial
        yield attrs.evolve(taken, serial=serial)


def _undone_since(turn: Turn, source: WorkflowRecord, cut: Sequence[HistoryEntry], tried: Tried) -> Owed | None:
    """The first step that the fork would take for done, although the source has undone it behind the copied part."""
    undone_in_copy = {step.position for step in tried.undone}
    owed = [step for step in tried.owed if step.position not in undone_in_copy]
    if not owed:
        return None
    history, undone = turn.state.chronicle.of(source.key), set[str]()
    is_safe = source.park_reason is not ParkReason.CRASHED
    whole = try_out(turn, source, history) if is_safe else None
    if isinstance(whole, Tried):
        undone = {step.position for step in whole.undone}
        # Rounds of loops that are over were not rebuilt. What they have undone, at least in part, is recorded.
        rebuilt = {entry.seq for entry in Past(history).entries}
        cut = [entry for entry in cut if entry.seq not in rebuilt and entry.status is EntryStatus.OK]
    # If the code at hand does not come as far as the source did, it is recorded where all of its undos stand.
    scopes = [scope for entry in cut if (scope := Position(entry.position).undo_scope) is not None]
    return next((step for step in owed if step.position in undone or _is_in(step, scopes)), None)


def _is_in(step: Owed, scopes: Sequence[Position]) -> bool:
    return any(not scope or scope.covers(step.position) for scope in scopes)


def _lost_loop(
    history: Sequence[HistoryEntry], copied: Sequence[HistoryEntry], waits: Iterable[str], position: str
) -> str | None:
    """A loop that may have been further by then than its open rounds are now, which are the first ones.

    A loop at the position itself, or below it, is done again from its first round and needs none of them.
    """
    until = next((entry.seq for entry in effective(history)[len(copied) :]), last_seq(history) + 1)
    if sum(entry.seq < until for entry in history) == until - 1:
        # Nothing was trimmed before it.
        return None
    for loop in Past(history).loops:
        if Position(position).covers(loop):
            continue
        first = next(entry for entry in history if Position(loop).covers(entry.position))
        # One that begins with a state has lost what came before it.
        is_trimmed = first.kind is EntryKind.LOOP and Position(first.position).loop == loop
        if is_trimmed and first.seq >= until and any(map(Position(loop).covers, waits)):
            return loop
    return None

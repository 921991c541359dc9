"""Fork: run a workflow again from an earlier position, under another id, beside the first.

The entries before that position are copied into the new history. Mail and children stay with the source. Refused if a
step in the copied part was undone by the source later: the fork would take it for done. Also refused if rounds of a
loop that the fork would need are trimmed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs

from durable.engine.decide.body import last_seq, load
from durable.engine.decide.dry_run import Misfit, Tried, nothing_there, try_out
from durable.engine.decide.facts import tell_start
from durable.engine.decide.start import adopt_mail
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
    """Start a workflow with a copy of another's history before a position. Raises `WorkflowNotFound`."""
    state = turn.state
    source = state.record(op.id)
    if (stored := state.find(op.new_id)) is not None:
        return WorkflowAlreadyExists(op.new_id, stored.name)
    if not state.shard.owns_key(source.key):
        raise NotAcrossShards(f"a fork of {source.id!r}, which lives in another shard than {op.new_id!r},")
    history = state.chronicle.of(source.key)
    recorded = effective(history)
    copied = _before(recorded, op.position)
    if copied is None:
        return CannotFork(source.id, op.position, nothing_there(recorded))
    if any(entry.kind is EntryKind.CANCEL for entry in copied):
        return CannotFork(source.id, op.position, "it was already being cancelled there; choose an earlier position")
    # Entries that did not advance the body do not extend the copied part.
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
        trace=source.trace,
    )
    tried = try_out(turn, record, [*copied, note])
    if isinstance(tried, Misfit):
        return CannotFork(source.id, op.position, tried.detail)
    if (step := _undone_since(turn, source, recorded[len(copied) :], tried)) is not None:
        problem = f"{step.op} at {step.position} was undone later; fork it from {step.position} or an earlier position"
        return CannotFork(source.id, op.position, problem)
    if (loop := _lost_loop(history, copied, tried.waits, op.position)) is not None:
        problem = f"earlier rounds of the loop at {loop} are trimmed; choose a later position"
        return CannotFork(source.id, op.position, problem)
    state.next_serial()
    state.workflows.register_workflow(record, begins_later=True)
    tell_start(turn, record)
    state.chronicle.add(record.key, [*copied, note])
    for taken in list(_taken(turn, source, copied, recorded[len(copied) :])):
        state.archive.put_taken(attrs.evolve(taken, workflow_key=record.key))
    adopt_mail(turn, record)
    load(turn, record)
    return None


def _before(recorded: list[HistoryEntry], position: str) -> list[HistoryEntry] | None:
    """The entries before the first one at or below a position. None if the position is not recorded at all."""
    notes = False
    for number, entry in enumerate(recorded):
        if Position(position).covers(entry.position):
            if entry.kind not in NOTES:
                return recorded[:number]
            notes = True
    # The step that was retried here has no result yet.
    return recorded if notes else None


def _taken(
    turn: Turn, source: WorkflowRecord, copied: Sequence[HistoryEntry], cut: Sequence[HistoryEntry]
) -> Iterator[TakenBroadcast]:
    """Which broadcasts the source had taken at the end of the copied part: the fork must not take them again.

    A history does not say which broadcast an entry came from, so they are matched by payload, in order.
    """
    for taken in turn.state.archive.taken_by(source):
        step = event_step(taken.name, taken.event_key)
        serial = taken.serial
        if any((entry.kind, entry.name) == (EntryKind.EVENT, step) for entry in cut):
            payloads = [entry.outcome for entry in copied if (entry.kind, entry.name) == (EntryKind.EVENT, step)]
            serial = 0
            for event in turn.state.post.broadcasts(taken.name, taken.event_key):
                if payloads and event.payload == payloads[0]:
                    del payloads[0]
                    serial = event.serial
        yield attrs.evolve(taken, serial=serial)


def _undone_since(turn: Turn, source: WorkflowRecord, cut: Sequence[HistoryEntry], tried: Tried) -> Owed | None:
    """The first step that the fork would take for done, although the source has undone it after the copied part."""
    undone_in_copy = {step.position for step in tried.undone}
    owed = [step for step in tried.owed if step.position not in undone_in_copy]
    if not owed:
        return None
    history, undone = turn.state.chronicle.of(source.key), set[str]()
    is_safe = source.park_reason is not ParkReason.CRASHED
    whole = try_out(turn, source, history) if is_safe else None
    if isinstance(whole, Tried):
        undone = {step.position for step in whole.undone}
        # Finished rounds of loops were not rebuilt. Their undos can only be seen in the history, at least in part.
        rebuilt = {entry.seq for entry in Past(history).entries}
        cut = [entry for entry in cut if entry.seq not in rebuilt and entry.status is EntryStatus.OK]
    # If the current code does not get as far as the source did, the recorded positions show where its undos ran.
    scopes = [scope for entry in cut if (scope := Position(entry.position).undo_scope) is not None]
    return next((step for step in owed if step.position in undone or _is_in(step, scopes)), None)


def _is_in(step: Owed, scopes: Sequence[Position]) -> bool:
    """Whether a step is in one of these scopes. The empty scope is that of the whole workflow."""
    return any(not scope or scope.covers(step.position) for scope in scopes)


def _lost_loop(
    history: Sequence[HistoryEntry], copied: Sequence[HistoryEntry], waits: Iterable[str], position: str
) -> str | None:
    """A loop that is open in the fork and whose earlier rounds were trimmed, so that the fork would start it again.

    A loop at or below the position itself starts again from its first round anyway, and needs no earlier rounds.
    """
    until = next((entry.seq for entry in effective(history)[len(copied) :]), last_seq(history) + 1)
    if sum(entry.seq < until for entry in history) == until - 1:
        # Nothing was trimmed before the position.
        return None
    for loop in Past(history).loops:
        if Position(position).covers(loop):
            continue
        first = next(entry for entry in history if Position(loop).covers(entry.position))
        # If its first entry is a state, the rounds before that state were trimmed.
        is_trimmed = first.kind is EntryKind.LOOP and Position(first.position).loop == loop
        if is_trimmed and first.seq >= until and any(map(Position(loop).covers, waits)):
            return loop
    return None

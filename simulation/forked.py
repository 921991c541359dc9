"""Forks: how the ledger enters them, and I36: a fork has the entries that its source had before a position.

The copied entries of a fork did not happen in its commit. So the checker enters them in the ledger first and removes
them from the commit that the rules see. For the rules a fork is then a workflow that existed before.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable

import attrs

from durable.backends.base import Batch
from durable.model.position import Position
from durable.model.records import EntryKind, EntryStatus, HistoryEntry, WorkflowRecord
from durable.runner.past import NOTES, Forked
from simulation.activities import release
from simulation.ledger import Ledger, Life
from simulation.violation import Violation


def take_over(ledger: Ledger, batch: Batch) -> Batch:
    """Enter the forks of a commit in the ledger. Returns the commit without the copied entries."""
    notes = [(key, entry) for key, entry in batch.history if entry.kind is EntryKind.FORKED]
    for key, note in notes if batch.workflows_new else ():
        record = batch.workflows_new.get(key)
        if record is None:
            raise Violation("I36", f"workflow {key} existed before, and becomes a fork")
        _enter(ledger, batch, record, note)
        own = [(owner, entry) for owner, entry in batch.history if owner != key or entry.seq > note.seq]
        batch = attrs.evolve(batch, history=own)
    return batch


def _enter(ledger: Ledger, batch: Batch, record: WorkflowRecord, note: HistoryEntry) -> None:
    """Enter one fork in the ledger, after comparing its copy with the history of its source."""
    source = ledger.life(Forked.of(note).source)
    if source is None:
        raise Violation("I36", f"{record.id} is a fork of {Forked.of(note).source}, which is not stored")
    fork = Life(record, is_modern=ledger.has_new_code and source.is_modern)
    copied = [entry for owner, entry in batch.history if owner == record.key and entry.seq < note.seq]
    past = copied
    if source.record.key not in batch.restarted:
        past = _past(source, batch, record.key, note)
        trimmed = source.trimmed | {seq for owner, seq in batch.history_trimmed if owner == source.record.key}
        fork.lost = {entry.seq for entry in past} - {entry.seq for entry in copied}
        fork.trimmed = set(fork.lost)
        if not fork.lost <= trimmed or [entry for entry in past if entry.seq not in fork.lost] != copied:
            fact = f"{record.id}, a fork of {source.record.id} at {note.position}, has copied"
            raise Violation("I36", f"{fact} {[entry.seq for entry in copied]} of {[entry.seq for entry in past]}")
    for entry in (*past, note):
        fork.learn(entry)
    fork.absent = {*range(1, note.seq + 1)} - {entry.seq for entry in fork.entries}
    ledger.lives[record.key] = fork
    ledger.mail.copy(record.key, past)


def _past(source: Life, batch: Batch, fork: int, note: HistoryEntry) -> list[HistoryEntry]:
    """The valid entries that a workflow had before a position when it was forked there.

    Entries that it adds later in the same commit do not count. None of these steps may have been undone since: the fork
    would treat it as done.
    """
    before = itertools.takewhile(lambda row: row != (fork, note), batch.history)
    then = Life(source.record)
    for entry in (*source.entries, *(entry for owner, entry in before if owner == source.record.key)):
        then.learn(entry)
    standing = [entry for entry in then.entries if entry.seq not in then.void]
    is_there = [Position(note.position).covers(entry.position) and entry.kind not in NOTES for entry in standing]
    past = standing[: is_there.index(True)] if True in is_there else standing
    undone = {then.held[number] for number in _undone(then.entries) - _undone(past) if number in then.held}
    # Of a saga that had failed by then the fork does the undos again, and takes nothing in it for done.
    sagas = {then.held[number]: Position(at).undo_scope for at, number in then.released if number in then.held}
    undone = {position for position in undone if not _has_failed(past, sagas.get(position))}
    scope = Position(note.position).undo_scope
    if scope is not None:
        # A fork at an undo repeats that undo, and treats no step in its scope as done.
        undone = {position for position in undone if scope and not scope.covers(position)}
    if any(entry.position in undone and entry.status is EntryStatus.OK for entry in past):
        raise Violation("I36", f"{source.record.id} is forked at {note.position}, and has undone {undone} since")
    return past


def _has_failed(past: Iterable[HistoryEntry], saga: Position | None) -> bool:
    """Whether something had failed for good inside a saga."""
    errors = (entry for entry in past if entry.status is EntryStatus.ERROR)
    return bool(saga) and saga is not None and any(saga.covers(entry.position) for entry in errors)


def _undone(entries: Iterable[HistoryEntry]) -> set[int]:
    """The numbers of the steps that were undone. A step whose undo failed stays done."""
    well = (entry for entry in entries if entry.name == release.name and entry.status is EntryStatus.OK)
    return {json.loads(entry.outcome)[1] for entry in well}

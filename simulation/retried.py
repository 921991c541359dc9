"""Invariants of retries: a failed workflow continues only if an operator wants it, and only its last failure is void.

A workflow that has ended never changes, except as described here. Rules like those of `rules`.
"""

from __future__ import annotations

from durable.backends.base import Batch
from durable.engine.operations.messages import RetryChild
from durable.model.records import EntryKind, EntryStatus, HistoryEntry, WorkflowStatus
from durable.runner.past import Retried
from simulation.ledger import NOTES, Ledger, Life
from simulation.violation import Violation

# The part of a position that marks an undo.
_UNDO = "u"


def is_reopened(ledger: Ledger, batch: Batch, key: int) -> bool:
    """Whether a workflow that has ended may continue in this commit: it was retried, or its parent was."""
    record = ledger.lives[key].record
    # A workflow that began another round in the same commit has left no note of the retry.
    is_noted = key in batch.restarted or any(owner == key for owner, _ in ledger.entries(EntryKind.RETRIED))
    if record.status is WorkflowStatus.FAILED:
        return is_noted and _is_wanted(ledger, key)
    return record.status is WorkflowStatus.CANCELLED and is_restarted(ledger, batch, key)


def is_restarted(ledger: Ledger, batch: Batch, key: int) -> bool:
    """Whether a child that was cancelled with its parent is restarted, because the parent was retried."""
    record = ledger.lives[key].record
    parent = record.parent_key
    if parent is None or key not in batch.restarted or record.id in ledger.axed:
        return False
    asked = (letter.message for letter in ledger.post.handled if isinstance(letter.message, RetryChild))
    is_asked = any(message.child_id == record.id for message in asked)
    return _is_wanted(ledger, parent) and (is_asked or ledger.lives[parent].has_ended)


def _is_wanted(ledger: Ledger, key: int | None) -> bool:
    """Whether an operator asked for the retry of a workflow, or of one of its ancestors."""
    while key is not None:
        record = ledger.lives[key].record
        if record.id in ledger.mended:
            return True
        key = record.parent_key
    return False


def i35_a_retry_voids_the_last_failure(ledger: Ledger, batch: Batch, now: int) -> None:
    """A retry voids all attempts of the step whose error ended the workflow, and nothing else."""
    for key, note in ledger.entries(EntryKind.RETRIED):
        life = ledger.lives[key]
        void = set(Retried.of(note).entries)
        recorded = _recorded_before(life, note)
        if void != _failure(recorded):
            raise Violation("I35", f"{life.record.id} is retried, and entries {void} are void: {life.entries}")
        if recorded and _UNDO in recorded[-1].position.split("."):
            raise Violation("I35", f"{life.record.id} is retried after it had undone steps: {life.released}")


def _recorded_before(life: Life, note: HistoryEntry) -> list[HistoryEntry]:
    """The entries of a workflow before it was retried, without those that earlier retries made void."""
    void: set[int] = set()
    for entry in life.entries:
        if entry.kind is EntryKind.RETRIED and entry.seq < note.seq:
            void.update(Retried.of(entry).entries)
    earlier = (entry for entry in life.entries if entry.seq < note.seq and entry.kind not in NOTES)
    return [entry for entry in earlier if entry.seq not in void]


def _failure(recorded: list[HistoryEntry]) -> set[int]:
    """The entries of the step that failed last, if its failure is the last entry."""
    if not recorded or recorded[-1].status is not EntryStatus.ERROR:
        return set()
    return {entry.seq for entry in recorded if entry.position == recorded[-1].position}

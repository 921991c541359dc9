"""Invariants of retries: who has failed goes on only if an operator wants it, and only its last failure is void.

What has ended stays as it is; here is what an accepted retry changes. Asked like the rules of `rules`.
"""

from __future__ import annotations

from durable.backends.base import Batch
from durable.engine.operations.messages import RetryChild
from durable.model.records import EntryKind, EntryStatus, HistoryEntry, WorkflowStatus
from durable.runner.past import Retried
from simulation.ledger import NOTES, Ledger, Life
from simulation.violation import Violation

# The part of a position that says that it stands in an undo.
_UNDO = "u"


def is_reopened(ledger: Ledger, batch: Batch, key: int) -> bool:
    """Whether a workflow that has ended may go on in this commit: it was retried, or its parent was."""
    record = ledger.lives[key].record
    # Who goes on as another round in the same commit has left no note.
    is_noted = key in batch.restarted or any(
        owner == key and entry.kind is EntryKind.RETRIED for owner, entry in batch.history
    )
    if record.status is WorkflowStatus.FAILED:
        return is_noted and _is_wanted(ledger, key)
    return record.status is WorkflowStatus.CANCELLED and is_restarted(ledger, batch, key)


def is_restarted(ledger: Ledger, batch: Batch, key: int) -> bool:
    """Whether a child that was cancelled with its parent begins anew, because that was retried."""
    record = ledger.lives[key].record
    parent = record.parent_key
    if parent is None or key not in batch.restarted or record.id in ledger.axed:
        return False
    asked = (letter.message for letter in ledger.post.handled if isinstance(letter.message, RetryChild))
    is_asked = any(message.child_id == record.id for message in asked)
    return _is_wanted(ledger, parent) and (is_asked or ledger.lives[parent].has_ended)


def _is_wanted(ledger: Ledger, key: int | None) -> bool:
    """Whether an operator has asked for the retry of a workflow, or of one above it."""
    while key is not None:
        record = ledger.lives[key].record
        if record.id in ledger.mended:
            return True
        key = record.parent_key
    return False


def i35_a_retry_voids_the_last_failure(ledger: Ledger, batch: Batch, now: int) -> None:
    """The step whose error ended the workflow begins anew, with all its attempts; everything else stands."""
    for key, note in batch.history:
        if note.kind is not EntryKind.RETRIED:
            continue
        life = ledger.lives[key]
        void = set(Retried.of(note).entries)
        learnt = _learnt_before(life, note)
        if void != _failure(learnt):
            raise Violation("I35", f"{life.record.id} is retried, and entries {void} are void: {life.entries}")
        if learnt and _UNDO in learnt[-1].position.split("."):
            raise Violation("I35", f"{life.record.id} is retried, and what it had done was undone: {life.released}")


def _learnt_before(life: Life, note: HistoryEntry) -> list[HistoryEntry]:
    """What a workflow had learnt before it was retried, without what was void by then."""
    gone: set[int] = set()
    for entry in life.entries:
        if entry.kind is EntryKind.RETRIED and entry.seq < note.seq:
            gone.update(Retried.of(entry).entries)
    return [one for one in life.entries if one.seq < note.seq and one.kind not in NOTES and one.seq not in gone]


def _failure(learnt: list[HistoryEntry]) -> set[int]:
    """The entries of the step that failed last, if the last thing learnt was its failure."""
    if not learnt or learnt[-1].status is not EntryStatus.ERROR:
        return set()
    return {one.seq for one in learnt if one.position == learnt[-1].position}

"""Invariants of pauses: a recorded answer is one that a person gave, and no pause expires before its time.

Rules like those of `rules`, run before the commit is booked.
"""

from __future__ import annotations

from durable.backends.base import Batch
from durable.errors import PauseCancelled, PauseExpired
from durable.model.error_codec import error_summary
from durable.model.exceptions.stored_names import stored_name
from durable.model.records import EntryKind, EntryStatus, EventWait, HistoryEntry
from simulation.ledger import Ledger
from simulation.violation import Violation

_EXPIRED = stored_name(PauseExpired)
_CANCELLED = stored_name(PauseCancelled)


def i12_an_answer_was_given(ledger: Ledger, batch: Batch, now: int) -> None:
    """The recorded end of a pause is an answer that a person tried to give, a cancel that one asked for, or expiry."""
    for key, entry in ledger.entries(EntryKind.PAUSE):
        record = batch.workflows_new.get(key) or batch.workflows_changed.get(key) or ledger.lives[key].record
        wanted = ledger.wanted.get((key, record.round, entry.position), set())
        if entry.status is EntryStatus.OK:
            is_wanted = entry.outcome in wanted
        else:
            kind, _ = error_summary(entry.outcome)
            is_wanted = kind == _EXPIRED or (kind == _CANCELLED and "" in wanted)
        if not is_wanted:
            raise Violation("I12", f"workflow {key} records {entry.outcome} at {entry.position}; wanted was {wanted}")


def i19_a_pause_expires_in_its_time(ledger: Ledger, batch: Batch, now: int) -> None:
    """A pause expires only if it has a deadline, and not before it."""
    for key, entry in ledger.entries(EntryKind.PAUSE):
        if entry.status is EntryStatus.ERROR:
            wait = ledger.lives[key].waits.get(entry.position) if key in ledger.lives else None
            if wait is not None and error_summary(entry.outcome)[0] == _EXPIRED and _is_early(wait, entry):
                raise Violation("I19", f"workflow {key} records at {entry.at_us} that {wait} has expired")


def _is_early(wait: EventWait, entry: HistoryEntry) -> bool:
    expires_at = None if wait.question is None else wait.question.expires_at
    return expires_at is None or entry.at_us < expires_at

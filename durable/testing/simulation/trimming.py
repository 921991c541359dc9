"""Invariants of what is looked up in a history: old rounds of loops are trimmed, and answers of `patched` stand.

What must be trimmed follows from the entries alone: from their positions, and from the states between the rounds, which
say how many rounds are kept. So a rebuilt body has to trim as one that never left the memory.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

from durable.backends.base import Batch
from durable.records import EntryKind, EntryStatus, HistoryEntry
from durable.testing.simulation.activities import hold, release
from durable.testing.simulation.ledger import Ledger, Life
from durable.testing.simulation.violation import Violation


def i33_old_rounds_are_trimmed(ledger: Ledger, batch: Batch, now: int) -> None:
    """The rounds of a loop that are over, beyond those to keep, are trimmed; nothing else is, and nothing owed."""
    touched = {key for key, _ in batch.history_trimmed}
    touched |= {key for key, entry in batch.history if entry.kind is EntryKind.LOOP}
    for key in touched:
        life = ledger.lives[key]
        unneeded = _unneeded(life)
        if life.trimmed != unneeded:
            left, lost = sorted(unneeded - life.trimmed), sorted(life.trimmed - unneeded)
            raise Violation("I33", f"{life.record.id}: entries {left} are not trimmed, and {lost} are still needed")


def _unneeded(life: Life) -> set[int]:
    """All entries of this round of a workflow that must have been trimmed by now."""
    last: dict[str, HistoryEntry] = {}
    for entry in life.entries:
        if entry.kind is EntryKind.LOOP and entry.status is EntryStatus.OK:
            last[_loop(entry)] = entry
    found: set[int] = set()
    for loop, entry in last.items():
        rounds = [*_rounds(life, loop)]
        # Rounds are trimmed when a state is recorded: what was undone after the last one has held them then.
        undone = {_number(one) for one in life.entries if one.name == release.name and one.seq < entry.seq}
        _, keep, *_ = json.loads(entry.outcome)["state"]
        owing = [start for start, entries in rounds if any(_is_owed(one, undone) for one in entries)]
        first = min([_round(entry) - keep, *owing])
        for (_, entries), (following, _) in itertools.pairwise(rounds):
            if following <= first:
                found.update(one.seq for one in entries)
    return found


def _rounds(life: Life, loop: str) -> Iterator[tuple[int, list[HistoryEntry]]]:
    """The entries of a loop, by the recorded states: with which round they begin, and all up to the next state.

    Rounds that have learnt nothing have no state of their own.
    """
    start: int = 0
    entries: list[HistoryEntry] = []
    for entry in life.entries:
        if entry.kind is EntryKind.LOOP and _loop(entry) == loop:
            yield start, entries
            start, entries = _round(entry), []
        if entry.position.startswith(f"{loop}."):
            entries.append(entry)
    yield start, entries


def _loop(entry: HistoryEntry) -> str:
    """The position of the loop whose state an entry is."""
    return entry.position.rsplit(".", 2)[0]


def _round(entry: HistoryEntry) -> int:
    return int(entry.position.rsplit(".", 2)[1])


def _is_owed(entry: HistoryEntry, undone: set[int | None]) -> bool:
    """Whether a step was done that is undone if the workflow fails, and has not been."""
    number = _number(entry) if entry.name == hold.name else None
    return number is not None and number not in undone


def _number(entry: HistoryEntry) -> int | None:
    """The number of the step that was done or undone; an undo that has failed is still owed."""
    return int(json.loads(entry.outcome)[1]) if entry.status is EntryStatus.OK else None


def i34_an_answer_stands(ledger: Ledger, batch: Batch, now: int) -> None:
    """`patched` is answered once for each change, and never "no" where only the new code has ever run."""
    for key in {key for key, entry in batch.history if entry.kind is EntryKind.PATCH}:
        life = ledger.lives[key]
        answers = [(entry.name, entry.outcome) for entry in life.entries if entry.kind is EntryKind.PATCH]
        if len({name for name, _ in answers}) != len(answers):
            raise Violation("I34", f"{life.record.id} was told more than once: {answers}")
        if life.is_modern and any(answer != "true" for _, answer in answers):
            raise Violation("I34", f"{life.record.id} has run no other code than the new one: {answers}")

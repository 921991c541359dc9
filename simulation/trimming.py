"""Invariants of histories: old rounds of loops are trimmed (I33), and answers of `patched` do not change (I34).

The entries alone determine what must be trimmed: their positions, and the states between the rounds, which say how many
rounds are kept. So a rebuilt body has to trim the same entries as one that never left the memory.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from durable.backends.base import Batch
from durable.model.records import EntryKind, EntryStatus, HistoryEntry
from simulation.activities import hold, release, work
from simulation.ledger import Ledger, Life
from simulation.steps import Step, program_of
from simulation.violation import Violation

# By the number of a step: the loops around it, each with the round in which the step is.
Places = Mapping[int, tuple[tuple[int, int], ...]]


def i33_old_rounds_are_trimmed(ledger: Ledger, batch: Batch, now: int) -> None:
    """Finished rounds of a loop beyond those to keep are trimmed, and no other entry is: no step with an owed undo."""
    touched = {key for key, _ in batch.history_trimmed}
    touched |= {key for key, _ in ledger.entries(EntryKind.LOOP)}
    for key in touched:
        life = ledger.lives[key]
        unneeded = _unneeded(life)
        if not life.trimmed - life.lost <= unneeded <= life.trimmed:
            kept, lost = sorted(unneeded - life.trimmed), sorted(life.trimmed - unneeded)
            raise Violation("I33", f"{life.record.id}: entries {kept} are not trimmed, and {lost} are still needed")


def i33_a_round_is_recorded(ledger: Ledger, batch: Batch, now: int) -> None:
    """Between two rounds with entries the state is recorded, so that a replay can continue from there."""
    for key, entry in ledger.entries(EntryKind.ACTIVITY):
        if entry.status is not EntryStatus.OK:
            continue
        life = ledger.lives[key]
        where = _places(life.record.input)
        for loop, round in where.get(_number(entry), ()):
            before = [past.seq for past in life.entries if _is_before(where, past, loop, round)]
            states = [past.seq for past in life.entries if past.kind is EntryKind.LOOP and _state(past)[0] == loop]
            if before and not any(before[-1] < state < entry.seq for state in states):
                raise Violation("I33", f"{life.record.id}: loop {loop} is in round {round}, and has no state for it")


def _is_before(where: Places, entry: HistoryEntry, loop: int, round: int) -> bool:
    """Whether an entry is the result of a step in an earlier round of a loop."""
    if entry.kind is not EntryKind.ACTIVITY or entry.status is not EntryStatus.OK:
        return False
    return any(around == loop and number < round for around, number in where.get(_number(entry), ()))


def _number(entry: HistoryEntry) -> int:
    """The number of the `work` or `hold` step whose result this is; 0 for other entries."""
    return msgspec.json.decode(entry.outcome)[1] if entry.name in (work.name, hold.name) else 0


@functools.lru_cache(4096)
def _places(input: str) -> Places:
    """The places of all steps of a program."""
    places: dict[int, tuple[tuple[int, int], ...]] = {}

    def visit(step: Step, around: tuple[tuple[int, int], ...]) -> None:
        places[step.n] = around
        for index, inner in enumerate(step.steps):
            visit(inner, (*around, (step.n, index)) if step.op == "loop" else around)

    visit(program_of(input), ())
    return places


def _state(entry: HistoryEntry) -> list[Any]:
    """The state that an entry of a loop records; it begins with the loop's number and the rounds to keep."""
    state: list[Any] = msgspec.json.decode(entry.outcome)["state"]
    return state


def _unneeded(life: Life) -> set[int]:
    """The numbers of all entries of this round of a workflow that must have been trimmed."""
    last: dict[str, HistoryEntry] = {}
    for entry in _standing(life):
        if entry.kind is EntryKind.LOOP and entry.status is EntryStatus.OK:
            last[_loop(entry)] = entry
    unneeded: set[int] = set()
    for loop, entry in last.items():
        rounds = [*_rounds(life, loop)]
        if any(all(_is_state(past, loop) for past in entries) for _, entries in rounds[:-1]):
            raise Violation("I33", f"{life.record.id}: a round of the loop at {loop} has no entries, but a state")
        # Rounds are trimmed when a state is recorded. Steps that were undone after the last one were still owed then.
        undone = {_held(past) for past in _standing(life) if past.name == release.name and past.seq < entry.seq}
        keep = _state(entry)[1]
        owing = [start for start, entries in rounds if any(_is_owed(past, undone) for past in entries)]
        first = min([_round(entry) - keep, *owing])
        for (_, entries), (following, _) in itertools.pairwise(rounds):
            if following <= first:
                unneeded.update(past.seq for past in entries)
    return unneeded


def _standing(life: Life) -> list[HistoryEntry]:
    """The entries that count: without the notes of operators, and without those that a retry made void."""
    notes = (EntryKind.RETRIED, EntryKind.FORKED)
    return [entry for entry in life.entries if entry.kind not in notes and entry.seq not in life.void]


def _rounds(life: Life, loop: str) -> Iterator[tuple[int, list[HistoryEntry]]]:
    """The entries of a loop, split at its recorded states: the round in which each part begins, and its entries.

    Rounds without entries have no state.
    """
    start: int = 0
    entries: list[HistoryEntry] = []
    for entry in _standing(life):
        if _is_state(entry, loop):
            yield start, entries
            start, entries = _round(entry), []
        if entry.position.startswith(f"{loop}."):
            entries.append(entry)
    yield start, entries


def _loop(entry: HistoryEntry) -> str:
    """The position of the loop whose state an entry is."""
    return entry.position.rsplit(".", 2)[0]


def _is_state(entry: HistoryEntry, loop: str) -> bool:
    return entry.kind is EntryKind.LOOP and _loop(entry) == loop


def _round(entry: HistoryEntry) -> int:
    """The round in whose position an entry of a loop is."""
    return int(entry.position.rsplit(".", 2)[1])


def _is_owed(entry: HistoryEntry, undone: set[int | None]) -> bool:
    """Whether this is a step that would be undone if the workflow failed, and has not been undone."""
    number = _held(entry) if entry.name == hold.name else None
    return number is not None and number not in undone


def _held(entry: HistoryEntry) -> int | None:
    """The number of the step that was done or undone; None if the step or its undo failed."""
    return int(msgspec.json.decode(entry.outcome)[1]) if entry.status is EntryStatus.OK else None


def i34_an_answer_stands(ledger: Ledger, batch: Batch, now: int) -> None:
    """`patched` is answered once for each change, and always with True if only the new code has run."""
    for key in {key for key, _ in ledger.entries(EntryKind.PATCH)}:
        life = ledger.lives[key]
        answers = [(entry.name, entry.outcome) for entry in life.entries if entry.kind is EntryKind.PATCH]
        if len({name for name, _ in answers}) != len(answers):
            raise Violation("I34", f"{life.record.id} has more than one answer for a change: {answers}")
        if life.is_modern and any(answer != "true" for _, answer in answers):
            raise Violation("I34", f"{life.record.id} has only run the new code, and was answered {answers}")

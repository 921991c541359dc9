"""Invariants of what is looked up in a history: old rounds of loops are trimmed, and answers of `patched` stand.

What must be trimmed follows from the entries alone: from their positions, and from the states between the rounds, which
say how many rounds are kept. So a rebuilt body has to trim as one that never left the memory.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

from durable.backends.base import Batch
from durable.model.records import EntryKind, EntryStatus, HistoryEntry
from simulation.activities import hold, release, work
from simulation.ledger import Ledger, Life
from simulation.steps import Step, read
from simulation.violation import Violation

# By the number of a step: the loops around it, and in which of their rounds it stands.
Places = Mapping[int, tuple[tuple[int, int], ...]]


def i33_old_rounds_are_trimmed(ledger: Ledger, batch: Batch, now: int) -> None:
    """The rounds of a loop that are over, beyond those to keep, are trimmed; nothing else is, and nothing owed."""
    touched = {key for key, _ in batch.history_trimmed}
    touched |= {key for key, entry in batch.history if entry.kind is EntryKind.LOOP}
    for key in touched:
        life = ledger.lives[key]
        unneeded = _unneeded(life)
        if not life.trimmed - life.lost <= unneeded <= life.trimmed:
            left, lost = sorted(unneeded - life.trimmed), sorted(life.trimmed - unneeded)
            raise Violation("I33", f"{life.record.id}: entries {left} are not trimmed, and {lost} are still needed")


def i33_a_round_is_recorded(ledger: Ledger, batch: Batch, now: int) -> None:
    """Between two rounds that have learnt something the state is recorded: a replay goes on from there."""
    for key, entry in batch.history:
        if entry.kind is not EntryKind.ACTIVITY or entry.status is not EntryStatus.OK:
            continue
        life = ledger.lives[key]
        where = _places(life.record.input)
        for loop, round in where.get(_number(entry), ()):
            before = [one.seq for one in life.entries if _is_before(where, one, loop, round)]
            states = [one.seq for one in life.entries if one.kind is EntryKind.LOOP and _state(one)[0] == loop]
            if before and not any(before[-1] < state < entry.seq for state in states):
                raise Violation("I33", f"{life.record.id}: loop {loop} is in round {round}, and no state says so")


def _is_before(where: Places, entry: HistoryEntry, loop: int, round: int) -> bool:
    """Whether an entry is the result of a step in an earlier round of a loop."""
    if entry.kind is not EntryKind.ACTIVITY or entry.status is not EntryStatus.OK:
        return False
    return any(one == loop and number < round for one, number in where.get(_number(entry), ()))


def _number(entry: HistoryEntry) -> int:
    """The number of the step that worked; 0 for others."""
    return json.loads(entry.outcome)[1] if entry.name in (work.name, hold.name) else 0


@functools.lru_cache(4096)
def _places(input: str) -> Places:
    """Of each step of a program, by its number: in which loops it stands, and in which of their rounds."""
    found: dict[int, tuple[tuple[int, int], ...]] = {}

    def look(step: Step, around: tuple[tuple[int, int], ...]) -> None:
        found[step.n] = around
        for index, inner in enumerate(step.steps):
            look(inner, (*around, (step.n, index)) if step.op == "loop" else around)

    look(read(json.loads(input)["program"]), ())
    return found


def _state(entry: HistoryEntry) -> list[Any]:
    state: list[Any] = json.loads(entry.outcome)["state"]
    return state


def _unneeded(life: Life) -> set[int]:
    """All entries of this round of a workflow that must have been trimmed by now."""
    last: dict[str, HistoryEntry] = {}
    for entry in _standing(life):
        if entry.kind is EntryKind.LOOP and entry.status is EntryStatus.OK:
            last[_loop(entry)] = entry
    found: set[int] = set()
    for loop, entry in last.items():
        rounds = [*_rounds(life, loop)]
        if any(all(_is_state(one, loop) for one in entries) for _, entries in rounds[:-1]):
            raise Violation(
                "I33", f"{life.record.id}: a round of the loop at {loop} has learnt nothing and is recorded"
            )
        # Rounds are trimmed when a state is recorded: what was undone after the last one has held them then.
        undone = {_held(one) for one in _standing(life) if one.name == release.name and one.seq < entry.seq}
        keep = _state(entry)[1]
        owing = [start for start, entries in rounds if any(_is_owed(one, undone) for one in entries)]
        first = min([_round(entry) - keep, *owing])
        for (_, entries), (following, _) in itertools.pairwise(rounds):
            if following <= first:
                found.update(one.seq for one in entries)
    return found


def _standing(life: Life) -> list[HistoryEntry]:
    """What counts of a history: without the notes of operators, and what they have made void."""
    notes = (EntryKind.RETRIED, EntryKind.FORKED)
    return [one for one in life.entries if one.kind not in notes and one.seq not in life.void]


def _rounds(life: Life, loop: str) -> Iterator[tuple[int, list[HistoryEntry]]]:
    """The entries of a loop, by the recorded states: with which round they begin, and all up to the next state.

    Rounds that have learnt nothing have no state of their own.
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
    return int(entry.position.rsplit(".", 2)[1])


def _is_owed(entry: HistoryEntry, undone: set[int | None]) -> bool:
    """Whether a step was done that is undone if the workflow fails, and has not been."""
    number = _held(entry) if entry.name == hold.name else None
    return number is not None and number not in undone


def _held(entry: HistoryEntry) -> int | None:
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

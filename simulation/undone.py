"""I31: a workflow or saga that fails undoes its steps, once and in reverse; and no other step is undone.

Rules like those of `rules`. They read the results of sagas, which say which steps must be kept and which undone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from durable.backends.base import Batch
from durable.model.records import WorkflowRecord, WorkflowStatus
from simulation.activities import release
from simulation.holds import KEPT, UNDONE
from simulation.ledger import Ledger, Life
from simulation.violation import Violation


def i31_undone_once_and_in_reverse(ledger: Ledger, batch: Batch, now: int) -> None:
    """Only steps that were done are undone, none twice, and in each scope the step that was done last comes first."""
    for key in {key for key, entry in batch.history if entry.name == release.name}:
        life = ledger.lives[key]
        order = [*life.held]
        last: dict[str, int] = {}
        for position, number in life.released:
            if number not in life.held:
                raise Violation("I31", f"{life.record.id}: {number} is undone at {position} and was not done")
            scope = _scope(position)
            if order.index(number) >= last.get(scope, len(order)):
                raise Violation("I31", f"{life.record.id}: {number} is undone at {position}, out of order or again")
            last[scope] = order.index(number)
        numbers = [number for _, number in life.released]
        if len(set(numbers)) != len(numbers):
            raise Violation("I31", f"{life.record.id}: a step is undone twice: {life.released}")


def i31_nothing_stays_owed(ledger: Ledger, batch: Batch, now: int) -> None:
    """A workflow that failed or was cancelled has undone everything; one that succeeded, the steps of failed sagas."""
    for record in (*batch.workflows_new.values(), *batch.workflows_changed.values()):
        life = ledger.lives[record.key]
        if not record.status.is_terminal or not life.held or _is_cut_off(ledger, record):
            continue
        undone = {number for _, number in life.released}
        owed, kept = _wanted(life, record)
        if owed - undone or kept & undone:
            raise Violation("I31", f"{record.id} ends {record.status.value}: owed {owed}, kept {kept}, undone {undone}")


def _is_cut_off(ledger: Ledger, record: WorkflowRecord) -> bool:
    """Whether it was ended without its cleanup, by `terminate`."""
    return record.status is WorkflowStatus.CANCELLED and record.id in ledger.axed


def _wanted(life: Life, record: WorkflowRecord) -> tuple[set[int], set[int]]:
    """The numbers of the steps that must be undone at the end, and of those that must not be."""
    if record.status is not WorkflowStatus.SUCCEEDED:
        return set(life.held), set()
    sagas = [*_sagas(json.loads(record.result or "null"))]
    owed = {number for how, numbers in sagas if how == UNDONE for number in numbers}
    # A saga with one undone step must be undone completely.
    begun = {_scope(position) for position, _ in life.released}
    owed |= {number for number, at in life.held.items() if any(at.startswith(f"{scope}0.") for scope in begun)}
    outside = {number for position, number in life.released if not _scope(position)}
    return owed & set(life.held), {number for how, numbers in sagas if how == KEPT for number in numbers} | outside


def _scope(position: str) -> str:
    """The path of the saga that an undo at this position belongs to; empty for the workflow itself."""
    parts = position.split(".")
    last = len(parts) - 1 - parts[::-1].index("u")
    return "".join(f"{part}." for part in parts[:last])


def _sagas(value: Any) -> Iterator[tuple[str, list[int]]]:
    """What each saga in a result reports: kept or undone, and the numbers of its steps."""
    if isinstance(value, list):
        if len(value) == 3 and value[0] in (KEPT, UNDONE):
            yield value[0], value[2]
        for inner in value:
            yield from _sagas(inner)

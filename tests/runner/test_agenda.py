"""The earliest deadline of a body, with few waits and with many."""

from __future__ import annotations

import random
from collections.abc import Container

import pytest

from durable.runner.fibers import Agenda, Fiber, WaitCondition, arranged, due_by, earliest
from durable.runner.ops import Timer

FEW, MANY = 5, 60
both = pytest.mark.parametrize("count", [FEW, MANY])


def a_wait(number: int, deadline: int | None) -> WaitCondition:
    """A wait for a timer."""
    wait = WaitCondition(f"0.{number}", Timer(1), Fiber(None, "", None, 0), 0)
    wait.deadline = deadline
    return wait


class Deadlines:
    """A table of waits, arranged as a session does it before each query."""

    def __init__(self, deadlines: list[int | None]) -> None:
        self.waits: dict[str, WaitCondition] = {}
        self.all = [a_wait(number, deadline) for number, deadline in enumerate(deadlines)]
        for wait in self.all:
            self.put(wait)
        self.earliest()

    def put(self, wait: WaitCondition) -> None:
        """Add a wait, or set one again after its deadline has changed."""
        self.waits[wait.position] = wait

    def earliest(self, in_flight: Container[str] = ()) -> int | None:
        """The earliest deadline."""
        self.waits = arranged(self.waits)
        return earliest(self.waits, in_flight)

    def due(self, now: int) -> list[WaitCondition]:
        """The waits that are due."""
        self.waits = arranged(self.waits)
        return due_by(self.waits, now)


@both
def test_earliest_is_that_of_the_open_waits(count: int) -> None:
    """Closed waits, waits whose deadline has moved, and waits in flight do not count; the earliest other one does."""
    table = Deadlines(list(range(100, 100 + count)))
    first, second = table.all[:2]
    assert table.earliest() == 100
    del table.waits[first.position]
    assert table.earliest() == 101
    assert table.earliest({second.position}) == 102
    assert table.earliest() == 101
    second.deadline = 500
    table.put(second)
    assert table.earliest() == 102
    table.put(a_wait(count, 7))
    assert table.earliest() == 7


@both
def test_due_waits_come_in_their_order_and_stay_open(count: int) -> None:
    """Of equal deadlines the one set first comes first, and a query changes nothing."""
    table = Deadlines([200, *([100] * (count - 1))])
    del table.waits[table.all[1].position]
    assert table.due(99) == []
    for _ in range(2):
        assert table.due(100) == table.all[2:]
        assert table.due(200) == [*table.all[2:], table.all[0]]
    assert table.earliest() == 100


@both
def test_waits_without_a_deadline_are_never_due(count: int) -> None:
    """They stay in the table and do not affect the others, whether set before or after them."""
    table = Deadlines([None] * count)
    table.put(table.all[0])
    assert (table.earliest(), table.due(1 << 60)) == (None, [])


def test_dropped_waits_do_not_pile_up() -> None:
    """A body with many long timers that keeps adding and dropping another one leaves no trace of the dropped ones."""
    table = Deadlines([1000] * MANY)
    for number in range(50 * MANY):
        wait = a_wait(MANY + number, 2000 + number)
        table.put(wait)
        assert table.earliest() == 1000
        table.waits.pop(wait.position)
    assert isinstance(table.waits, Agenda)
    assert len(table.waits._heap) <= 5 * MANY


def test_table_that_is_empty_keeps_nothing() -> None:
    """When all waits are dropped at once, the heap is emptied too, although no query follows."""
    table = Deadlines([1000] * MANY)
    assert isinstance(table.waits, Agenda)
    for wait in table.all:
        table.waits.pop(wait.position, None)
    assert table.waits._heap == []


@pytest.mark.parametrize("seed", range(20))
def test_agenda_agrees_with_a_plain_search(seed: int) -> None:
    """After any sequence of additions and removals, queries give the same results as a scan of all waits."""
    dice, table = random.Random(seed), Deadlines([])
    for number in range(300):
        wait = a_wait(dice.randrange(40), dice.randrange(100))
        if dice.random() < 0.7:
            table.put(wait)
        else:
            table.waits.pop(wait.position, None)
        flights = set(dice.sample(sorted(table.waits), min(len(table.waits), number % 3)))
        dues = [wait.due or 0 for wait in table.waits.values() if wait.position not in flights]
        assert table.earliest(flights) == min(dues, default=None)
        now = dice.randrange(100)
        expected = {position for position, wait in table.waits.items() if (wait.due or 0) <= now}
        assert {wait.position for wait in table.due(now)} == expected

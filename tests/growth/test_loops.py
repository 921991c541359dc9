"""The work of one round of a loop, which does not grow with the rounds before it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from durable import Break, Continue, Durable, EngineConfig, loop, workflow
from durable.engine.operations import SendEvent
from tests.growth.counted import Counted, Work, go, step

KEEP = 3
MANY = 300


def stepping(number: int) -> Durable[Continue[int] | Break[int]]:
    """A round with one activity."""
    got = yield from step(number)
    return Continue(got) if got < 10 * MANY else Break(got)


def draining(left: int) -> Durable[Continue[int] | Break[None]]:
    """A round with one event."""
    yield from go.wait()
    return Continue(left - 1) if left > 1 else Break(None)


@workflow(name="growth.stepper")
def stepper() -> Durable[int]:
    """Rounds without end."""
    return (yield from loop(stepping, 0, keep=KEEP))


@workflow(name="growth.drainer")
def drainer(count: int) -> Durable[None]:
    """A first event, and then a round for each of many."""
    yield from go.wait("begin")
    yield from loop(draining, count, keep=KEEP)


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Counted]:
    """A coordinator with room for one body."""
    made = Counted(tmp_path / "store.db", EngineConfig(max_loaded_workflows=1))
    made.open()
    yield made
    made.close()


def rows(counted: Counted) -> int:
    """How many entries are stored of all workflows."""
    return sum(len(counted.backend.history(key)) for key in range(1, 10))


def test_round_is_one_commit(counted: Counted) -> None:
    """A round with a step takes one commit: two rows are written and the two of the oldest round are deleted."""
    counted.start([stepper()])
    for _ in range(KEEP + 1):
        counted.answer()
    for _ in range(3):
        work = counted.answer()
        assert (work.commits, work.hand_overs, work.replays) == (1, 1, 0)
        assert work.statements == {
            "BEGIN": 1, "UPDATE meta": 1, "INSERT history": 2, "DELETE history": 2, "COMMIT": 1,
        }  # fmt: skip
    assert rows(counted) == 2 * KEEP + 1


def test_round_does_not_grow_with_the_rounds_before_it(counted: Counted) -> None:
    """Hundreds of rounds cost as much as tens, in memory and after an eviction and a replay."""
    counted.start([stepper()])
    taken: dict[int, tuple[Work, Work]] = {}
    for number in range(1, MANY + 1):
        plain = counted.answer()
        if number in (10, MANY):
            # Another workflow takes the room, so that the next answer finds no body in memory.
            counted.start([drainer(1)], f"other-{number}-")
            taken[number] = (plain, counted.answer())
    few, many = taken[10], taken[MANY]
    assert [count.statements for count in few] == [count.statements for count in many]
    assert many[1].replays == 1
    assert many[0].vm_steps < 1.2 * few[0].vm_steps + 50
    assert many[1].vm_steps < 1.2 * few[1].vm_steps + 50
    assert rows(counted) <= 2 * KEEP + 3


def test_pending_events_cost_the_same_each(counted: Counted) -> None:
    """With a round for each pending event, twice as many events take twice the work, in one commit."""
    spent: list[Work] = []
    for number, count in enumerate((200, 400)):
        counted.start([drainer(count)], f"drain-{number}-")
        id = f"drain-{number}-0"
        counted.do(*(SendEvent(name=go.name, payload="1", to=id) for _ in range(count)))
        spent.append(counted.do(SendEvent(name=go.name, event_key="begin", payload="1", to=id)))
    few, many = spent
    assert few.commits == many.commits == 1
    assert many.total < 2.1 * few.total
    assert many.vm_steps < 2.2 * few.vm_steps

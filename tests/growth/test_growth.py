"""The work of each operation, counted and not timed: more of it is a regression on every machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from durable import EngineConfig
from durable.engine.operations import AwaitEnd, SendEvent
from tests.growth.counted import Counted, Work, one_step, sleeper, ten, waiter

HOUR = 3600
FINISHED = 1_000


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Counted]]:
    """Opens coordinators, one after the other, on one file."""
    made: list[Counted] = []

    def open_one(**config: Any) -> Counted:
        if made:
            made.pop().close()
        made.append(Counted(tmp_path / "store.db", EngineConfig(**config)))
        return made[-1]

    yield open_one
    made.pop().close()


def spent(work: Work) -> tuple[int, int, int, int]:
    """Commits, calls into the loop, rows and replays."""
    return work.commits, work.hand_overs, work.rows, work.replays


def test_steps_share_their_commits(make: Callable[..., Counted]) -> None:
    """A hundred workflows in lockstep take one commit and one call into the loop for each common step."""
    counted = make()
    counted.open()
    begun = counted.start(ten(number) for number in range(100))
    assert spent(begun) == (1, 1, 100, 0)
    # One read for all ids and, once in the life of an engine, one for events sent before their workflow.
    assert begun.statements == {
        "SELECT json_each": 1, "SELECT pending_event": 1, "BEGIN": 1, "UPDATE meta": 1, "INSERT workflow": 100,
        "COMMIT": 1,
    }  # fmt: skip
    for _ in range(9):
        step = counted.answer()
        assert spent(step) == (1, 1, 100, 0)
        assert step.statements == {"BEGIN": 1, "UPDATE meta": 1, "INSERT history": 100, "COMMIT": 1}
    last = counted.answer()
    assert spent(last) == (1, 0, 200, 0)
    assert last.total == 200 + 3


def test_one_alone(make: Callable[..., Counted]) -> None:
    """A workflow with one step takes two commits and three calls into the loop, including the answer to its caller."""
    counted = make()
    counted.open()
    counted.start([waiter()], "first-")
    begun = counted.start([one_step(1)])
    assert spent(begun) == (1, 1, 1, 0)
    assert begun.statements == {
        "SELECT workflow": 1, "BEGIN": 1, "UPDATE meta": 1, "INSERT workflow": 1, "COMMIT": 1,
    }  # fmt: skip
    asked = counted.do(AwaitEnd("w0"))
    assert (spent(asked), asked.total) == ((0, 0, 0, 0), 0)
    ended = counted.answer()
    assert spent(ended) == (1, 1, 2, 0)
    assert ended.statements == {"BEGIN": 1, "UPDATE meta": 1, "UPDATE workflow": 1, "INSERT history": 1, "COMMIT": 1}
    again = counted.do(AwaitEnd("w0"))
    assert (spent(again), again.total) == ((0, 1, 0, 0), 0)


def test_an_event_that_ends_a_workflow_is_one_commit(make: Callable[..., Counted]) -> None:
    """Taking an event, recording it and the end of the workflow are one commit and one call into the loop."""
    counted = make()
    counted.open()
    counted.start([waiter()])
    sent = counted.do(SendEvent(name="growth.go", payload="1", to="w0"))
    assert spent(sent) == (1, 1, 2, 0)
    assert sent.statements == {
        "BEGIN": 1, "UPDATE meta": 1, "DELETE event_wait": 1, "UPDATE workflow": 1, "INSERT history": 1, "COMMIT": 1,
    }  # fmt: skip


@pytest.mark.parametrize(("loaded", "reads"), [(5_000, 0), (1, 2)])
def test_sleepers_that_are_due_at_once(make: Callable[..., Counted], loaded: int, reads: int) -> None:
    """A thousand sleepers wake in twenty commits, and none is read alone.

    For those that are not in memory, each commit makes two queries: one for their rows, and one that says that they
    have no history, no waits and no mail.
    """
    counted = make(max_loaded_workflows=loaded)
    counted.open()
    counted.start(sleeper() for _ in range(1_000))
    counted.clock.advance(HOUR)
    woken = counted.do()
    assert spent(woken) == (20, 0, 2_000, 0)
    selects = sum(count for name, count in woken.statements.items() if name.startswith("SELECT"))
    # Three more, for the sweep: expired events, old ids of senders, old answers to requests.
    assert selects == reads * 20 + 3


def test_answers_to_evicted_bodies_read_their_rows_at_once(make: Callable[..., Counted]) -> None:
    """The rows of all bodies that are not in memory are one query, what they have besides is another."""
    counted = make(max_loaded_workflows=1)
    counted.open()
    counted.start(one_step(number) for number in range(20))
    answered = counted.answer()
    assert spent(answered) == (1, 0, 40, 0)
    reads = {name: count for name, count in answered.statements.items() if name.startswith("SELECT")}
    assert reads == {"SELECT json_each": 1, "SELECT history": 1}


def test_recovery_reads_each_row_once(make: Callable[..., Counted]) -> None:
    """The running workflows are read page by page, and not again one by one."""
    counted = make()
    counted.open()
    counted.start(one_step(number) for number in range(120))
    recovered = make().open()
    assert recovered.replays == 120
    # Three pages, and the timers.
    assert recovered.statements["SELECT workflow"] == 4


def test_start_up_does_not_grow_with_what_sleeps(make: Callable[..., Counted]) -> None:
    """Opening a store with many suspended workflows costs the same as with few."""
    few = _open_with(make, 100)
    many = _open_with(make, 1_000)
    assert few.statements == many.statements
    assert many.vm_steps < 1.1 * few.vm_steps
    assert many.replays == few.replays == 0


def _open_with(make: Callable[..., Counted], count: int) -> Work:
    counted = make(timer_window=50)
    counted.open()
    counted.start((waiter() for _ in range(count)), f"waiter-{count}-")
    counted.start((sleeper() for _ in range(count)), f"sleeper-{count}-")
    return make(timer_window=50).open()


def test_steps_do_not_grow_with_what_is_finished(make: Callable[..., Counted]) -> None:
    """A workflow costs the same with thousands of finished ones in the file as with none."""
    counted = make()
    counted.open()
    counted.start([waiter()], "first-")
    before = _run_ten(counted, "early")
    counted.start((one_step(number) for number in range(FINISHED)), "old-")
    counted.answer()
    after = _run_ten(counted, "later")
    assert after.statements == before.statements
    assert after.vm_steps < 1.1 * before.vm_steps


def _run_ten(counted: Counted, prefix: str) -> Work:
    total = counted.start((ten(number) for number in range(10)), prefix)
    while counted.running:
        work = counted.answer()
        total.statements.update(work.statements)
        total.vm_steps += work.vm_steps
    return total


def test_replay_reads_a_history_once(make: Callable[..., Counted]) -> None:
    """A workflow is rebuilt after a restart with a few queries, however long its history is."""
    counted = make()
    counted.open()
    counted.start([ten(1)])
    for _ in range(8):
        counted.answer()
    work = make().open()
    assert work.replays == 1
    assert work.statements["SELECT history"] == 1

"""The work of spawned children, progress and watchers, and that other workflows pay nothing for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from durable import Durable, EngineConfig, OnParentClose, WorkflowStatus, publish, spawn, workflow
from durable.engine.operations import AwaitChange, SendEvent, Sight
from tests.growth.counted import Counted, go, step, ten, waiter

CHILDREN = 50


@workflow(name="growth.spawner")
def spawner(count: int) -> Durable[None]:
    """Spawns many, and waits for something else."""
    for _ in range(count):
        yield from spawn(waiter(), on_parent_close=OnParentClose.CANCEL)
    yield from go.wait()


@workflow(name="growth.teller")
def teller(start: int) -> Durable[int]:
    """Ten steps in a row, each published three times."""
    for number in range(10):
        for part in range(3):
            publish([number, part])
        start = yield from step(start)
    return start


@pytest.fixture
def counted(tmp_path: Path) -> Counted:
    """A coordinator with room for one body."""
    made = Counted(tmp_path / "store.db", EngineConfig(max_loaded_workflows=1))
    made.open()
    return made


def test_spawning_is_one_commit(counted: Counted) -> None:
    """A workflow that spawns many in one step stores them all in one commit: a row and an entry for each."""
    begun = counted.start([spawner(CHILDREN)])
    assert begun.commits == 1
    assert (begun.statements["INSERT workflow"], begun.statements["INSERT history"]) == (CHILDREN + 1, CHILDREN)
    counted.close()


def test_end_of_a_child_leaves_its_parent_alone(counted: Counted) -> None:
    """A child whose result is not awaited ends without its parent being read or replayed, however many there are."""
    counted.start([spawner(CHILDREN)])
    for number in range(CHILDREN):
        ended = counted.do(SendEvent(name=go.name, payload="1", to=f"w0/{number}"))
        # The child is rebuilt, because there is room for only one body; the parent is not.
        assert (ended.commits, ended.replays) == (1, 1)
    counted.close()


def test_progress_costs_a_row_and_no_commit(counted: Counted) -> None:
    """Progress is one statement in the commit of its step, however often the step publishes."""
    plain = counted.start([ten(1)], "plain-")
    tellers = counted.start([teller(1)], "told-")
    assert tellers.commits == plain.commits == 1
    assert tellers.statements["INSERT REPLACE"] == 1
    counted.running = counted.running[1:]
    # The only row here that replaces another.
    for _ in range(9):
        work = counted.answer()
        assert (work.commits, work.statements["INSERT REPLACE"], work.replays) == (1, 1, 0)
    counted.close()


def test_watchers_cost_nothing_while_they_wait(counted: Counted) -> None:
    """A step of a workflow without watchers costs the same, however many watchers other workflows have."""
    counted.start((waiter() for _ in range(CHILDREN)), "watched-")
    counted.start([ten(1)])
    before = counted.answer()
    seen = Sight(WorkflowStatus.SUSPENDED, None, 0)
    counted.do(*(AwaitChange(f"watched-{number}", seen) for number in range(CHILDREN)))
    after = counted.answer()
    assert after.statements == before.statements
    tellers = counted.do(SendEvent(name=go.name, payload="1", to="watched-7"))
    assert (tellers.commits, tellers.hand_overs) == (1, 1)
    assert len(counted.coordinator._observers) == CHILDREN - 1
    counted.close()

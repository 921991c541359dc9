"""Deadlines: when they fire, and that they never move."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from durable import Durable, WorkflowStatus, gather, now, sleep, workflow
from durable.backends.base import Workflows
from durable.engine.config import EngineConfig
from durable.engine.operations import WakeWorkflow
from durable.engine.state.timers import TimerWindow
from durable.model.timers import OF_WORKFLOW, Timer
from tests.engine.direct import ALL, DirectEngine
from tests.engine.flows import EVERY, go, patient, sleeper

RESTART = pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])


@workflow(name="timers.chain")
def chain() -> Durable[list[str]]:
    """Runs three timers in a row, each counted from when the one before fired."""
    fired = []
    for _ in range(3):
        yield from sleep(10)
        fired.append(now().isoformat()[11:19])
    return fired


@RESTART
def test_restart_never_moves_a_deadline(clean: bool) -> None:
    """A deadline does not move with any number of restarts, and a late one fires at once."""
    engine = DirectEngine(*EVERY)
    engine.start(sleeper(100))
    deadline = engine.record().wake_at
    for _ in range(3):
        engine.clock.advance(30)
        engine.restart(*EVERY, clean=clean)
        assert engine.record().wake_at == deadline
    engine.clock.advance(50)
    engine.restart(*EVERY, clean=clean)
    assert engine.result() == "2031-05-17T12:02:20+00:00"


def test_late_timers_fire_one_after_the_other() -> None:
    """Late timers in a chain fire in order, each counted from when the one before fired."""
    engine = DirectEngine(chain)
    engine.start(chain())
    engine.advance(10)
    engine.advance(15)
    engine.advance(9)
    assert engine.status() is WorkflowStatus.SUSPENDED
    engine.advance(1)
    assert engine.result() == ["12:00:10", "12:00:25", "12:00:35"]


def test_timers_of_branches_fire_in_order() -> None:
    """Timers of several branches that are due together fire in the order of their deadlines."""

    @workflow(name="timers.branches")
    def branches() -> Durable[list[int]]:
        order: list[int] = []

        def branch(seconds: int) -> Durable[None]:
            yield from sleep(seconds)
            order.append(seconds)

        yield from gather(branch(30), branch(10), branch(20))
        return order

    engine = DirectEngine(branches)
    engine.start(branches())
    engine.advance(60)
    assert engine.result() == [10, 20, 30]


def test_clock_set_back() -> None:
    """After the clock was set back, no timer fires early, and recorded times never go back."""
    engine = DirectEngine(chain)
    engine.start(chain())
    engine.advance(10)
    engine.clock.set(datetime(2031, 5, 17, 11, 0, tzinfo=timezone.utc))
    engine.advance(600)
    assert len(engine.history()) == 1
    engine.clock.set(datetime(2031, 5, 17, 12, 0, 20, tzinfo=timezone.utc))
    engine.settle()
    engine.clock.set(datetime(2031, 5, 17, 12, 0, 30, tzinfo=timezone.utc))
    engine.settle()
    assert engine.result() == ["12:00:10", "12:00:20", "12:00:30"]


def test_wake_up_that_came_too_early() -> None:
    """A wake-up before the deadline, as after a clock that was set back, fires nothing and loses nothing."""
    engine = DirectEngine(*EVERY)
    engine.start(sleeper(60))
    engine.settle()
    engine.clock.advance(60)
    engine.state.timers.pop_due(engine.clock.now(), 10)
    engine.clock.set(datetime(2031, 5, 17, 12, 0, tzinfo=timezone.utc))
    engine.do(WakeWorkflow(engine.record().key))
    assert engine.status() is WorkflowStatus.SUSPENDED
    engine.advance(60)
    assert engine.status() is WorkflowStatus.SUCCEEDED


@pytest.mark.parametrize(("window", "batch"), [(10, 1000), (10, 7), (1, 1), (1000, 3)])
@pytest.mark.parametrize("restart", [True, False])
def test_many_timers_and_a_small_window(window: int, batch: int, restart: bool) -> None:
    """Ten times more timers than fit into the window all fire, each at its time, in bounded batches."""
    config = EngineConfig(timer_window=window, max_batch=batch)
    engine = DirectEngine(*EVERY, config=config, checks=False)
    count = 100
    for number in range(count):
        engine.start(sleeper(1 + (number * 37) % count), f"w{number}")
    if restart:
        engine.restart(*EVERY)
    for second in range(1, count + 1):
        engine.advance(1)
        done = engine.backend.count(Workflows(statuses=(WorkflowStatus.SUCCEEDED,), limit=ALL))
        assert done == second


@pytest.mark.parametrize("clean", [True, False])
def test_many_timers_due_at_once(clean: bool) -> None:
    """Timers that came due while the engine was down all fire after the start, however many there are."""
    engine = DirectEngine(*EVERY, config=EngineConfig(timer_window=5, max_batch=8), checks=False)
    for number in range(60):
        engine.start(sleeper(number), f"w{number}")
    engine.clock.advance(100)
    engine.restart(*EVERY, clean=clean)
    assert engine.backend.count(Workflows(statuses=(WorkflowStatus.SUCCEEDED,), limit=ALL)) == 60


# --- the window itself --------------------------------------------------------------------------------------------


def _timer(at: int, key: int) -> Timer:
    return (at, OF_WORKFLOW, key)


def test_window_asks_the_store_first() -> None:
    """A window that was never filled asks the store first."""
    window = TimerWindow(2)
    window.register_timer(_timer(100, 1))
    assert window.refill_after() is not None
    assert window.next() is None
    window.refill([_timer(100, 1)])
    assert (window.refill_after(), window.next()) == (None, 100)


def test_window_that_holds_all_is_never_refilled() -> None:
    """A store with fewer timers than the window is read once, and later timers go straight into the window."""
    window = TimerWindow(2)
    window.refill([_timer(100, 1)])
    assert window.pop_due(100, 10) == [_timer(100, 1)]
    assert window.refill_after() is None
    window.register_timer(_timer(500, 2))
    assert window.next() == 500


def test_window_leaves_later_timers_to_the_store() -> None:
    """A full window takes no timer beyond its horizon, and asks the store again when it is empty."""
    window = TimerWindow(2)
    window.refill([_timer(100, 1), _timer(200, 2)])
    window.register_timer(_timer(300, 3))
    window.register_timer(_timer(150, 4))
    assert window.pop_due(1000, 10) == [_timer(100, 1), _timer(150, 4), _timer(200, 2)]
    assert window.refill_after() == _timer(200, 2)


@pytest.mark.parametrize("count", [1, 2])
def test_event_comes_before_a_limit_that_passed_before_the_body_began(count: int) -> None:
    """A late delayed start takes the events that were sent in time, even if its timeouts are over by then."""
    engine = DirectEngine(*EVERY)
    engine.start(patient(60), delay=100)
    for number in range(count):
        engine.send(go, number, to="w")
    engine.advance(1000)
    if count == 1:
        engine.send(go, 1, to="w")
    assert engine.result() == [0, 1]


def test_window_is_cut_when_it_has_grown() -> None:
    """A window that grows to more than twice its size keeps the next timers, and leaves the rest to the store."""
    window = TimerWindow(2)
    window.refill([])
    for key in range(5):
        window.register_timer(_timer(100 + key, key))
    assert window.pop_due(1000, 10) == [_timer(100, 0), _timer(101, 1)]
    assert window.refill_after() is not None


def test_window_moves_and_removes() -> None:
    """A deadline that changes is moved, one that is gone is removed, and no more than the limit is taken."""
    window = TimerWindow(10)
    window.refill([_timer(100, 1), _timer(200, 2), _timer(200, 3)])
    window.cancel_timer(_timer(100, 1))
    window.register_timer(_timer(400, 1))
    window.cancel_timer(_timer(200, 2))
    assert window.pop_due(199, 10) == []
    assert window.pop_due(1000, 1) == [_timer(200, 3)]
    assert window.pop_due(1000, 1) == [_timer(400, 1)]


def test_timer_that_is_registered_twice_fires_once() -> None:
    """A timer that is registered twice fires once."""
    window = TimerWindow(10)
    window.refill([_timer(100, 1)])
    window.register_timer(_timer(100, 1))
    assert window.pop_due(1000, 10) == [_timer(100, 1)]


def test_stopping_engine_cancels_its_timers() -> None:
    """A stopping engine cancels all timers in memory; their deadlines stay in the store."""
    window = TimerWindow(10)
    window.refill([_timer(100, 1), _timer(200, 2)])
    window.cancel_all_timers()
    assert (window.is_empty, window.next(), window.pop_due(1000, 10)) == (True, None, [])

"""What the last step of a body leaves behind, senseless retries, repeated recoveries, and limits that hold always."""

from __future__ import annotations

from typing import Any

import pytest

from durable import Durable, EngineConfig, RetryAfter, race, sleep, workflow
from durable.backends.memory import MemoryBackend, MemoryStore
from durable.engine import operations as ops
from durable.model.records import WorkflowStatus
from tests.engine.desk import Desk
from tests.engine.flows import (
    EVERY,
    go,
    nothing,
    other,
    sleeper,
    waiter,
    work,
    worker,
)
from tests.engine.office import Office


@workflow(name="last.polling")
def polling(number: int) -> Durable[int]:
    won = yield from race(work=work(number), event=go.wait())
    if won.key == "work":
        return int(won.value)
    raise polling.continue_as(number + 1)


def test_continue_as_stops_the_losing_activity() -> None:
    """A round that ends while a losing activity runs stops it, and the next round runs its own."""
    desk = Desk(polling)
    desk.start(polling(1))
    first = desk.activities[0]
    desk.send(go, 0, to="w")
    desk.settle()
    assert [effect.args for effect in desk.activities] == [(2,)]
    desk.finish(first, 111)
    assert desk.status() is WorkflowStatus.RUNNING


@workflow(name="last.ends_with_loser")
def ends_with_loser() -> Durable[Any]:
    won = yield from race(child=waiter(), event=other.wait())
    return won.key


@workflow(name="last.continues_with_loser")
def continues_with_loser(left: int = 1) -> Durable[Any]:
    if left == 0:
        return (yield from sleep(100)).isoformat()
    yield from race(child=waiter(), event=other.wait())
    raise continues_with_loser.continue_as(left - 1)


@pytest.mark.parametrize("call", [ends_with_loser, continues_with_loser])
def test_losing_child_of_the_last_race_is_cancelled(call: Any) -> None:
    """A child that loses a race is cancelled also when its parent ends or continues right after the race."""
    desk = Desk(*EVERY, ends_with_loser, continues_with_loser)
    desk.start(call())
    desk.send(other, 1)
    desk.settle()
    assert desk.status("w/0.child.0") is WorkflowStatus.CANCELLED


@workflow(name="last.two_events")
def two_events(left: int = 1) -> Durable[Any]:
    yield from race(go.wait(), other.wait())
    if left == 0:
        return None
    raise two_events.continue_as(left - 1)


def test_losing_wait_does_not_survive_continue_as() -> None:
    """The wait that lost a race is gone when the workflow continues: waits do not survive."""
    desk = Desk(*EVERY, two_events, checks=False)
    desk.start(two_events())
    desk.send(go, 1, to="w")
    assert desk.waits() == []


@pytest.mark.parametrize("delay", [-5, float("nan"), 1e300])
def test_senseless_retry_after_does_not_strand_the_workflow(delay: float) -> None:
    """An activity that raises RetryAfter with a senseless delay is retried or fails; the workflow is not stuck."""
    desk = Desk(*EVERY)
    desk.start(worker())
    effect = desk.activities[0]
    desk.batch(desk.answer(effect, error=RetryAfter(delay)))
    assert desk.history(), "nothing is recorded, nothing is in flight and nothing is due"


def test_retry_beyond_the_calendar_can_be_described() -> None:
    """A retry that would be due after the year 9999 does not break describe (and with it the coordinator)."""
    desk = Desk(*EVERY)
    desk.start(worker())
    desk.fail(desk.activities[0], RetryAfter(2_920_000 * 86400))
    desk.do(ops.DescribeWorkflow("w"))


@pytest.mark.parametrize("times", [2, 5])
def test_recover_again_counts_no_crash(times: int) -> None:
    """Whoever was tried after an unclean stop is not tried again, however often recover() is called."""
    desk = Desk(*EVERY, config=EngineConfig(max_loaded_workflows=1))
    desk.start(worker(), "a")
    desk.start(worker(), "b")
    desk.restart(*EVERY, clean=False)
    for number in range(times):
        desk.start(sleeper(1000), f"other {number}")
        desk.recover()
        desk.advance(10)
    assert desk.suspects() == []


def test_overdue_retry_runs_at_once() -> None:
    """A retry that was overdue at an unclean start begins once, on trial like every activity of that moment."""
    desk = Desk(*EVERY)
    desk.start(worker())
    desk.fail(desk.activities[0], ValueError("once"))
    desk.clock.advance(100)
    desk.restart(*EVERY, clean=False, recover=False)
    key = desk.record().key
    desk.batch(ops.RecoverWorkflows(), ops.WakeWorkflow(key))
    desk.settle()
    assert [effect.on_trial for effect in desk.activities] == [True]


def test_overdue_limit_of_a_running_activity_fires() -> None:
    """A limit that passed while the process was dead ends the wait for an activity, though that runs again."""

    @workflow(name="last.limited")
    def limited() -> Durable[int]:
        return (yield from work(1).within(60).or_default(-1))

    desk = Desk(limited)
    desk.start(limited())
    desk.clock.advance(100)
    desk.restart(limited, clean=False, recover=False)
    desk.settle()
    desk.recover()
    assert desk.result() == -1


def test_recovery_keeps_to_the_limit_of_loaded_bodies() -> None:
    """Batches that write nothing let go of bodies too: a recovery does not load all that is running at once."""
    store = MemoryStore()
    desk = Desk(*EVERY, make=lambda: MemoryBackend(store))
    for number in range(10):
        desk.start(worker(), f"w{number}")
    desk.restart(*EVERY, recover=False)
    keys = [desk.record(f"w{number}").key for number in range(10)]
    desk.restart(recover=False)
    office = Office(EngineConfig(max_loaded_workflows=2), store)
    for key in keys:
        office.ask(ops.ResumeWorkflow(key))
    assert len(office.coordinator.state.loaded) <= 2


def test_purge_gets_past_children_of_living_parents() -> None:
    """Ended children whose parent lives do not keep a purge from what lies behind them."""

    @workflow(name="last.family")
    def family() -> Durable[None]:
        for _ in range(3):
            yield from nothing()
        yield from go.wait()

    desk = Desk(*EVERY, family)
    desk.start(family())
    desk.start(nothing(), "old")
    desk.clock.advance(100)
    assert desk.do(ops.PurgeWorkflows(desk.clock.now(), limit=3)) > 0

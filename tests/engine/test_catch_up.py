"""Missed ticks: which are caught up, in what order, and that even very many harm nobody."""

from __future__ import annotations

from datetime import timedelta

import pytest

from durable import CatchUp, Overlap
from durable.engine import operations as ops
from durable.engine.config import EngineConfig
from durable.engine.operations import TickSchedule
from durable.model.clock import SECOND, to_datetime
from tests.engine.agenda import row, schedule_of, ticks
from tests.engine.direct import DirectEngine
from tests.engine.flows import EVERY, go, nothing, sleeper, waiter

MINUTE, HOUR = 60, 3600
ALLOW, QUEUE = Overlap.ALLOW, Overlap.QUEUE
# The engine was down, or the clock was set forward while it ran.
LATE = pytest.mark.parametrize("how", ["clean stop", "crash", "clock"])


def be_late(engine: DirectEngine, how: str, duration: timedelta | float) -> None:
    """Let time pass without the engine, then let it continue."""
    engine.clock.advance(duration)
    if how == "clock":
        engine.settle()
    else:
        engine.restart(*EVERY, clean=how == "clean stop")


def missed(engine: DirectEngine) -> tuple[str, str] | None:
    """The missed ticks that were left out: the first and the last."""
    record = row(engine.backend)
    if record.missed_from is None or record.missed_until is None:
        return None
    return f"{to_datetime(record.missed_from):%H:%M}", f"{to_datetime(record.missed_until):%H:%M}"


@LATE
def test_skip(how: str) -> None:
    """SKIP starts no run for missed ticks, and records which were left out. The next tick starts its run."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(nothing(), cron="0 * * * *", catch_up=CatchUp.SKIP))
    be_late(engine, how, 3.5 * HOUR)
    assert (ticks(engine.backend), missed(engine)) == ([], ("13:00", "16:00"))
    engine.advance(HOUR / 2)
    assert ticks(engine.backend) == ["16:00"]


@LATE
def test_last(how: str) -> None:
    """LAST starts a run for the last missed tick only."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(nothing(), cron="0 * * * *", catch_up=CatchUp.LAST))
    be_late(engine, how, 3.5 * HOUR)
    assert (ticks(engine.backend), missed(engine)) == (["15:00"], ("13:00", "15:00"))
    engine.advance(HOUR / 2)
    assert ticks(engine.backend) == ["15:00", "16:00"]


@LATE
def test_all(how: str) -> None:
    """ALL starts a run for each missed tick, in order."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(nothing(), cron="0 * * * *", overlap=ALLOW, catch_up=CatchUp.ALL))
    be_late(engine, how, 3.5 * HOUR)
    assert (ticks(engine.backend), missed(engine)) == (["13:00", "14:00", "15:00"], None)


@pytest.mark.parametrize("catch_up", CatchUp)
def test_single_tick(catch_up: CatchUp) -> None:
    """A single missed tick is left out or caught up, and the schedule records which."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(nothing(), cron="0 13 * * *", catch_up=catch_up))
    be_late(engine, "crash", 2 * HOUR)
    assert ticks(engine.backend) == ([] if catch_up is CatchUp.SKIP else ["13:00"])
    assert missed(engine) == (("13:00", "13:00") if catch_up is CatchUp.SKIP else None)
    engine.advance(20 * HOUR)
    engine.advance(3 * HOUR)
    assert len(ticks(engine.backend)) == (1 if catch_up is CatchUp.SKIP else 2)


@pytest.mark.parametrize("catch_up", CatchUp)
@pytest.mark.parametrize("late", [0, 59, 60])
def test_tick_within_the_grace_is_not_missed(catch_up: CatchUp, late: int) -> None:
    """A tick that is late by no more than the grace period starts its run under every policy."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(nothing(), cron="0 13 * * *", catch_up=catch_up))
    be_late(engine, "crash", HOUR + late)
    assert (ticks(engine.backend), missed(engine)) == (["13:00"], None)


def test_grace_can_be_set() -> None:
    """The grace period is an option of the engine."""
    engine = DirectEngine(*EVERY, config=EngineConfig(schedule_grace=timedelta(hours=2)))
    engine.do(schedule_of(nothing(), cron="0 * * * *", overlap=ALLOW))
    be_late(engine, "crash", 3.5 * HOUR)
    assert (ticks(engine.backend), missed(engine)) == (["14:00", "15:00"], ("13:00", "14:00"))


@pytest.mark.parametrize("catch_up", [CatchUp.LAST, CatchUp.ALL])
def test_window(catch_up: CatchUp) -> None:
    """Ticks older than the window are not caught up."""
    engine = DirectEngine(*EVERY, config=EngineConfig(catch_up_window=timedelta(hours=2)))
    engine.do(schedule_of(nothing(), cron="0 * * * *", overlap=ALLOW, catch_up=catch_up))
    be_late(engine, "clock", 5.5 * HOUR)
    assert ticks(engine.backend) == (["17:00"] if catch_up is CatchUp.LAST else ["16:00", "17:00"])
    assert missed(engine) == ("13:00", "17:00" if catch_up is CatchUp.LAST else "16:00")


@pytest.mark.parametrize("catch_up", [CatchUp.LAST, CatchUp.ALL])
def test_window_without_a_tick(catch_up: CatchUp) -> None:
    """If no tick lies within the window, none is caught up."""
    engine = DirectEngine(*EVERY, config=EngineConfig(catch_up_window=timedelta(hours=2)))
    engine.do(schedule_of(nothing(), cron="0 13 * * *", catch_up=catch_up))
    be_late(engine, "crash", 9 * HOUR)
    assert (ticks(engine.backend), missed(engine)) == ([], ("13:00", "13:00"))


def test_window_that_is_shorter_than_the_grace() -> None:
    """A tick that is not missed is not subject to the window."""
    config = EngineConfig(catch_up_window=1, schedule_grace=HOUR)
    engine = DirectEngine(*EVERY, config=config)
    engine.do(schedule_of(nothing(), cron="*/20 * * * *", overlap=ALLOW, catch_up=CatchUp.ALL))
    be_late(engine, "crash", 1.5 * HOUR)
    assert ticks(engine.backend) == ["12:40", "13:00", "13:20"]


def test_years_of_missed_minutes_are_decided_in_bounded_batches() -> None:
    """A schedule that missed years of minutes catches up its window, a few runs per commit."""
    engine = DirectEngine(*EVERY, config=EngineConfig(catch_up_window=timedelta(hours=2)), checks=False)
    engine.do(schedule_of(nothing(), overlap=ALLOW, catch_up=CatchUp.ALL))
    engine.clock.advance(timedelta(days=5 * 365))
    key = row(engine.backend).key
    engine.do(TickSchedule(key))
    assert len(ticks(engine.backend)) == 20
    assert row(engine.backend).wake_at == row(engine.backend).next_at
    assert (row(engine.backend).wake_at or 0) < engine.clock.now()
    engine.restart(*EVERY, clean=False)
    assert len(ticks(engine.backend)) == 121
    assert len(set(ticks(engine.backend))) == 121


@pytest.mark.parametrize("catch_up", [CatchUp.SKIP, CatchUp.LAST])
def test_years_of_missed_minutes_are_skipped_without_visiting_each(catch_up: CatchUp) -> None:
    """Years of minutes that are not caught up are skipped without visiting each one."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(nothing(), catch_up=catch_up))
    engine.advance(timedelta(days=10 * 365).total_seconds())
    assert len(ticks(engine.backend)) == 1
    assert (row(engine.backend).next_at or 0) - engine.clock.now() <= MINUTE * SECOND


def test_all_in_line() -> None:
    """With QUEUE and ALL no tick is left out: each runs when the one before has ended."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(waiter(), cron="0 * * * *", overlap=QUEUE, catch_up=CatchUp.ALL))
    be_late(engine, "crash", 4.5 * HOUR)
    started = []
    for number in range(4):
        started.append(len(ticks(engine.backend)))
        assert row(engine.backend).wake_at is None or number > 1
        engine.send(go, 1)
        engine.restart(*EVERY, clean=False)
    assert started == [1, 2, 3, 4]
    assert ticks(engine.backend) == ["13:00", "14:00", "15:00", "16:00"]
    assert row(engine.backend).skipped == 0
    engine.advance(HOUR / 2)
    assert ticks(engine.backend) == ["13:00", "14:00", "15:00", "16:00", "17:00"]


def test_line_is_woken_by_a_run_that_was_triggered() -> None:
    """The queued tick also waits for a run that was started by hand."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(waiter(), overlap=QUEUE, catch_up=CatchUp.ALL))
    for _ in range(3):
        engine.advance(MINUTE)
    engine.send(go, 1)
    engine.do(ops.TriggerSchedule("s", "by hand"))
    engine.settle()
    assert ticks(engine.backend) == ["12:01", ""]
    engine.send(go, 1)
    engine.settle()
    assert ticks(engine.backend) == ["12:01", "", "12:02"]


def test_all_with_overlap_skip() -> None:
    """If runs must not overlap, missed ticks are skipped while a run is unfinished."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(sleeper(60), cron="0 * * * *", catch_up=CatchUp.ALL))
    be_late(engine, "crash", 4.5 * HOUR)
    assert (ticks(engine.backend), row(engine.backend).skipped) == (["13:00"], 3)


def test_clock_set_forward_and_back() -> None:
    """A schedule that followed the clock into the future waits until the clock gets there again."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(nothing(), cron="0 * * * *", catch_up=CatchUp.LAST))
    be_late(engine, "clock", 3.5 * HOUR)
    engine.clock.set(to_datetime(engine.clock.now()) - timedelta(hours=3.5))
    for _ in range(3):
        engine.advance(HOUR)
    assert ticks(engine.backend) == ["15:00"]
    engine.advance(HOUR)
    assert ticks(engine.backend) == ["15:00", "16:00"]

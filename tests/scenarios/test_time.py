"""Sleeping, delayed starts and the workflow's own clock, over restarts."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import pytest

from durable import (
    Durable,
    Event,
    WorkflowEngine,
    WorkflowStatus,
    gather,
    now,
    random,
    sleep,
    sleep_until,
    uuid,
    workflow,
)
from durable.testing.clock import NOON, ManualClock
from tests.scenarios.kit import SOON, Store, move, waiting

pytestmark = pytest.mark.anyio
HOUR = timedelta(hours=1)
go_on = Event[None]("time-go-on")


@workflow(name="time-nap")
def nap(duration: timedelta) -> Durable[list[datetime]]:
    """Sleep once; return when it began, when it ended, and what time it is then."""
    began = now()
    ended = yield from sleep(duration)
    return [began, ended, now()]


async def test_sleep_fires_at_its_time(store: Store) -> None:
    """A sleep ends when its duration is over and not before, and returns that instant."""
    clock = ManualClock()
    async with WorkflowEngine(store, clock=clock) as engine:
        handle = await engine.start(nap(HOUR), id="a")
        await move(engine, clock, HOUR - timedelta(microseconds=1))
        assert await handle.status() is WorkflowStatus.SUSPENDED
        await move(engine, clock, timedelta(microseconds=1))
        assert await handle.result(timeout=SOON) == [NOON, NOON + HOUR, NOON + HOUR]


async def test_sleep_goes_on_over_restarts(store: Store) -> None:
    """The deadline is computed once: restarts do not move it, and one that has passed fires immediately."""
    clock = ManualClock()
    async with WorkflowEngine(store, clock=clock) as engine:
        await engine.start(nap(HOUR), id="short")
        await engine.start(nap(3 * HOUR), id="long")
    clock.advance(2 * HOUR)
    async with WorkflowEngine(store, clock=clock) as engine:
        began, ended, after = await engine.handle("short").result(timeout=SOON)
        assert (began, ended, after) == (NOON, NOON + 2 * HOUR, NOON + 2 * HOUR)
        summary = (await engine.runs.describe("long")).summary
        assert (summary.status, summary.wake_at) == (WorkflowStatus.SUSPENDED, NOON + 3 * HOUR)
        await move(engine, clock, HOUR)
        assert (await engine.handle("long").result(timeout=SOON))[1] == NOON + 3 * HOUR


async def test_wall_clock_set_back_does_not_lose_a_sleep(store: Store) -> None:
    """A sleep that began before the clock was set back fires at its instant, and a body never sees time run back."""
    clock = ManualClock()

    @workflow(name="two-naps")
    def two_naps() -> Durable[list[datetime]]:
        first = yield from sleep(HOUR)
        second = yield from sleep(HOUR)
        return [first, second]

    async with WorkflowEngine(store, clock=clock) as engine:
        handle = await engine.start(two_naps(), id="a")
        await move(engine, clock, HOUR)
        assert (await waiting(engine, "a", "timer")).until == NOON + 2 * HOUR
        clock.set(NOON - 24 * HOUR)
        await engine.query_status("a")
        assert await handle.status() is WorkflowStatus.SUSPENDED
        await move(engine, clock, 26 * HOUR)
        assert await handle.result(timeout=SOON) == [NOON + HOUR, NOON + 2 * HOUR]


async def test_sleep_of_nothing_and_the_past_do_not_suspend(store: Store) -> None:
    """`sleep(0)` and a past instant continue immediately and write nothing; senseless durations raise in the body."""

    @workflow(name="no-sleep")
    def no_sleep() -> Durable[list[str]]:
        yield from sleep(0)
        yield from sleep_until(NOON - HOUR)
        errors = []
        for bad in (-1, float("nan"), float("inf"), "5"):
            try:
                yield from sleep(bad)  # type: ignore[arg-type]
            except (ValueError, TypeError) as error:
                errors.append(type(error).__name__)
        try:
            yield from sleep_until(datetime(2031, 1, 1))
        except TypeError as error:
            errors.append(type(error).__name__)
        return errors

    async with WorkflowEngine(store, clock=ManualClock()) as engine:
        handle = await engine.start(no_sleep(), id="a")
        assert await handle.result(timeout=SOON) == ["InvalidValue"] * 3 + ["WrongType"] * 2
        assert await engine.runs.history("a") == []


async def test_delayed_start_begins_when_its_time_has_come(store: Store) -> None:
    """`delay=` stores the workflow immediately; its body begins later, also in another engine."""
    clock = ManualClock()
    async with WorkflowEngine(store, clock=clock) as engine:
        handle = await engine.start(nap(timedelta(0)), id="a", delay=HOUR)
        assert await handle.status() is WorkflowStatus.SUSPENDED
        assert (await engine.runs.describe("a")).waits == ()
    async with WorkflowEngine(store, clock=clock) as engine:
        await move(engine, clock, HOUR)
        assert await engine.handle("a").result(timeout=SOON) == [NOON + HOUR] * 3
        undone = await engine.start(nap(HOUR), id="b", delay=HOUR)
        assert await undone.cancel()
        await move(engine, clock, 9 * HOUR)
        assert await undone.status() is WorkflowStatus.CANCELLED


async def test_many_timers_fire_in_order(store: Store) -> None:
    """Sleeps of different lengths in one workflow each fire at their own time."""
    clock = ManualClock()

    @workflow(name="many-naps")
    def many_naps() -> Durable[list[datetime]]:
        return list((yield from gather(*(sleep(hours * HOUR) for hours in (3, 1, 2)))))

    async with WorkflowEngine(store, clock=clock) as engine:
        handle = await engine.start(many_naps(), id="a")
        for hours in (1, 2, 3):
            assert (await engine.runs.describe("a")).summary.wake_at == NOON + hours * HOUR
            await move(engine, clock, HOUR)
        assert await handle.result(timeout=SOON) == [NOON + 3 * HOUR, NOON + HOUR, NOON + 2 * HOUR]


async def test_overdue_timers_all_fire_after_a_restart(store: Store) -> None:
    """Three hundred sleeps that came due while no engine ran all end soon after the next start, each once."""
    clock = ManualClock()
    async with WorkflowEngine(store, clock=clock) as engine:
        for number in range(300):
            await engine.start(nap(timedelta(minutes=number + 1)), id=f"w{number}")
    clock.advance(timedelta(days=1))
    async with WorkflowEngine(store, clock=clock) as engine:
        for number in range(300):
            assert len(await engine.handle(f"w{number}").result(timeout=SOON)) == 3
        assert await engine.runs.count(status=WorkflowStatus.SUCCEEDED) == 300


async def test_drawn_values_are_the_same_on_replay(store: Store) -> None:
    """`uuid`, `random` and `now` are the same in the next engine, and another name does not shift the others."""
    drawn: list[tuple[UUID, UUID, float, datetime]] = []

    @workflow(name="draws")
    def draws() -> Durable[None]:
        drawn.append((uuid(), uuid("named"), random().random(), now()))
        yield from go_on.wait()

    async with WorkflowEngine(store, workflows=[draws]) as engine:
        await engine.start(draws(), id="a")
    async with WorkflowEngine(store, workflows=[draws]) as engine:
        await engine.send_event(go_on, None, to="a")
        await engine.handle("a").result(timeout=SOON)
    assert len(drawn) == 2
    assert drawn[0] == drawn[1]
    assert drawn[0][0] != drawn[0][1]

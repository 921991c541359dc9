"""Schedules through the engine: ticks over restarts, policies, operators, daylight saving time."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import anyio
import pytest

from durable import (
    CatchUp,
    Durable,
    Event,
    InvalidValue,
    OperationMisused,
    Overlap,
    ScheduleAlreadyExists,
    ScheduleBusy,
    ScheduleNotFound,
    SyncWorkflowEngine,
    WorkflowEngine,
    WorkflowFailed,
    WorkflowStatus,
    WrongType,
    activity,
    info,
    workflow,
)
from durable.testing.clock import NOON, ManualClock
from tests.scenarios.kit import SOON, Store

go = Event[int]("schedules.go")
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@activity
async def write(text: str) -> str:
    """Some work."""
    return f"wrote {text}"


@workflow(name="schedules.report")
def report(kind: str) -> Durable[str]:
    """Does some work for its tick."""
    return (yield from write(f"{kind} of {info().id.partition('@')[2]}"))


@workflow(name="schedules.waiter")
def waiter() -> Durable[int]:
    """Continues when the test releases it."""
    return (yield from go.wait())


async def settle(engine: WorkflowEngine) -> None:
    """Let the engine read the clock, and do what is due."""
    for _ in range(6):
        await engine.query_status("nobody")


async def move(engine: WorkflowEngine, clock: ManualClock, duration: timedelta) -> None:
    """Let time pass."""
    clock.advance(duration)
    await settle(engine)


async def runs(engine: WorkflowEngine, name: str) -> list[str]:
    """The ticks that have a run, the oldest first."""
    return [run.id.partition("@")[2] for run in reversed(await engine.runs.list(tag=f"schedule:{name}"))]


async def ended(engine: WorkflowEngine, id: str) -> object:
    """The result of a run, once it has begun and ended."""
    with anyio.fail_after(SOON):
        while await engine.query_status(id) is None:
            pass
    return await engine.handle(id).result(timeout=SOON)


# --- ticks ----------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_ticks_over_restarts(store: Store) -> None:
    """Each tick starts one run, which does its work, in this engine and in the next ones."""
    clock = ManualClock()
    for minute in range(1, 4):
        async with WorkflowEngine(store, clock=clock) as engine:
            await engine.schedules.create("minutely", report("news"), cron="* * * * *")
            clock.advance(MINUTE)
            id = f"minutely@2031-05-17T12:0{minute}:00+00:00"
            assert await ended(engine, id) == f"wrote news of 2031-05-17T12:0{minute}:00+00:00"
    async with WorkflowEngine(store, clock=clock) as engine:
        assert await runs(engine, "minutely") == [f"2031-05-17T12:0{minute}:00+00:00" for minute in (1, 2, 3)]
        (listed,) = await engine.schedules.list()
        assert listed.last_run == "minutely@2031-05-17T12:03:00+00:00"
        assert listed.last_tick == NOON + 3 * MINUTE
        assert listed.next_runs == tuple(NOON + minute * MINUTE for minute in (4, 5, 6))


@pytest.mark.anyio
async def test_every(store: Store) -> None:
    """A schedule with an interval counts from its creation, to the microsecond."""
    clock = ManualClock(NOON + timedelta(microseconds=5))
    async with WorkflowEngine(store, clock=clock) as engine:
        made = await engine.schedules.create("often", report("x"), every=timedelta(seconds=90))
        assert made.next_runs[0] == NOON + timedelta(seconds=90, microseconds=5)
        assert (made.every, made.cron, made.timezone) == (timedelta(seconds=90), None, "UTC")
        clock.advance(90)
        assert await ended(engine, "often@2031-05-17T12:01:30.000005+00:00")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("zone", "start", "expected"),
    [
        ("Europe/Berlin", "2026-03-28T00:00", ["2026-03-28T01:30", "2026-03-29T01:00", "2026-03-30T00:30"]),
        ("Europe/Berlin", "2026-10-24T00:00", ["2026-10-24T00:30", "2026-10-25T00:30", "2026-10-26T01:30"]),
        ("America/New_York", "2026-03-07T00:00", ["2026-03-07T07:30", "2026-03-08T07:00", "2026-03-09T06:30"]),
        ("America/New_York", "2026-10-31T00:00", ["2026-10-31T06:30", "2026-11-01T07:30", "2026-11-02T07:30"]),
    ],
    ids=["spring in Berlin", "autumn in Berlin", "spring in New York", "autumn in New York"],
)
async def test_summer_time(store: Store, zone: str, start: str, expected: list[str]) -> None:
    """A job at 2:30 runs once a day, also on the day without that time and on the day that has it twice."""
    clock = ManualClock(datetime.fromisoformat(start).replace(tzinfo=timezone.utc))
    async with WorkflowEngine(store, clock=clock) as engine:
        made = await engine.schedules.create("s", report("x"), cron="30 2 * * *", timezone=zone)
        for _ in range(3 * 48):
            await move(engine, clock, HOUR / 2)
        assert [tick[:16] for tick in await runs(engine, "s")] == expected
        assert {tick.tzinfo for tick in made.next_runs} == {ZoneInfo(zone)}
        assert [tick.hour for tick in made.next_runs].count(2) >= 2


# --- policies -------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("catch_up", "expected"), [(CatchUp.SKIP, []), (CatchUp.LAST, [15]), (CatchUp.ALL, [13, 14, 15])]
)
async def test_missed_while_no_engine_was_there(store: Store, catch_up: CatchUp, expected: list[int]) -> None:
    """Missed ticks are caught up as the schedule says; the list shows how many were skipped."""
    clock = ManualClock()
    async with WorkflowEngine(store, clock=clock) as engine:
        await engine.schedules.create("s", report("x"), cron="@hourly", overlap=Overlap.ALLOW, catch_up=catch_up)
    clock.advance(3.5 * HOUR)
    async with WorkflowEngine(store, clock=clock) as engine:
        await settle(engine)
        assert await runs(engine, "s") == [f"2031-05-17T{hour}:00:00+00:00" for hour in expected]
        (listed,) = await engine.schedules.list()
        assert listed.next_runs[0] == NOON + 4 * HOUR
        assert listed.missed_from == (None if catch_up is CatchUp.ALL else NOON + HOUR)
        ends = {CatchUp.SKIP: NOON + 4 * HOUR, CatchUp.LAST: NOON + 3 * HOUR}
        assert listed.missed_until == ends.get(catch_up)


@pytest.mark.anyio
@pytest.mark.parametrize("restarts", [True, False])
@pytest.mark.parametrize(
    ("overlap", "during", "after"), [(Overlap.SKIP, 1, 1), (Overlap.QUEUE, 1, 2), (Overlap.ALLOW, 3, 3)]
)
async def test_last_run_is_unfinished(store: Store, overlap: Overlap, during: int, after: int, restarts: bool) -> None:
    """A tick during a run is skipped, queued or started anyway, as the schedule says; also over a restart."""
    clock = ManualClock()
    async with WorkflowEngine(store, clock=clock) as engine:
        await engine.schedules.create("s", waiter(), every=60, overlap=overlap)
        for _ in range(3):
            await move(engine, clock, MINUTE)
        assert len(await runs(engine, "s")) == during
        if not restarts:
            await engine.send_event(go, 1)
            await settle(engine)
            assert len(await runs(engine, "s")) == after
    async with WorkflowEngine(store, clock=clock) as engine:
        if restarts:
            await engine.send_event(go, 1)
        await settle(engine)
        assert len(await runs(engine, "s")) == after
        (listed,) = await engine.schedules.list()
        assert listed.skipped == {Overlap.SKIP: 2, Overlap.QUEUE: 1, Overlap.ALLOW: 0}[overlap]
        assert listed.queued is None


# --- operators ------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_life_of_a_schedule(store: Store) -> None:
    """Create, create again, replace, pause, resume, trigger, delete: each does what it promises and nothing else."""
    clock = ManualClock()
    async with WorkflowEngine(store, clock=clock) as engine:
        schedules = engine.schedules
        made = await schedules.create("s", waiter(), every=60)
        assert await schedules.create("s", waiter(), every=timedelta(minutes=1)) == made
        with pytest.raises(ScheduleAlreadyExists):
            await schedules.create("s", waiter(), every=61)
        assert (await schedules.create("s", waiter(), cron="@hourly", replace=True)).cron == "@hourly"
        await schedules.pause("s")
        assert [(schedule.is_paused, schedule.next_runs) for schedule in await schedules.list()] == [(True, ())]
        await move(engine, clock, HOUR)
        run = await schedules.trigger("s")
        assert run.id.startswith("s@trigger-")
        assert (await schedules.trigger("s", id=run.id)).id == run.id
        with pytest.raises(ScheduleBusy):
            await schedules.trigger("s")
        await engine.send_event(go, 7, to=run.id)
        assert await run.result(timeout=SOON) == 7
        await schedules.resume("s")
        await move(engine, clock, HOUR)
        assert await runs(engine, "s") == [run.id[2:], "2031-05-17T14:00:00+00:00"]
        await schedules.delete("s")
        await move(engine, clock, HOUR)
        assert await schedules.list() == []
        assert len(await runs(engine, "s")) == 2
        with pytest.raises(ScheduleNotFound):
            await schedules.trigger("s")


@pytest.mark.anyio
async def test_pages(store: Store) -> None:
    """A list is sorted by name, comes page by page, and has as many upcoming ticks as requested."""
    async with WorkflowEngine(store, clock=ManualClock()) as engine:
        for name in "cab":
            await engine.schedules.create(name, waiter(), cron="@daily")
        first = await engine.schedules.list(limit=2, upcoming=1)
        assert [(schedule.name, len(schedule.next_runs)) for schedule in first] == [("a", 1), ("b", 1)]
        second = await engine.schedules.list(after="b", upcoming=0)
        assert [(schedule.name, schedule.next_runs) for schedule in second] == [("c", ())]
        with pytest.raises(InvalidValue, match="1 to 1000"):
            await engine.schedules.list(limit=0)
        with pytest.raises(InvalidValue, match="0 to 100"):
            await engine.schedules.list(upcoming=101)
        with pytest.raises(WrongType, match="int"):
            await engine.schedules.list(upcoming=True)


@pytest.mark.anyio
async def test_workflow_body_must_not_create_one() -> None:
    """Inside a workflow a schedule cannot be created, and the message says what to do."""

    @workflow(name="schedules.nosy")
    async def nosy() -> None:
        await engine.schedules.create("s", waiter(), every=60)

    async with WorkflowEngine("memory://", workflows=[nosy, waiter]) as engine:
        with pytest.raises(WorkflowFailed) as caught:
            await (await engine.start(nosy())).result(timeout=SOON)
        assert isinstance(caught.value.__cause__, OperationMisused)
        assert await engine.schedules.list() == []


@pytest.mark.anyio
async def test_code_that_is_gone(store: Store) -> None:
    """After a deploy without the workflow its runs are parked; with the workflow they continue."""
    clock = ManualClock()
    async with WorkflowEngine(store, clock=clock, workflows=[report]) as engine:
        await engine.schedules.create("s", report("x"), every=60)
    clock.advance(MINUTE)
    async with WorkflowEngine(store, clock=clock, workflows=[waiter]) as engine:
        await settle(engine)
        (run,) = await engine.runs.list(tag="schedule:s")
        assert run.status is WorkflowStatus.PARKED
    async with WorkflowEngine(store, clock=clock, workflows=[report]) as engine:
        assert str(await ended(engine, run.id)).startswith("wrote x of 2031")


def test_without_a_loop(tmp_path: Path) -> None:
    """The same for services without an event loop."""
    with SyncWorkflowEngine(tmp_path / "store.db", clock=ManualClock()) as engine:
        made = engine.schedules.create("s", waiter(), cron="@daily", timezone="Europe/Berlin")
        assert made.next_runs[0] == datetime(2031, 5, 18, tzinfo=ZoneInfo("Europe/Berlin"))
        engine.schedules.pause("s")
        assert [schedule.is_paused for schedule in engine.schedules.list(limit=5)] == [True]
        engine.schedules.resume("s")
        run = engine.schedules.trigger("s", id="now")
        engine.send_event(go, 3, to="now")
        assert run.result(timeout=SOON) == 3
        engine.schedules.delete("s")
        assert engine.schedules.list() == []

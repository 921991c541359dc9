"""The wall clock jumps forward or back, or stands still, under an engine with its real thread."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from durable import Durable, Event, WorkflowEngine, WorkflowStatus, sleep, workflow
from durable.testing.clock import NOON, ManualClock
from tests.scenarios.kit import SOON, Store, move, waiting

pytestmark = pytest.mark.anyio
answer = Event[int]("clock.answer")
HOUR, YEARS = timedelta(hours=1), timedelta(days=3652)
COUNT = 20


@workflow(name="clock.nap")
def nap(minutes: int) -> Durable[datetime]:
    """Sleeps, and returns when it woke."""
    return (yield from sleep(timedelta(minutes=minutes)))


@workflow(name="clock.ask")
def ask() -> Durable[int]:
    """Waits for half an hour at most."""
    return (yield from answer.wait().within(timedelta(minutes=30)).or_default(0))


async def begin(engine: WorkflowEngine) -> None:
    """Sleepers of one to twenty minutes, and one workflow that waits."""
    for number in range(1, COUNT + 1):
        await engine.start(nap(number), id=f"nap-{number}")
    await engine.start(ask(), id="ask")


async def statuses(engine: WorkflowEngine) -> set[WorkflowStatus | None]:
    """The status of each of them."""
    return {await engine.query_status(id) for id in ("ask", *(f"nap-{n}" for n in range(1, COUNT + 1)))}


@pytest.mark.parametrize("step", [HOUR, YEARS], ids=["an hour", "ten years"])
async def test_clock_set_forward(store: Store, step: timedelta) -> None:
    """Everything that is due by the new time fires, once and not before it was due."""
    clock = ManualClock()
    async with WorkflowEngine(store, clock=clock) as engine:
        await begin(engine)
        clock.set(NOON + step)
        for number in range(1, COUNT + 1):
            woke = await engine.handle(f"nap-{number}").result(timeout=SOON)
            assert woke >= NOON + timedelta(minutes=number)
            assert len(await engine.runs.history(f"nap-{number}")) == 1
        assert await engine.handle("ask").result(timeout=SOON) == 0


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("step", [HOUR, YEARS], ids=["an hour", "ten years"])
async def test_clock_set_back(store: Store, step: timedelta, restarts: bool) -> None:
    """Nothing fires before its recorded deadline, nothing hangs, and everything fires when that time comes again."""
    clock = ManualClock()
    async with WorkflowEngine(store, clock=clock) as engine:
        await begin(engine)
        clock.set(NOON - step)
        await move(engine, clock, timedelta(minutes=25))
        assert await statuses(engine) == {WorkflowStatus.SUSPENDED}
        late = await engine.start(nap(1), id="late")
        await move(engine, clock, 60)
        assert await late.result(timeout=SOON) == NOON - step + timedelta(minutes=26)
        if not restarts:
            clock.set(NOON + timedelta(minutes=29))
            await engine.query_status("nobody")
            assert await engine.handle(f"nap-{COUNT}").result(timeout=SOON) >= NOON + timedelta(minutes=COUNT)
            assert await engine.query_status("ask") is WorkflowStatus.SUSPENDED
    async with WorkflowEngine(store, clock=ManualClock(NOON + HOUR)) as engine:
        for number in range(1, COUNT + 1):
            assert await engine.handle(f"nap-{number}").result(timeout=SOON) >= NOON + timedelta(minutes=number)
        assert await engine.handle("ask").result(timeout=SOON) == 0


async def test_clock_that_stands_still(store: Store) -> None:
    """If the clock never moves, events and sleeps of zero continue; only real sleeps wait, and none ends early."""
    clock = ManualClock()
    async with WorkflowEngine(store, clock=clock) as engine:
        await begin(engine)
        await waiting(engine, "ask", "event")
        await engine.send_event(answer, 5, to="ask")
        assert await engine.handle("ask").result(timeout=SOON) == 5
        assert await (await engine.start(nap(0))).result(timeout=SOON) == NOON
        assert {await engine.query_status(f"nap-{n}") for n in range(1, COUNT + 1)} == {WorkflowStatus.SUSPENDED}

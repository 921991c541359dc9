"""A schedule whose row cannot be read harms nothing else, and is repaired by creating it again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from durable import Durable, DurableError, Overlap, StorageError, WorkflowEngine, workflow
from durable.testing.clock import NOON, ManualClock
from tests.scenarios.kit import query
from tests.scenarios.test_damaged_rows import damages, do_damage

pytestmark = pytest.mark.anyio
HOUR = timedelta(hours=1)


@workflow(name="damaged.tick")
def tick() -> Durable[int]:
    """Does little."""
    yield from ()
    return 1


async def ask_everything(engine: WorkflowEngine, name: str) -> None:
    """Every call is answered, or refused with our errors."""
    schedules = engine.schedules
    for question in (schedules.pause, schedules.resume, schedules.trigger, schedules.delete):
        try:
            await question(name)
        except StorageError as error:
            pytest.fail(f"{question.__name__} of {name} stopped the engine: {error}")
        except DurableError:
            pass


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_damaged_schedules_affect_no_others(tmp_path: Path) -> None:
    """Any value in any column: the engine works, the good schedule ticks, and a bad one can be created again."""
    file = tmp_path / "store.db"
    clock = ManualClock()
    async with WorkflowEngine(file):
        pass
    all = damages(file, "schedule", "bad", "name = '{}'")
    async with WorkflowEngine(file, clock=clock) as engine:
        for damage in all:
            await engine.schedules.create(damage.id, tick(), cron="@hourly", overlap=Overlap.QUEUE)
        await engine.schedules.create("good", tick(), cron="@hourly")
    do_damage(file, "schedule", all)
    for hour in (1, 2):
        clock.set(NOON + hour * HOUR)
        async with WorkflowEngine(file, clock=clock) as engine:
            for _ in range(6):
                await engine.query_status("nobody")
            assert await engine.query_status(f"good@2031-05-17T1{2 + hour}:00:00+00:00") is not None
            assert "good" in [schedule.name for schedule in await engine.schedules.list(limit=1000, upcoming=5)]
            for damage in all:
                await ask_everything(engine, damage.id)
    async with WorkflowEngine(file, clock=clock) as engine:
        for damage in all:
            await engine.schedules.create(damage.id, tick(), cron="@hourly", replace=True)
        assert {damage.id for damage in all} <= {schedule.name for schedule in await engine.schedules.list(limit=1000)}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_zone_that_is_gone(tmp_path: Path) -> None:
    """A schedule in a time zone that this machine does not have stands still, unchanged, and the log says so."""
    file = tmp_path / "store.db"
    async with WorkflowEngine(file, clock=ManualClock()) as engine:
        await engine.schedules.create("s", tick(), cron="@hourly", timezone="Europe/Berlin")
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("UPDATE schedule SET timezone = 'Europe/Atlantis'")
    before = query(file, "SELECT * FROM schedule")
    async with WorkflowEngine(file, clock=ManualClock(NOON + HOUR)) as engine:
        for _ in range(6):
            await engine.query_status("nobody")
        assert await engine.schedules.list() == []
    assert query(file, "SELECT * FROM schedule") == before

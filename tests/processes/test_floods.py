"""Floods: timers that are all overdue when an engine starts, and events that no workflow takes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from durable import (
    Durable,
    EngineConfig,
    Event,
    PendingEventsFull,
    Queued,
    WorkflowEngine,
    WorkflowStatus,
    WorkflowTerminated,
    sleep,
    workflow,
)
from durable.backends.base import Batch
from durable.backends.sqlite import SqliteBackend
from durable.model.records import WorkflowRecord
from durable.testing.clock import NOON, ManualClock
from tests.scenarios.kit import SOON, query

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]
nothing = Event[int]("flood.nothing")
LATER = NOON + timedelta(hours=2)


@workflow(name="flood.nap")
def nap() -> Durable[int]:
    """Sleeps for an hour."""
    yield from sleep(3600)
    return 7


@workflow(name="flood.deaf")
def deaf() -> Durable[int]:
    """Waits for an event that is never sent."""
    return (yield from nothing.wait(key="never"))


@workflow(name="flood.quick")
def quick() -> Durable[int]:
    """Ends at once."""
    yield from ()
    return 1


async def asleep(file: Path, count: int, **columns: object) -> None:
    """A store with this many sleepers: an engine makes one, and its row is copied."""
    async with WorkflowEngine(file, clock=ManualClock()) as engine:
        await engine.start(nap(), id="nap-1")
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        names = [row[1] for row in connection.execute("PRAGMA table_info(workflow)") if row[1] not in ("key", "id")]
        connection.execute(
            "WITH RECURSIVE more(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM more WHERE n < ?) "
            f"INSERT INTO workflow (key, id, {', '.join(names)}) "
            f"SELECT n, 'nap-' || n, {', '.join(names)} FROM more, workflow WHERE key = 1",
            (count,),
        )
        connection.execute("UPDATE meta SET serial = ?", (count,))
        for column, value in columns.items():
            connection.execute(f"UPDATE {'meta' if column == 'clean' else 'workflow'} SET {column} = ?", (value,))


class Counting(SqliteBackend):
    """Counts the entries of each commit."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, synchronous="NORMAL")
        self.sizes: list[int] = []
        self.reads = 0

    def commit(self, batch: Batch) -> None:
        self.sizes.append(len(batch.history))
        super().commit(batch)

    def workflow_by_key(self, key: int) -> WorkflowRecord | None:
        self.reads += 1
        return super().workflow_by_key(key)


@pytest.mark.timeout(240)
async def test_hundred_thousand_overdue_timers(file: Path) -> None:
    """They fire in bounded batches, each once, and other calls are answered meanwhile."""
    count, config, backend, answered = 100_000, EngineConfig(), Counting(file), 0
    await asleep(file, count)
    async with WorkflowEngine(backend, clock=ManualClock(LATER), config=config) as engine:
        while await engine.query_status(f"nap-{count}") is not WorkflowStatus.SUCCEEDED:
            await engine.start(quick())
            answered += 1
    assert answered > 10
    assert max(backend.sizes) <= 2 * config.max_batch
    assert query(file, "SELECT count(*), count(DISTINCT workflow) FROM history") == [(count, count)]


@pytest.mark.parametrize("crashes", [0, 1])
async def test_overdue_timers_after_a_crash(file: Path, crashes: int) -> None:
    """After an unclean stop overdue sleepers are counted, or tried one at a time, without reading all for each."""
    count, backend = 1500, Counting(file)
    await asleep(file, count, clean=0, crashes=crashes)
    async with WorkflowEngine(backend, clock=ManualClock(LATER), config=EngineConfig(timer_window=200)) as engine:
        assert await (await engine.start(quick())).result(timeout=SOON) == 1
        for number in range(1, count + 1):
            assert await engine.handle(f"nap-{number}").result(timeout=SOON) == 7
    assert backend.reads < 20 * count
    assert query(file, "SELECT DISTINCT status, crashes FROM workflow") == [("succeeded", 0)]


@pytest.mark.parametrize(
    ("is_over", "refusal"), [(False, PendingEventsFull), (True, WorkflowTerminated)], ids=["waiting", "finished"]
)
@pytest.mark.timeout(60)
async def test_flood_of_events(file: Path, is_over: bool, refusal: type[Exception]) -> None:
    """Of fifty thousand sends only as many are kept as the limit allows; the others get an error."""
    limit, sends = 1000, 50_000
    kept: list[int] = []
    refused: list[int] = []
    async with WorkflowEngine(file, config=EngineConfig(max_pending_events=limit, max_inbox=500)) as engine:
        await engine.start(quick() if is_over else deaf(), id="a")
        numbers = iter(range(sends))

        async def client() -> None:
            for number in numbers:
                try:
                    assert await engine.send_event(nothing, number, to="a") == Queued()
                    kept.append(number)
                except refusal:
                    refused.append(number)

        async with anyio.create_task_group() as tasks:
            for _ in range(1000):
                tasks.start_soon(client)
        assert await (await engine.start(quick())).result(timeout=SOON) == 1
    assert (len(kept), len(refused)) == (0 if is_over else limit, sends if is_over else sends - limit)
    stored = [int(text) for (text,) in query(file, "SELECT payload FROM pending_event")]
    assert sorted(stored) == sorted(kept)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a store may be made."""
    return tmp_path / "store.db"

"""Old workflows are removed automatically, and the file becomes smaller."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from durable import Durable, EngineConfig, Event, InvalidValue, WorkflowEngine, WorkflowStatus, WrongType, workflow
from durable.backends.sqlite import SqliteBackend
from durable.testing.clock import ManualClock
from tests.scenarios.kit import SOON, Store, move, query

pytestmark = pytest.mark.anyio
answer = Event[int]("retention.answer")
PAYLOAD = "x" * 3000
RUNS = 1500


@workflow(name="retention.echo")
def echo(text: str) -> Durable[str]:
    """Ends at once."""
    yield from ()
    return text


@workflow(name="retention.wait")
def wait_for_answer() -> Durable[int]:
    """Wait for a number."""
    return (yield from answer.wait())


@workflow(name="retention.family")
def family() -> Durable[int]:
    """Has a child that ends at once, then waits."""
    yield from echo("hello").with_id("child")
    return (yield from answer.wait())


def pages(file: Path) -> tuple[int, int]:
    """How many pages the database has, and how many of them are free."""
    return query(file, "PRAGMA page_count")[0][0], query(file, "PRAGMA freelist_count")[0][0]


def size(file: Path) -> int:
    """The length of a file."""
    return file.stat().st_size


async def fill(engine: WorkflowEngine) -> None:
    """Run many workflows until they end."""
    async with anyio.create_task_group() as tasks:
        for number in range(RUNS):
            tasks.start_soon(engine.start, echo(PAYLOAD + str(number)))
    with anyio.fail_after(SOON):
        while await engine.runs.count(status=WorkflowStatus.SUCCEEDED) < RUNS:
            await anyio.lowlevel.checkpoint()


async def shrunk(engine: WorkflowEngine, clock: ManualClock, file: Path) -> None:
    """Let the engine free what it can; it checks once a second."""
    with anyio.fail_after(SOON):
        while pages(file)[1] > max(256, pages(file)[0] // 10) or size(file) != 4096 * pages(file)[0]:
            await move(engine, clock, 1.0)


async def test_retention_keeps_the_rules_of_purge(store: Store) -> None:
    """A child stays while its parent may still ask for it; when the parent has ended and is old, both are removed."""
    clock = ManualClock()
    config = EngineConfig(retention=timedelta(days=1), sweep_every=60)
    async with WorkflowEngine(store, clock=clock, config=config) as engine:
        await engine.start(family(), id="p")
        with anyio.fail_after(SOON):
            while await engine.query_status("child") is not WorkflowStatus.SUCCEEDED:
                await anyio.lowlevel.checkpoint()
        await move(engine, clock, timedelta(days=2))
        await move(engine, clock, timedelta(minutes=2))
        assert await engine.runs.count() == 2
        await engine.send_event(answer, 1, to="p")
        assert await engine.handle("p").result(timeout=SOON) == 1
        await move(engine, clock, timedelta(days=2))
        with anyio.fail_after(SOON):
            while await engine.runs.count():
                await move(engine, clock, timedelta(minutes=2))


@pytest.mark.parametrize(("value", "error"), [(-1, InvalidValue), ("1d", WrongType), (True, WrongType)])
async def test_retention_must_be_a_duration(value: Any, error: type[Exception]) -> None:
    """A value that is neither a duration nor None is refused when the config is built."""
    with pytest.raises(error, match=r"EngineConfig\.retention"):
        EngineConfig(retention=value)


async def test_purge_gives_room_back_to_the_file_system(file: Path) -> None:
    """After a purge the database file shrinks while the engine runs, and it stays sound."""
    clock = ManualClock()
    async with WorkflowEngine(SqliteBackend(file, synchronous="NORMAL"), clock=clock) as engine:
        await engine.start(wait_for_answer(), id="open")
        await fill(engine)
        full = pages(file)[0]
        assert full * 4096 > RUNS * 2 * len(PAYLOAD)
        clock.advance(1.0)
        assert await engine.runs.purge(0) == RUNS
        await shrunk(engine, clock, file)
        assert size(file) < full * 4096 / 5
        await engine.send_event(answer, 1, to="open")
        assert await engine.handle("open").result(timeout=SOON) == 1
    assert query(file, "PRAGMA integrity_check") == [("ok",)]
    assert query(file, "PRAGMA auto_vacuum") == [(2,)]


async def test_reader_only_delays_what_is_given_back(file: Path) -> None:
    """A reader keeps the file from shrinking; when the reader is done the file shrinks, without any new work."""
    clock = ManualClock()
    async with WorkflowEngine(SqliteBackend(file, synchronous="NORMAL"), clock=clock) as engine:
        await fill(engine)
        clock.advance(1.0)
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM workflow").fetchone()
            full = size(file)
            assert await engine.runs.purge(0) == RUNS
            with anyio.fail_after(SOON):
                while pages(file)[1] > max(256, pages(file)[0] // 10):
                    await move(engine, clock, 1.0)
            assert size(file) >= full
        await shrunk(engine, clock, file)


def make_old(file: Path) -> None:
    """A store that an earlier version created: its file never shrinks."""
    backend = SqliteBackend(file)
    backend.open("old")
    backend.close()
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA auto_vacuum = NONE")
        connection.execute("VACUUM")
    assert query(file, "PRAGMA auto_vacuum") == [(0,)]


async def test_older_file_can_be_vacuumed_when_it_is_opened(file: Path) -> None:
    """A file of an earlier version keeps its pages for reuse; once opened with `vacuum=True` it can shrink."""
    make_old(file)
    clock = ManualClock()
    async with WorkflowEngine(SqliteBackend(file, synchronous="NORMAL"), clock=clock) as engine:
        await fill(engine)
        clock.advance(1.0)
        assert await engine.runs.purge(0) == RUNS
        full, free = pages(file)
        assert free > full / 2
    assert query(file, "PRAGMA auto_vacuum") == [(0,)]
    async with WorkflowEngine(SqliteBackend(file, vacuum=True), clock=clock) as engine:
        assert pages(file)[0] < full / 5
        assert await engine.runs.count() == 0
    assert query(file, "PRAGMA auto_vacuum") == [(2,)]
    assert query(file, "PRAGMA integrity_check") == [("ok",)]

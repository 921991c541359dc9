"""Another process has the store's file locked while the engine works on it."""

from __future__ import annotations

import logging
from pathlib import Path

import anyio
import pytest

from durable import (
    Durable,
    EngineConfig,
    Event,
    StorageUnavailable,
    WorkflowEngine,
    activity,
    sleep,
    workflow,
)
from durable.backends.sqlite import SqliteBackend
from tests.processes.strangers import held
from tests.scenarios.kit import SOON, query

pytestmark = pytest.mark.anyio
answer = Event[int]("lock.answer")
# What other programs do to a file that keeps an engine from writing.
LOCKS = {"immediate": ["BEGIN IMMEDIATE"], "exclusive": ["BEGIN EXCLUSIVE"]}


@activity
async def add_one(number: int) -> int:
    """Some work."""
    return number + 1


@workflow(name="lock.wait")
def wait_for_answer() -> Durable[int]:
    """Wait for a number, and work on it."""
    number = yield from answer.wait()
    yield from sleep(0.01)
    return (yield from add_one(number))


@workflow(name="lock.big")
def big(text: str) -> Durable[int]:
    """Waits, with a large argument."""
    return len(text) + (yield from answer.wait(key="never"))


def levels(caplog: pytest.LogCaptureFixture) -> list[int]:
    """The levels of the engine's log lines, without the watchdog's, which depend on the speed of the machine."""
    return [record.levelno for record in caplog.records if record.name == "durable" and record.module != "watchdog"]


def size(file: Path) -> int:
    """The size of a file; 0 if it does not exist."""
    return file.stat().st_size if file.exists() else 0


async def until_warned(caplog: pytest.LogCaptureFixture) -> None:
    """Wait until the engine has met the lock."""
    while not levels(caplog):
        await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("lock", LOCKS)
async def test_engine_waits_for_a_foreign_lock(tmp_path: Path, caplog: pytest.LogCaptureFixture, lock: str) -> None:
    """While another process holds the file, calls only wait; when it lets go, all of them are answered."""
    file = tmp_path / "store.db"
    backend = SqliteBackend(file, busy_timeout=0.01)
    started: list[str] = []

    async def start(id: str) -> None:
        await engine.start(wait_for_answer(), id=id)
        started.append(id)

    async with WorkflowEngine(backend) as engine:
        await engine.start(wait_for_answer(), id="before")
        with held(file, *LOCKS[lock]) as holder:
            async with anyio.create_task_group() as tasks:
                for number in range(20):
                    tasks.start_soon(start, f"during-{number}")
                await until_warned(caplog)
                assert started == []
                assert query(file, "SELECT id FROM workflow") == [("before",)]
                holder.let_go()
        assert len(started) == 20
        for id in ("before", *started):
            await engine.send_event(answer, 1, to=id)
            assert await engine.handle(id).result(timeout=SOON) == 2
    # One line when it began and one when it was over.
    assert levels(caplog) == [logging.WARNING] * 2


@pytest.mark.parametrize("lock", LOCKS)
async def test_lock_that_stays_stops_the_engine(tmp_path: Path, caplog: pytest.LogCaptureFixture, lock: str) -> None:
    """After its patience the engine stops and names the file; the next engine finds all acknowledged work."""
    file = tmp_path / "store.db"
    config = EngineConfig(commit_patience=0.2)
    async with WorkflowEngine(SqliteBackend(file, busy_timeout=0.01), config=config) as engine:
        await engine.start(wait_for_answer(), id="before")
        with held(file, *LOCKS[lock]):
            with pytest.raises(StorageUnavailable, match=r"store\.db: database is locked"):
                await engine.send_event(answer, 1, to="before")
            with pytest.raises(StorageUnavailable, match=r"store\.db"):
                await engine.start(wait_for_answer(), id="during")
    assert levels(caplog) == [logging.WARNING, logging.CRITICAL]
    async with WorkflowEngine(file) as engine:
        assert [run.id for run in await engine.runs.list()] == ["before"]
        await engine.send_event(answer, 1, to="before")
        assert await engine.handle("before").result(timeout=SOON) == 2


@pytest.mark.parametrize("lock", LOCKS)
async def test_lock_is_not_waited_for_beyond_the_patience(tmp_path: Path, lock: str) -> None:
    """However long the store is set to wait for a lock, the engine stops when its patience is over."""
    file = tmp_path / "store.db"
    backend = SqliteBackend(file, busy_timeout=60)
    async with WorkflowEngine(backend, config=EngineConfig(commit_patience=0.2)) as engine:
        await engine.start(wait_for_answer(), id="before")
        refused = pytest.raises(StorageUnavailable, match=r"store\.db: database is locked")
        with held(file, *LOCKS[lock]), anyio.fail_after(30), refused:
            await engine.start(wait_for_answer(), id="during")


async def test_long_reader_blocks_no_engine(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A reader of an old state blocks checkpoints; the engine keeps working, and the WAL shrinks afterwards."""
    file = tmp_path / "store.db"
    wal = Path(f"{file}-wal")
    async with WorkflowEngine(file) as engine:
        await engine.start(wait_for_answer(), id="before")
        with held(file, "BEGIN", "SELECT count(*) FROM workflow") as holder:
            # More than the WAL may hold before it is written back.
            while size(wal) < 5000 * 4096:
                await engine.start(big("x" * 500_000))
            holder.let_go()
        await engine.send_event(answer, 1, to="before")
        assert await engine.handle("before").result(timeout=SOON) == 2
    assert size(wal) == 0
    assert levels(caplog) == []
    assert query(file, "PRAGMA integrity_check") == [("ok",)]

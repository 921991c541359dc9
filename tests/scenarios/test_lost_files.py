"""The store's files are removed or replaced under a running engine: it notices, and acknowledges nothing more."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from durable import Durable, EngineConfig, Event, StoreUnusable, WorkflowEngine, workflow
from durable.backends.sqlite import SqliteBackend
from durable.engine.coordinator.coordinator import WorkflowStateCoordinator
from durable.model.codec import Codec
from durable.model.registry import Registry
from durable.testing.clock import ManualClock
from tests.scenarios.kit import query

pytestmark = pytest.mark.anyio
answer = Event[int]("lost.answer")
# This many starts may be acknowledged before the engine notices, if no time passes.
COMMITS = 10


@workflow(name="lost.wait")
def wait_for_answer() -> Durable[int]:
    """Wait for a number."""
    return (yield from answer.wait())


def delete(file: Path) -> None:
    """Remove the database."""
    file.unlink()


def rename(file: Path) -> None:
    """Move the database away."""
    file.rename(file.with_name("old.db"))


def replace(file: Path) -> None:
    """Put another file in its place, as `mv restored.db store.db` does."""
    shutil.copy(file, file.with_name("restored.db"))
    file.with_name("restored.db").rename(file)


def delete_log(file: Path) -> None:
    """Remove the write-ahead log."""
    Path(f"{file}-wal").unlink()


def replace_log(file: Path) -> None:
    """Put another log in its place."""
    shutil.copy(f"{file}-wal", f"{file}-copy")
    os.replace(f"{file}-copy", f"{file}-wal")


def delete_index(file: Path) -> None:
    """Remove the log's index, which holds the locks between processes."""
    Path(f"{file}-shm").unlink()


def empty_log(file: Path) -> None:
    """Truncate the log in place, as `> store.db-wal` does."""
    Path(f"{file}-wal").write_bytes(b"")


LOSSES = [delete, rename, replace, delete_log]


def critical(caplog: pytest.LogCaptureFixture) -> int:
    """How often the log said that the engine has stopped."""
    return sum(record.levelno == logging.CRITICAL for record in caplog.records if record.name == "durable")


async def started_until_refused(engine: WorkflowEngine) -> int:
    """How many starts are acknowledged before the engine notices."""
    for number in range(2 * COMMITS):
        try:
            await engine.start(wait_for_answer(), id=str(number))
        except StoreUnusable:
            return number
    return 2 * COMMITS


def back_up(file: Path, target: Path) -> None:
    """Copy a store as SQLite's shell does."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)


def remove_log(file: Path) -> None:
    """Remove a log that no database uses."""
    for suffix in ("-wal", "-shm"):
        Path(f"{file}{suffix}").unlink(missing_ok=True)


def overwrite(file: Path, source: Path) -> None:
    """Do what `cp` does: the file stays the same and its contents change."""
    file.write_bytes(source.read_bytes())


def is_copy(file: Path, source: Path) -> bool:
    """Whether two files have the same contents."""
    return file.read_bytes() == source.read_bytes()


@pytest.mark.parametrize("lose", LOSSES)
async def test_lost_file_is_noticed_within_ten_commits(
    file: Path, caplog: pytest.LogCaptureFixture, lose: Callable[[Path], None]
) -> None:
    """However fast commits come, at most nine are acknowledged after the loss; then the engine stops for good."""
    async with WorkflowEngine(file, clock=ManualClock()) as engine:
        await engine.start(wait_for_answer(), id="before")
        lose(file)
        acknowledged = await started_until_refused(engine)
        assert acknowledged < COMMITS
        with pytest.raises(StoreUnusable):
            await engine.query_status("before")
    assert critical(caplog) == 1


@pytest.mark.parametrize("lose", [*LOSSES, replace_log, delete_index])
async def test_lost_file_is_noticed_within_a_second(
    file: Path, caplog: pytest.LogCaptureFixture, lose: Callable[[Path], None]
) -> None:
    """If its last check is a second old, the engine checks before it acknowledges the next start."""
    clock = ManualClock()
    async with WorkflowEngine(file, clock=clock) as engine:
        await engine.start(wait_for_answer(), id="before")
        lose(file)
        clock.advance(1.0)
        with pytest.raises(StoreUnusable, match=r"store\.db"):
            await engine.start(wait_for_answer(), id="after")
    assert critical(caplog) == 1


@pytest.mark.parametrize("lose", [*LOSSES, replace_log, delete_index])
def test_lost_file_is_noticed_by_an_idle_engine(file: Path, lose: Callable[[Path], None]) -> None:
    """An engine without calls wakes up within a second, checks, and stops."""
    clock, config = ManualClock(), EngineConfig()
    with closing(SqliteBackend(file)) as backend:
        coordinator = WorkflowStateCoordinator(
            backend, Registry([]), codec=Codec(), config=config, clock=clock, release=lambda release: None
        )
        coordinator.open("first")
        while coordinator.work_off():
            pass
        lose(file)
        assert coordinator.nap() == 1.0
        clock.advance(1.0)
        with pytest.raises(StoreUnusable):
            coordinator.work_off()


@pytest.mark.parametrize(("lose", "left"), [(delete_log, "store.db"), (delete_index, "store.db"), (rename, "old.db")])
async def test_what_was_acknowledged_is_written_back(file: Path, lose: Callable[[Path], None], left: str) -> None:
    """An engine that stops because its log was removed, or its file moved, still writes back all it acknowledged."""
    clock = ManualClock()
    async with WorkflowEngine(file, clock=clock) as engine:
        for number in range(3):
            await engine.start(wait_for_answer(), id=str(number))
        lose(file)
        clock.advance(1.0)
        with pytest.raises(StoreUnusable):
            await engine.query_status("0")
    remove_log(file)
    async with WorkflowEngine(file.with_name(left)) as engine:
        assert await engine.runs.count() == 3


async def test_overwritten_file_is_noticed_and_its_log_kept_apart(file: Path) -> None:
    """`cp backup.db store.db` under a running engine stops it; the next one opens the backup once the log is gone."""
    clock = ManualClock()
    backup = file.with_name("backup.db")
    async with WorkflowEngine(file, clock=clock) as engine:
        await engine.start(wait_for_answer(), id="before")
        with (
            closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(backup)) as copy,
        ):
            source.backup(copy)
        await engine.start(wait_for_answer(), id="after")
        overwrite(file, backup)
        clock.advance(1.0)
        with pytest.raises(StoreUnusable, match="overwritten"):
            await engine.start(wait_for_answer(), id="late")
    assert is_copy(file, backup)
    with pytest.raises((StoreUnusable, ExceptionGroup), match=r"rm .*store\.db-wal .*store\.db-shm"):
        async with WorkflowEngine(file):
            pass
    remove_log(file)
    async with WorkflowEngine(file) as engine:
        assert [run.id for run in await engine.runs.list()] == ["before"]


async def test_emptied_log_is_noticed_and_not_written_back(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A log that was truncated in place stops the engine after the next commit; the database stays sound."""
    clock = ManualClock()
    async with WorkflowEngine(file, clock=clock) as engine:
        for number in range(3):
            await engine.start(wait_for_answer(), id=str(number))
        empty_log(file)
        clock.advance(1.0)
        with pytest.raises(StoreUnusable, match=r"store\.db-wal' was cut off"):
            await engine.start(wait_for_answer(), id="after")
    assert critical(caplog) == 1
    async with WorkflowEngine(file) as engine:
        await engine.start(wait_for_answer(), id="again")
    assert query(file, "PRAGMA integrity_check") == [("ok",)]


async def test_schema_change_by_others_is_no_loss(file: Path) -> None:
    """An index that is added through SQLite while the engine runs does not stop it."""
    clock = ManualClock()
    async with WorkflowEngine(file, clock=clock) as engine:
        with closing(sqlite3.connect(file)) as other:
            other.execute("CREATE INDEX theirs ON workflow (created_at)")
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for number in range(3):
            clock.advance(1.0)
            await engine.start(wait_for_answer(), id=str(number))
    assert query(file, "PRAGMA integrity_check") == [("ok",)]

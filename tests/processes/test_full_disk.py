"""The disk is full: callers wait or get an error, no acknowledged work is lost, and the file stays sound."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from durable import EngineConfig, StorageUnavailable, WorkflowEngine
from durable.backends.sqlite import SqliteBackend
from tests.processes.disk import answer, wait_for_answer
from tests.scenarios.kit import SOON, query

pytestmark = pytest.mark.anyio
DISK = Path(__file__).with_name("disk.py")


async def run(scene: str, file: Path) -> dict[str, Any]:
    """The report of a service on a small disk."""
    ended = await anyio.run_process([sys.executable, str(DISK), scene, str(file)], stderr=None)
    report: dict[str, Any] = json.loads(ended.stdout)
    return report


async def check_store(file: Path, started: list[str]) -> None:
    """All acknowledged work is there and continues."""
    assert query(file, "PRAGMA integrity_check") == [("ok",)]
    async with WorkflowEngine(file) as engine:
        assert {run.id for run in await engine.runs.list()} == set(started)
        for id in started:
            await engine.send_event(answer, 1, to=id)
            assert await engine.handle(id).result(timeout=SOON) == 100_001


async def test_room_again(tmp_path: Path) -> None:
    """Callers wait while files cannot grow, and are answered when they can; the log says when it begins and ends."""
    file = tmp_path / "store.db"
    report = await run("room again", file)
    assert report["error"] == ""
    assert 0 < report["before"] < 30 == len(report["started"])
    assert report["levels"] == ["WARNING", "WARNING"]
    await check_store(file, report["started"])


async def test_no_room(tmp_path: Path) -> None:
    """A disk that stays full stops the engine with the file's name; after a restart all acknowledged work is there."""
    file = tmp_path / "store.db"
    report = await run("no room", file)
    assert str(file) in report["error"]
    assert 0 < len(report["started"]) < 30
    assert report["levels"] == ["WARNING", "CRITICAL"]
    await check_store(file, report["started"])


@pytest.mark.parametrize("gets_room", [True, False])
async def test_full_database(tmp_path: Path, caplog: pytest.LogCaptureFixture, gets_room: bool) -> None:
    """The same with a database that may not have more pages: SQLite's own way to be full."""
    file = tmp_path / "store.db"
    backend = SqliteBackend(file)
    started: list[str] = []

    async def start(id: str) -> None:
        await engine.start(wait_for_answer("x" * 100_000), id=id)
        started.append(id)

    async with WorkflowEngine(backend, config=EngineConfig(commit_patience=60 if gets_room else 0.2)) as engine:
        await start("first")
        connection = backend._connection
        assert connection is not None
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 10}")
        if gets_room:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(start, "second")
                while not caplog.records:
                    await anyio.lowlevel.checkpoint()
                assert started == ["first"]
                connection.execute("PRAGMA max_page_count = 1000000")
        else:
            with pytest.raises(StorageUnavailable, match=r"store\.db: database or disk is full"):
                await start("second")
    last = logging.WARNING if gets_room else logging.CRITICAL
    assert [record.levelno for record in caplog.records if record.name == "durable"] == [logging.WARNING, last]
    assert started == ["first", "second"][: 1 + gets_room]
    await check_store(file, started)

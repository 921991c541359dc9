"""Closing any descriptor of a file drops the process's POSIX locks on it: SQLite's must stay."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from durable import Durable, Event, StoreInUse, WorkflowEngine, workflow

READER = """
import sqlite3
import sys

connection = sqlite3.connect(sys.argv[1])
print(connection.execute("SELECT count(*) FROM workflow").fetchone()[0])
connection.close()
"""
answer = Event[int]("posix-lock.answer")


@workflow(name="posix-lock.wait")
def wait_for_answer() -> Durable[int]:
    """Wait for a number."""
    return (yield from answer.wait())


async def seen_from_outside(path: Path) -> int:
    """How many workflows another process finds when it opens the file and closes it again."""
    ended = await anyio.run_process([sys.executable, "-c", READER, str(path)], stderr=subprocess.STDOUT)
    return int(ended.stdout)


@pytest.mark.anyio
async def test_refused_engine_leaves_the_locks_of_the_first(tmp_path: Path) -> None:
    """After a second engine of the process was refused, a reader from outside does not delete the first one's WAL."""
    file = tmp_path / "store.db"
    async with WorkflowEngine(file) as engine:
        await engine.start(wait_for_answer(), id="before")
        with pytest.raises((StoreInUse, ExceptionGroup)):
            async with WorkflowEngine(file):
                pass
        assert await seen_from_outside(file) == 1
        assert file.with_name("store.db-wal").exists()
        await engine.start(wait_for_answer(), id="after")
        assert await seen_from_outside(file) == 2
    async with WorkflowEngine(file) as engine:
        assert await engine.runs.count() == 2

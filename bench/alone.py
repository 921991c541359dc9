"""One workflow at a time, with one activity: how much of its latency is not the two commits that it needs."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from bench.steps import step
from bench.stopwatch import Stopwatch
from durable import Durable, WorkflowEngine, workflow
from durable.backends.rows import HISTORY, history_rows
from durable.backends.sqlite import SqliteBackend
from durable.records import EntryKind, EntryStatus, HistoryEntry


@workflow(name="bench-one-step")
def one_step(start: int) -> Durable[int]:
    """A single activity."""
    return (yield from step(start))


async def durable_alone(folder: Path, count: int, stopwatch: Stopwatch) -> None:
    """Start, wait for the result, again."""
    async with WorkflowEngine(folder / "durable.db") as engine:
        with stopwatch:
            for number in range(count):
                assert await (await engine.start(one_step(number), id=f"w{number}")).result() == number + 1


async def bare_alone(folder: Path, count: int, stopwatch: Stopwatch) -> None:
    """Two commits of one row each, by a connection that does nothing else."""
    backend = SqliteBackend(folder / "bare.db")
    backend.open("bare")
    backend.close()
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA synchronous=FULL")
    insert = HISTORY.insert()
    with stopwatch:
        for number in range(count):
            for seq in (1, 2):
                entry = HistoryEntry(seq, "0", EntryKind.ACTIVITY, "step", EntryStatus.OK, "1", time.time_ns() // 1000)
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany(insert, history_rows([(number, entry)]))
                connection.execute("COMMIT")
    connection.close()

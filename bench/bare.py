"""The bare loop: only the work that no engine can leave out.

The same asyncio tasks, the same JSON, and the same rows into the same tables, inserted in batches by one writer thread
that commits all that is queued. It has no workflows, replays nothing, checks nothing and recovers nothing.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from pathlib import Path
from typing import Any

import msgspec

from bench.figures import latencies, many
from bench.job import Job, Outcome
from bench.stopwatch import Stopwatch
from bench.workloads.w1 import STEPS, figures
from durable.backends.sql.rows import HISTORY, WORKFLOW, workflow_row
from durable.backends.sqlite import SqliteBackend
from durable.model.records import WorkflowRecord, WorkflowStatus

START = WORKFLOW.insert()
STEP = HISTORY.insert()
END = "UPDATE workflow SET status = ?, result = ?, finished_at = ? WHERE key = ?"

Write = tuple[str, tuple[Any, ...], "asyncio.Future[None]"]


class Writer:
    """A thread that commits everything that is queued, and resolves all its futures in one call into the loop."""

    def __init__(self, path: Path) -> None:
        backend = SqliteBackend(path)
        backend.open("bare")
        backend.close()
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._inbox: queue.SimpleQueue[Write | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    async def write(self, sql: str, row: tuple[Any, ...]) -> None:
        """Wait until a row is durable."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._inbox.put((sql, row, future))
        await future

    def stop(self) -> None:
        """End the thread."""
        self._inbox.put(None)
        self._thread.join()

    def _run(self) -> None:
        """The thread: take all that is queued, up to 1,000 rows, and insert it in one transaction."""
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA wal_autocheckpoint=4000")
        while (first := self._inbox.get()) is not None:
            batch = [first]
            while len(batch) < 1000 and not self._inbox.empty():
                item = self._inbox.get()
                if item is None:
                    self._inbox.put(None)
                    break
                batch.append(item)
            connection.execute("BEGIN IMMEDIATE")
            for sql in (START, STEP, END):
                connection.executemany(sql, [row for statement, row, _ in batch if statement is sql])
            connection.execute("COMMIT")
            self._loop.call_soon_threadsafe(_resolve, [future for _, _, future in batch])
        connection.close()


def _resolve(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        future.set_result(None)


async def _one_step(number: int) -> int:
    return number + 1


async def _workflow(writer: Writer, number: int) -> None:
    """One workflow without an engine: a row for the start, one for each step, and an update for the end."""
    text = msgspec.json.encode({"count": STEPS}).decode()
    record = WorkflowRecord(
        key=number + 1, id=f"w{number}", name="bench-steps", status=WorkflowStatus.RUNNING, input=text,
        created_at=0, start_at=0,
    )  # fmt: skip
    await writer.write(START, workflow_row(record))
    value = number
    for place in range(STEPS):
        value = await asyncio.create_task(_one_step(value))
        text = msgspec.json.encode(value).decode()
        await writer.write(STEP, (record.key, place + 1, str(place), "activity", "step", "ok", text, 0, None))
        value = msgspec.json.decode(text)
    await writer.write(END, ("succeeded", msgspec.json.encode(value).decode(), 0, record.key))


async def measure(job: Job) -> Outcome:
    """Workflows of ten steps, many at a time: what W1 does, without an engine."""
    count, at_once = job.size("count"), job.size("at_once")
    writer = Writer(job.path / "bare.db")
    warm = max(10, count // 10)
    await many(warm, at_once, lambda number: _workflow(writer, number))
    stopwatch = Stopwatch()
    with stopwatch:
        took = await many(count, at_once, lambda number: _workflow(writer, warm + number))
    writer.stop()
    return Outcome(figures(stopwatch, count * STEPS) | latencies(took), "SQLite, journal_mode=wal, synchronous=FULL")

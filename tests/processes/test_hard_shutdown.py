"""Leaving an engine at bad moments: during recovery or while its store is locked; and forks that exit."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import sys
import threading
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import anyio
import pytest

from durable import (
    Durable,
    EngineClosed,
    EngineConfig,
    EngineForked,
    Event,
    StoreInUse,
    WorkflowEngine,
    WorkflowStatus,
    activity,
    workflow,
)
from durable.backends.sqlite import SqliteBackend
from tests.processes.strangers import held
from tests.scenarios.kit import SOON, query

pytestmark = pytest.mark.anyio
answer = Event[int]("hard.answer")
COUNT = 2000


@activity
async def add_one(number: int) -> int:
    """Some work."""
    return number + 1


@workflow(name="hard.wait")
def wait_for_answer() -> Durable[int]:
    """Wait for a number, and work on it."""
    return (yield from add_one((yield from answer.wait())))


@workflow(name="hard.work")
def work(number: int) -> Durable[int]:
    """Work at once."""
    return (yield from add_one(number))


async def open_when_free(file: Path) -> dict[str, WorkflowStatus]:
    """The statuses that the next engine finds, once the last one has released the file."""
    while True:
        try:
            async with WorkflowEngine(file) as engine:
                return {run.id: run.status for run in await engine.runs.list(limit=1000)}
        except StoreInUse:
            await anyio.lowlevel.checkpoint()


async def test_shutdown_while_the_store_is_locked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """`shutdown` returns although the store hangs; waiting callers are answered later, and acknowledged work stays."""
    file = tmp_path / "store.db"
    outcomes: list[str] = []

    async def start() -> None:
        try:
            await engine.start(wait_for_answer(), id="during")
            outcomes.append("started")
        except EngineClosed:
            outcomes.append("refused")

    async with WorkflowEngine(SqliteBackend(file, busy_timeout=0.01)) as engine, anyio.create_task_group() as tasks:
        await engine.start(wait_for_answer(), id="before")
        with held(file, "BEGIN IMMEDIATE") as holder:
            tasks.start_soon(start)
            while not caplog.records:
                await anyio.lowlevel.checkpoint()
            async with anyio.create_task_group() as both:
                both.start_soon(engine.shutdown, 0)
                both.start_soon(engine.shutdown, 0)
            with pytest.raises(EngineClosed):
                await engine.query_status("before")
            assert outcomes == []
            holder.let_go()
    statuses = await open_when_free(file)
    assert len(outcomes) == 1
    assert set(statuses) == {"before", *(["during"] if outcomes == ["started"] else [])}
    assert any("did not come back in time" in record.message for record in caplog.records)


async def test_shutdown_during_recovery(tmp_path: Path) -> None:
    """An engine that is left while it recovers thousands of rows exits quickly and loses none of them."""
    file = tmp_path / "store.db"
    async with WorkflowEngine(file, config=EngineConfig(drain=0)) as engine:
        await engine.start(work(1), id="w1")
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        names = [row[1] for row in connection.execute("PRAGMA table_info(workflow)")][2:]
        connection.execute("DELETE FROM history")
        connection.execute("UPDATE workflow SET status = 'running', result = NULL, finished_at = NULL")
        connection.execute(
            "WITH RECURSIVE more(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM more WHERE n < ?) "
            f"INSERT INTO workflow (key, id, {', '.join(names)}) "
            f"SELECT n, 'w' || n, {', '.join(names)} FROM more, workflow WHERE key = 1",
            (COUNT,),
        )
        connection.execute("UPDATE meta SET serial = ?", (COUNT,))
    for _ in range(3):
        async with WorkflowEngine(file, config=EngineConfig(drain=0)):
            pass
    async with WorkflowEngine(file) as engine:
        for number in range(1, COUNT + 1):
            assert await engine.handle(f"w{number}").result(timeout=SOON) == 2
    assert query(file, "SELECT count(*), count(DISTINCT workflow) FROM history") == [(COUNT, COUNT)]


def in_child(pipe: Connection, engine: WorkflowEngine, file: Path) -> None:
    """What a forked child can do: nothing with this engine, nothing with its file; then it ends like any program."""

    async def use() -> list[str]:
        outcomes = []
        for call in (engine.query_status("a"), engine.start(wait_for_answer()), engine.runs.list()):
            try:
                await call
            except EngineForked as error:
                outcomes.append(f"forked from {error.opened_in}")
        try:
            async with WorkflowEngine(file):
                outcomes.append("opened")
        except StoreInUse:
            outcomes.append("in use")
        return outcomes

    # In its own thread: in this one the parent's loop still counts as running.
    thread = threading.Thread(target=lambda: pipe.send(anyio.run(use, backend="asyncio")))
    thread.start()
    thread.join()
    sys.exit(0)


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_child_of_multiprocessing(tmp_path: Path) -> None:
    """A child that was forked with an open engine, and ends through its exit handlers, harms neither lock nor store."""
    file = tmp_path / "store.db"
    context: Any = multiprocessing.get_context("fork")
    async with WorkflowEngine(file) as engine:
        handle = await engine.start(wait_for_answer(), id="a")
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=in_child, args=(sender, engine, file))
        child.start()
        sender.close()
        assert receiver.recv() == [*[f"forked from {os.getpid()}"] * 3, "in use"]
        child.join()
        assert child.exitcode == 0
        with pytest.raises(StoreInUse):
            async with WorkflowEngine(file):
                pass
        await engine.send_event(answer, 1, to="a")
        assert await handle.result(timeout=SOON) == 2
    assert query(file, "SELECT clean FROM meta") == [(1,)]
    assert query(file, "PRAGMA integrity_check") == [("ok",)]

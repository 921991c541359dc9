"""100 workflows at a time, ten trivial async activities each, on SQLite with synchronous=FULL.

`bare` does only what nobody can leave out: the same asyncio tasks, the JSON of each result, and batched inserts by one
writer thread that commits whatever is queued. It knows no workflow, replays nothing and checks nothing.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec

from durable import Durable, WorkflowEngine, activity, workflow

STEPS = 10
AT_ONCE = 100


@activity
async def step(number: int) -> int:
    """As little as an activity can do."""
    return number + 1


@workflow(name="bench-ten-steps")
def ten_steps(start: int) -> Durable[int]:
    """Ten activities in a row."""
    value = start
    for _ in range(STEPS):
        value = yield from step(value)
    return value


async def durable_steps(folder: Path, workflows: int) -> None:
    """The same work through the engine."""
    async with WorkflowEngine(folder / "durable.db") as engine:
        numbers = iter(range(workflows))

        async def client() -> None:
            for number in numbers:
                handle = await engine.start(ten_steps(number), id=f"w{number}")
                assert await handle.result() == number + STEPS

        await asyncio.gather(*(client() for _ in range(AT_ONCE)))


async def bare_steps(folder: Path, workflows: int) -> None:
    """Tasks, JSON and batched inserts."""
    loop = asyncio.get_running_loop()
    inbox: queue.SimpleQueue[tuple[tuple[Any, ...], asyncio.Future[None]] | None] = queue.SimpleQueue()

    def resolve(futures: list[asyncio.Future[None]]) -> None:
        for future in futures:
            future.set_result(None)

    def write() -> None:
        connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE h(w INTEGER, s INTEGER, v TEXT, at INTEGER, PRIMARY KEY(w, s)) WITHOUT ROWID")
        while (first := inbox.get()) is not None:
            batch = [first]
            while len(batch) < 1000 and not inbox.empty():
                item = inbox.get()
                if item is None:
                    inbox.put(None)
                    break
                batch.append(item)
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO h VALUES(?,?,?,?)", [row for row, _ in batch])
            connection.execute("COMMIT")
            loop.call_soon_threadsafe(resolve, [future for _, future in batch])
        connection.close()

    writer = threading.Thread(target=write)
    writer.start()
    numbers = iter(range(workflows))

    async def one_step(number: int) -> int:
        return number + 1

    def run(coroutine: Coroutine[Any, Any, int]) -> asyncio.Task[int]:
        return asyncio.create_task(coroutine)

    async def client() -> None:
        for number in numbers:
            value = number
            for place in range(STEPS):
                value = await run(one_step(value))
                text = msgspec.json.encode(value).decode()
                future: asyncio.Future[None] = loop.create_future()
                inbox.put(((number, place, text, 0), future))
                await future
                value = msgspec.json.decode(text)

    await asyncio.gather(*(client() for _ in range(AT_ONCE)))
    inbox.put(None)
    writer.join()

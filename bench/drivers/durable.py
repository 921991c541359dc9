"""durable with its defaults. `synchronous` is a setting of the engine's own connection, so here it is a fixed text."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from durable import Durable, Event, WorkflowEngine, WorkflowHandle, activity, sleep, workflow

STORE = "durable.db"
go = Event[int]("bench-go")


@activity
async def step(number: int) -> int:
    """As little as an activity can do."""
    return number + 1


@workflow(name="bench-steps")
def steps(count: int) -> Durable[int]:
    """Some activities in a row."""
    value = 0
    for _ in range(count):
        value = yield from step(value)
    return value


@workflow(name="bench-waiter")
def waiter() -> Durable[int]:
    """Waits for an event."""
    return (yield from go.wait())


@workflow(name="bench-sleeper")
def sleeper(seconds: float) -> Durable[None]:
    """Sleeps."""
    yield from sleep(seconds)


class DurableDriver:
    """An open `WorkflowEngine`."""

    pids = ()

    def __init__(self, engine: WorkflowEngine, path: Path) -> None:
        self.engine = engine
        self._path = path

    @property
    def settings(self) -> str:
        with closing(sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True)) as connection:
            journal = connection.execute("PRAGMA journal_mode").fetchone()[0]
        return f"SQLite {sqlite3.sqlite_version}, journal_mode={journal}, synchronous=FULL"

    async def run(self, id: str, count: int) -> None:
        handle = await self.engine.start(steps(count), id=id)
        assert await handle.result() == count

    async def start_waiting(self, id: str) -> WorkflowHandle[int]:
        return await self.engine.start(waiter(), id=id)

    async def start_sleeping(self, id: str, seconds: float) -> WorkflowHandle[None]:
        return await self.engine.start(sleeper(seconds), id=id)

    async def settle(self, waiting: int) -> None:
        """A start returns when the body has reached its first wait and that is stored."""

    async def send(self, id: str) -> None:
        await self.engine.send_event(go, 1, to=id)

    async def result(self, handle: WorkflowHandle[Any]) -> None:
        await handle.result()

    def handle(self, id: str) -> WorkflowHandle[Any]:
        return self.engine.handle(id)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[DurableDriver]:
    """An engine on the store in a folder."""
    async with WorkflowEngine(folder / STORE) as engine:
        yield DurableDriver(engine, folder / STORE)

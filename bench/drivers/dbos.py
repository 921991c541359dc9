"""DBOS Transact on SQLite with its defaults: async workflows and steps, started under chosen ids."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dbos import DBOS, DBOSConfig, SetWorkflowID

from bench.drivers.pragmas import Pragmas

TOPIC = "go"
PATIENCE = 3600
# Grows by an item each time a body has reached its wait.
_arrived: list[None] = []


@DBOS.step()
async def step(number: int) -> int:
    """As little as a step can do."""
    return number + 1


@DBOS.workflow()
async def steps(count: int) -> int:
    """Some steps in a row."""
    value = 0
    for _ in range(count):
        value = await step(value)
    return value


@DBOS.workflow()
async def waiter() -> int:
    """Waits for a message."""
    _arrived.append(None)
    message: int = await DBOS.recv_async(TOPIC, timeout_seconds=PATIENCE)
    return message


@DBOS.workflow()
async def sleeper(seconds: float) -> None:
    """Sleeps."""
    await DBOS.sleep_async(seconds)


class DbosDriver:
    """A launched DBOS."""

    pids = ()

    def __init__(self, pragmas: Pragmas) -> None:
        self._pragmas = pragmas
        self._started = 0

    @property
    def settings(self) -> str:
        return f"dbos {version('dbos')}, {self._pragmas.text}"

    async def run(self, id: str, count: int) -> None:
        with SetWorkflowID(id):
            handle = await DBOS.start_workflow_async(steps, count)
        assert await handle.get_result() == count

    async def start_waiting(self, id: str) -> Any:
        self._started += 1
        with SetWorkflowID(id):
            return await DBOS.start_workflow_async(waiter)

    async def start_sleeping(self, id: str, seconds: float) -> Any:
        with SetWorkflowID(id):
            return await DBOS.start_workflow_async(sleeper, seconds)

    async def settle(self, waiting: int) -> None:
        while len(_arrived) < self._started:  # noqa: ASYNC110  # bodies may run in other threads
            await asyncio.sleep(0.02)
        # A body notes its arrival one statement before its wait.
        await asyncio.sleep(0.1)

    async def send(self, id: str) -> None:
        await DBOS.send_async(id, 1, TOPIC)

    async def result(self, handle: Any) -> None:
        if isinstance(handle, str):
            handle = await DBOS.retrieve_workflow_async(handle)
        assert await handle.get_result() in (1, None)

    def handle(self, id: str) -> str:
        return id


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[DbosDriver]:
    """DBOS with its system database in a folder. Launching it recovers what an earlier process left there."""
    pragmas = Pragmas()
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": f"sqlite:///{folder / 'dbos.sqlite'}",
        "log_level": "ERROR",
        # The same for every process, or workflows of an earlier one would not be recovered.
        "application_version": "1",
    }
    DBOS(config=config)
    DBOS.launch()
    try:
        yield DbosDriver(pragmas)
    finally:
        await asyncio.to_thread(DBOS.destroy)

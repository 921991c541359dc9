"""edda on SQLite with its defaults.

`start` runs a workflow in the caller's task until it ends or suspends. A background task, once a second, continues
workflows that were woken. edda has no call that waits for the end of a workflow, so a watcher polls the file.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

from edda import EddaApp, WorkflowContext, activity, sleep, wait_event, workflow
from edda.channels import publish

from bench.drivers.pragmas import Pragmas

LOOK_EVERY = 0.02
TRIES = 20
FINISHED = "SELECT instance_id FROM workflow_instances WHERE status = 'completed'"


@activity
async def step(ctx: WorkflowContext, number: int) -> int:
    """As little as an activity can do."""
    return number + 1


@workflow
async def steps(ctx: WorkflowContext, count: int) -> dict[str, int]:
    """Some activities in a row."""
    value = 0
    for _ in range(count):
        value = await step(ctx, value)
    return {"value": value}


@workflow
async def waiter(ctx: WorkflowContext, channel: str) -> dict[str, Any]:
    """Waits for a message on a channel of its own."""
    message = await wait_event(ctx, channel)
    return {"message": message.data}


@workflow
async def sleeper(ctx: WorkflowContext, seconds: int) -> dict[str, int]:
    """Sleeps."""
    await sleep(ctx, seconds)
    return {"seconds": seconds}


class EddaDriver:
    """A running `EddaApp`."""

    pids = ()

    def __init__(self, app: EddaApp, path: Path, pragmas: Pragmas) -> None:
        self._app = app
        self._path = path
        self._pragmas = pragmas
        self._repeated = 0
        self._waited_for: dict[str, asyncio.Future[None]] = {}

    @property
    def settings(self) -> str:
        repeated = f"; {self._repeated} starts failed and were repeated" if self._repeated else ""
        return f"edda-framework {version('edda-framework')}, {self._pragmas.text}{repeated}"

    async def run(self, id: str, count: int) -> None:
        await self._start(lambda: steps.start(count=count))

    async def start_waiting(self, id: str) -> str:
        return await self._start(lambda: waiter.start(channel=id))

    async def start_sleeping(self, id: str, seconds: float) -> str:
        return await self._start(lambda: sleeper.start(seconds=max(1, round(seconds))))

    async def _start(self, start: Callable[[], Awaitable[str]]) -> str:
        """Start under an id that edda makes. Its background task sometimes takes the new workflow from the caller."""
        for _ in range(TRIES):
            try:
                return await start()
            except Exception:
                self._repeated += 1
        raise RuntimeError(f"a start failed {TRIES} times")

    async def settle(self, waiting: int) -> None:
        """A start returns when the workflow is suspended."""

    async def send(self, id: str) -> None:
        await publish(self._app.storage, id, {"number": 1}, worker_id=self._app.worker_id)

    async def result(self, handle: str) -> None:
        self._waited_for[handle] = asyncio.get_running_loop().create_future()
        await self._waited_for[handle]

    def handle(self, id: str) -> str:
        raise NotImplementedError("edda makes the ids of its workflows itself")

    async def watch(self) -> None:
        """Poll for finished workflows, and wake the calls of `result` that wait for them, until cancelled."""
        while True:
            if self._waited_for:
                for id in await asyncio.to_thread(self._finished):
                    if (future := self._waited_for.pop(id, None)) is not None:
                        future.set_result(None)
            await asyncio.sleep(LOOK_EVERY)

    def _finished(self) -> list[str]:
        with closing(sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True, timeout=30)) as connection:
            return [id for (id,) in connection.execute(FINISHED)]


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[EddaDriver]:
    """edda with its database in a folder."""
    logging.disable(logging.CRITICAL)
    pragmas = Pragmas()
    path = folder / "edda.db"
    app = EddaApp(service_name="bench", db_url=f"sqlite:///{path}")
    await app.initialize()
    driver = EddaDriver(app, path, pragmas)
    # The first two starts of a function must not overlap: each registers its source, and the second fails.
    await driver.run("first", 1)
    await driver.start_waiting("first")
    watcher = asyncio.create_task(driver.watch())
    try:
        yield driver
    finally:
        watcher.cancel()
        await app.shutdown()

"""Small services for tests that need their own process: `python scripts.py NAME STORE`; each prints its answer."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

import anyio

from durable import (
    Durable,
    EngineForked,
    Event,
    Retry,
    WorkflowEngine,
    activity,
    sleep,
    workflow,
)

go_on = Event[int]("go-on")


@activity(retry=Retry.never())
def die() -> None:
    """End the process, as a crash in C code would."""
    os._exit(1)


@activity
async def add_one(number: int) -> int:
    """Some work."""
    return number + 1


@activity
async def linger(number: int) -> int:
    """Work that takes a moment, during which a test may stop the service."""
    answer("working")
    await anyio.sleep(0.3)
    return number + 1


@workflow
def poison() -> Durable[None]:
    """Kills the process that runs it."""
    yield from die()


@workflow
def slow_poison() -> Durable[None]:
    """Kills the process that wakes it."""
    yield from sleep(0.01)
    yield from die()


@workflow
def honest(number: int) -> Durable[int]:
    """Harmless work."""
    number = yield from add_one(number)
    yield from sleep(0.01)
    return (yield from add_one(number))


@workflow
def patient() -> Durable[int]:
    """Waits for a number."""
    return (yield from add_one((yield from go_on.wait())))


@workflow
def lingering(number: int) -> Durable[int]:
    """Takes a moment, twice."""
    return (yield from linger((yield from linger(number))))


def answer(value: Any) -> None:
    """Print one line."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def serve_poison(store: str) -> None:
    """Start a workflow that kills the process and others that do not; print the status of all."""
    async with WorkflowEngine(store) as engine:
        handles = [await engine.start(honest(number), id=f"honest-{number}") for number in range(5)]
        await engine.start(patient(), id="patient")
        await engine.start(poison(), id="poison")
        await engine.start(slow_poison(), id="slow-poison")
        results = [await handle.result() for handle in handles]
        parked: list[str] = []
        while len(parked) < 2:
            parked = sorted(f"{run.id}: {run.parked}" for run in await engine.runs.list() if run.parked)
        await engine.send_event(go_on, 1, to="patient")
        results.append(await engine.handle("patient").result())
        reasons = [str((await engine.runs.describe(id)).park_reason) for id in ("poison", "slow-poison")]
        answer({"results": results, "parked": parked, "reasons": reasons})


async def fork(store: str) -> None:
    """Fork while the engine is open: print what the child gets, and that the parent continues."""
    async with WorkflowEngine(store) as engine:
        handle = await engine.start(patient(), id="a")
        child = os.fork()
        if child == 0:
            status = 1
            try:
                await engine.query_status("a")
            except EngineForked as error:
                status = 42 if error.opened_in == os.getppid() else 2
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)  # noqa: ASYNC222 - nothing else is to happen meanwhile
        await engine.send_event(go_on, 1, to="a")
        answer({"child": os.waitstatus_to_exitcode(status), "result": await handle.result()})


async def leave_open(store: str) -> None:
    """Start work and exit without a shutdown."""
    engine = WorkflowEngine(store)
    await engine.__aenter__()
    await engine.start(honest(1), id="a")
    await engine.start(patient(), id="b")
    answer("started")


async def finish(store: str) -> None:
    """Finish the work that was left."""
    async with WorkflowEngine(store) as engine:
        await engine.send_event(go_on, 1, to="b")
        answer([await engine.handle(id).result() for id in ("a", "b")])


async def stop_on_signal(store: str) -> None:
    """Get the signal to stop in the middle of an activity."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        async with WorkflowEngine(store) as engine:
            await engine.start(lingering(1), id="a")
            await engine.handle("a").result()
    except* asyncio.CancelledError:
        answer("stopped")


async def look(store: str) -> None:
    """Print the history at the start, and then the result."""
    async with WorkflowEngine(store) as engine:
        recorded = [entry.outcome for entry in await engine.runs.history("a")]
        answer([recorded, await engine.handle("a").result()])


if __name__ == "__main__":
    name, path = sys.argv[1:]
    if name == "leave_open":
        # Not asyncio.run, which would cancel all tasks in order.
        asyncio.new_event_loop().run_until_complete(leave_open(path))
    else:
        asyncio.run(globals()[name](path))

"""A service with a crowd of activities in flight: `python crowd.py STORE COUNT CULPRIT`; it prints its status.

Every activity runs until the process ends, except that of the culprit (-1: none), which ends the process immediately.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

import anyio

from durable import Durable, Event, Retry, WorkflowEngine, WorkflowStatus, activity, workflow

fuse = Event[int]("fuse")
_running: set[int] = set()
_changed = anyio.Event()


@activity(retry=Retry.never())
async def hold(number: int, culprit: int) -> None:
    """Run without end, or kill."""
    global _changed  # noqa: PLW0603 - one for the process
    if number == culprit:
        os._exit(1)
    _running.add(number)
    _changed.set()
    _changed = anyio.Event()
    await anyio.sleep_forever()


@workflow
def member(number: int, culprit: int) -> Durable[None]:
    """One activity of the crowd."""
    yield from hold(number, culprit)


@workflow
def bomb() -> Durable[None]:
    """Kills its process after its event."""
    yield from fuse.wait()
    os._exit(1)


def answer(value: object) -> None:
    """Print one line."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def serve(store: str, count: int, culprit: int) -> None:
    """Start the crowd, or find it; print when all but the parked ones run; then wait to be killed."""
    began = anyio.current_time()
    async with WorkflowEngine(store) as engine:
        if await engine.runs.count() == 0:
            async with anyio.create_task_group() as tasks:
                for number in range(count):
                    tasks.start_soon(start_member, engine, number, culprit)
        parked = [run.id for run in await engine.runs.list(status=WorkflowStatus.PARKED)]
        while len(_running) + len(parked) < count:
            await _changed.wait()
        answer({"parked": parked, "seconds": anyio.current_time() - began, "report": str(engine.recovery)})
        await anyio.sleep_forever()


async def start_member(engine: WorkflowEngine, number: int, culprit: int) -> None:
    """Start one workflow of the crowd."""
    await engine.start(member(number, culprit), id=f"m{number}")


async def light(store: str) -> None:
    """Send the bomb its event, like a sender that got no answer; print whether it is parked."""
    async with WorkflowEngine(store) as engine:
        await engine.start(bomb(), id="bomb")
        await engine.start(member(1, -1), id="bystander")
        status = await engine.query_status("bomb")
        if status is not WorkflowStatus.PARKED:
            await engine.send_event(fuse, 1, to="bomb")
        parked = [run.id for run in await engine.runs.list(status=WorkflowStatus.PARKED)]
        answer({"parked": parked, "reason": str((await engine.runs.describe("bomb")).park_reason)})
        os._exit(0)


if __name__ == "__main__":
    path, *numbers = sys.argv[1:]
    asyncio.run(serve(path, *map(int, numbers)) if numbers else light(path))

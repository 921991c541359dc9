"""Activities that attack their own process: `python hostile.py NAME STORE` runs one of them beside harmless work.

Prints the results of both as one JSON line, if the process survives.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import re
import resource
import sys
from collections.abc import Callable
from typing import Any

from durable import (
    Durable,
    Op,
    Retry,
    WorkflowEngine,
    WorkflowFailed,
    WorkflowStatus,
    activity,
    gather,
    sleep,
    workflow,
)


@activity(retry=Retry.never())
def segfault() -> None:
    """Reads memory that does not exist."""
    ctypes.string_at(0)


@activity(retry=Retry.never())
def eat_memory() -> int:
    """Takes more memory than there is, in a thread."""
    return len(bytearray(1 << 40))


@activity(retry=Retry.never())
async def eat_memory_on_the_loop() -> int:
    """Takes more memory than there is, on the loop."""
    return len(bytearray(1 << 40))


@activity(retry=Retry.never())
def hold_the_gil() -> int:
    """A regular expression that backtracks four million times and blocks all other threads."""
    return 0 if re.match("(a+)+$", "a" * 22 + "b") else 1


@activity(retry=Retry.never())
async def hold_the_loop() -> int:
    """A large power, computed in C, on the loop."""
    return int(pow(3, 400_000)).bit_length() % 2


@activity(retry=Retry.never())
async def interrupt() -> None:
    """On the loop this is Ctrl-C, so it ends the process."""
    raise KeyboardInterrupt


@activity
async def add_one(number: int) -> int:
    """Some work."""
    return number + 1


@workflow(name="hostile.attack")
def attack(name: str) -> Durable[int]:
    """Runs one of them."""
    if name == "interrupt":
        # The second is handed out together with the first, and never begins.
        yield from gather(interrupt(), add_one(1))
    result: int = yield from ATTACKS[name]()
    return result


@workflow(name="hostile.honest")
def honest(number: int) -> Durable[int]:
    """Harmless work."""
    number = yield from add_one(number)
    yield from sleep(0.01)
    return (yield from add_one(number))


ATTACKS: dict[str, Callable[[], Op[Any]]] = {
    activity.name: activity
    for activity in (segfault, eat_memory, eat_memory_on_the_loop, hold_the_gil, hold_the_loop, interrupt)
}


async def main(name: str, store: str) -> None:
    """Run both at once, and another workflow afterwards."""
    if "memory" in name:
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    async with WorkflowEngine(store) as engine:
        before = [await engine.start(honest(number), id=f"before-{number}") for number in range(3)]
        handle = await engine.start(attack(name), id="attack")
        results = [await handle.result() for handle in before]
        while (await engine.query_status("attack")) in (WorkflowStatus.RUNNING, WorkflowStatus.SUSPENDED):
            pass
        end = str((await engine.runs.describe("attack")).park_reason)
        if await engine.query_status("attack") is not WorkflowStatus.PARKED:
            try:
                end = str(await handle.result())
            except WorkflowFailed as error:
                end = error.error_type
        after = await (await engine.start(honest(10))).result()
    sys.stdout.write(json.dumps([end, results, after]) + "\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

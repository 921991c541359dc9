"""A service that may have few file descriptors or no threads: `python limits.py NAME STORE`; prints one JSON line."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import threading

from durable import Durable, DurableError, WorkflowEngine, WorkflowFailed, activity, gather, workflow

FAR_TOO_MUCH = 1 << 46


@activity
def in_thread(number: int) -> int:
    """Some work for a thread."""
    return number + 1


@workflow(name="limits.work")
def work(count: int) -> Durable[int]:
    """Several threads at once."""
    return sum((yield from gather(*(in_thread(number) for number in range(count)))))


def use_up_descriptors(left: int) -> None:
    """Leave the process this many descriptors."""
    taken = [os.open("/dev/null", os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken[-1] + 1 + left, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


async def error_when_opening(store: str) -> str:
    """The error that a caller gets when the engine cannot open."""
    try:
        async with WorkflowEngine(store):
            return "open"
    except DurableError as error:
        return str(error)
    except RuntimeError as error:
        return f"{type(error).__name__}: {error}"


async def no_descriptors(store: str) -> list[object]:
    """Open an engine with no descriptor, then a few, then enough."""
    # First with enough of them: this creates the store and does the lazy imports.
    seen: list[object] = [await error_when_opening(store)]
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    for left in range(12):
        use_up_descriptors(left)
        seen.append(await error_when_opening(store))
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    async with WorkflowEngine(store) as engine:
        seen.append(await (await engine.start(work(3))).result())
    return seen


async def none_left_while_running(store: str) -> list[object]:
    """Take every descriptor while the engine works: it must need no more than it has."""
    async with WorkflowEngine(store) as engine:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        use_up_descriptors(0)
        handles = [await engine.start(work(3)) for _ in range(20)]
        seen: list[object] = [await handle.result() for handle in handles]
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    return seen


async def no_threads(store: str) -> list[object]:
    """Threads cannot be started: first at the open, then for activities."""
    usual = threading.stack_size(FAR_TOO_MUCH)
    seen: list[object] = [await error_when_opening(store)]
    threading.stack_size(usual)
    async with WorkflowEngine(store) as engine:
        threading.stack_size(FAR_TOO_MUCH)
        handle = await engine.start(work(3), id="a")
        try:
            seen.append(await handle.result())
        except WorkflowFailed as error:
            seen.append(str(error))
        threading.stack_size(usual)
        seen.append(await (await engine.start(work(3), id="b")).result())
    return seen


if __name__ == "__main__":
    name, path = sys.argv[1:]
    sys.stdout.write(json.dumps(asyncio.run(globals()[name](path))) + "\n")

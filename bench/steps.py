"""100 workflows at a time, ten trivial async activities each, on SQLite with synchronous=FULL."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bench.bare import AT_ONCE, STEPS
from bench.stopwatch import Stopwatch
from durable import Durable, WorkflowEngine, activity, workflow


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


async def durable_steps(folder: Path, workflows: int, stopwatch: Stopwatch) -> None:
    """The same work through the engine."""
    async with WorkflowEngine(folder / "durable.db") as engine:
        numbers = iter(range(workflows))

        async def client() -> None:
            for number in numbers:
                handle = await engine.start(ten_steps(number), id=f"w{number}")
                assert await handle.result() == number + STEPS

        with stopwatch:
            await asyncio.gather(*(client() for _ in range(AT_ONCE)))

"""What 10,000 workflows that wait for an event cost while nothing happens."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bench.stopwatch import Stopwatch
from durable import Durable, Event, WorkflowEngine, workflow

go = Event[int]("bench-go")
SECONDS = 5.0


@workflow(name="bench-waiter")
def waiter() -> Durable[int]:
    """Waits for an event that does not come."""
    return (yield from go.wait())


async def idle(folder: Path, count: int, stopwatch: Stopwatch) -> None:
    """Start them all, then only time passes."""
    async with WorkflowEngine(folder / "durable.db") as engine:
        for first in range(0, count, 500):
            last = min(first + 500, count)
            await asyncio.gather(*(engine.start(waiter(), id=f"w{number}") for number in range(first, last)))
        with stopwatch:
            await asyncio.sleep(SECONDS)

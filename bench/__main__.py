"""`make bench`: the figures of this machine, now."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import attrs

from bench.steps import STEPS, bare_steps, durable_steps

REPEATS = 5
WORKFLOWS = 1000


@attrs.frozen
class Figure:
    """What one run took."""

    wall: float
    cpu: float


def measure(work: Callable[[Path, int], Coroutine[Any, Any, None]], count: int) -> Figure:
    """One run in a fresh folder on the disk."""
    with tempfile.TemporaryDirectory() as folder:
        wall, cpu = time.perf_counter(), time.process_time()
        asyncio.run(work(Path(folder), count))
        return Figure(time.perf_counter() - wall, time.process_time() - cpu)


def main() -> None:
    """Print the table."""
    rows: dict[str, Figure] = {}
    for name, work in (("bare loop", bare_steps), ("durable", durable_steps)):
        measure(work, 50)
        runs = [measure(work, WORKFLOWS) for _ in range(REPEATS)]
        rows[name] = min(runs, key=lambda run: run.wall)
    steps = WORKFLOWS * STEPS
    print(f"{WORKFLOWS} workflows of {STEPS} steps, 100 at a time, SQLite WAL synchronous=FULL, best of {REPEATS}")
    for name, figure in rows.items():
        print(f"  {name:10} {steps / figure.wall:9,.0f} steps/s   {figure.cpu / steps * 1e6:6.1f} µs CPU a step")
    bare, ours = rows["bare loop"], rows["durable"]
    print(f"  durable reaches {bare.wall / ours.wall:.2f} of the bare loop's speed")


if __name__ == "__main__":
    main()

"""`make bench`: the figures of this machine, now."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from bench.bare import STEPS, bare_steps
from bench.steps import durable_steps
from bench.stopwatch import Stopwatch

REPEATS = 5
WORKFLOWS = 1000


Work = Callable[[Path, int, Stopwatch], Coroutine[Any, Any, None]]


def measure(work: Work, count: int) -> Stopwatch:
    """One run in a fresh folder on the disk."""
    stopwatch = Stopwatch()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(work(Path(folder), count, stopwatch))
    return stopwatch


def main() -> None:
    """Print the table."""
    works: dict[str, Work] = {"bare loop": bare_steps, "durable": durable_steps}
    for work in works.values():
        measure(work, 100)
    # In turns, so that a noisy minute hits both.
    runs = [{name: measure(work, WORKFLOWS) for name, work in works.items()} for _ in range(REPEATS)]
    rows = {name: min((run[name] for run in runs), key=lambda one: one.wall) for name in works}
    steps = WORKFLOWS * STEPS
    print(f"{WORKFLOWS} workflows of {STEPS} steps, 100 at a time, SQLite WAL synchronous=FULL, best of {REPEATS}")
    for name, figure in rows.items():
        print(f"  {name:10} {steps / figure.wall:9,.0f} steps/s   {figure.cpu / steps * 1e6:6.1f} µs CPU a step")
    bare, ours = rows["bare loop"], rows["durable"]
    print(f"  durable reaches {bare.wall / ours.wall:.2f} of the bare loop's speed")


if __name__ == "__main__":
    main()

"""`make bench`: the figures of this machine, now. Ratios within one run; times are those of the moment."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from bench.alone import bare_alone, durable_alone
from bench.bare import AT_ONCE, STEPS, bare_steps
from bench.idle import SECONDS, idle
from bench.steps import durable_steps
from bench.stopwatch import Stopwatch

REPEATS = 7
WORKFLOWS = 1_000
ALONE = 300
WAITING = 10_000

Work = Callable[[Path, int, Stopwatch], Coroutine[Any, Any, None]]


def measure(work: Work, count: int) -> Stopwatch:
    """One run in a fresh folder on the disk."""
    stopwatch = Stopwatch()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(work(Path(folder), count, stopwatch))
    return stopwatch


def compare(bare: Work, ours: Work, count: int) -> tuple[Stopwatch, Stopwatch]:
    """The best run of each, taken in turns, so that a noisy minute hits both."""
    measure(bare, count // 10), measure(ours, count // 10)
    runs = [(measure(bare, count), measure(ours, count)) for _ in range(REPEATS)]
    return min((run[0] for run in runs), key=_wall), min((run[1] for run in runs), key=_wall)


def _wall(stopwatch: Stopwatch) -> float:
    return stopwatch.wall


def main() -> None:
    """Print the tables."""
    steps = WORKFLOWS * STEPS
    print(f"{WORKFLOWS} workflows of {STEPS} steps, {AT_ONCE} at a time, SQLite synchronous=FULL, best of {REPEATS}")
    bare, ours = compare(bare_steps, durable_steps, WORKFLOWS)
    for name, one in (("bare loop", bare), ("durable", ours)):
        print(f"  {name:11} {steps / one.wall:9,.0f} steps/s   {one.cpu / steps * 1e6:6.1f} µs CPU a step")
    print(f"  durable reaches {bare.wall / ours.wall:.2f} of the bare loop's speed")

    print(f"one workflow with one activity, alone, best of {REPEATS}")
    bare, ours = compare(bare_alone, durable_alone, ALONE)
    for name, one in (("two commits", bare), ("durable", ours)):
        print(f"  {name:11} {one.wall / ALONE * 1e3:9.2f} ms       {one.cpu / ALONE * 1e6:6.0f} µs CPU")
    print(f"  durable takes {ours.wall / bare.wall:.2f} times as long as its two commits")

    print(f"{WAITING:,} workflows that wait for an event, {SECONDS:g} s in which nothing happens")
    waiting = measure(idle, WAITING)
    print(f"  {waiting.cpu / waiting.wall:.2%} of one core")


if __name__ == "__main__":
    main()

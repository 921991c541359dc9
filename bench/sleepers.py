"""W4 for durable alone: 100,000 sleepers, made by copying rows, and a service that is in use while they wake."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from bench.clones import clone
from bench.drivers.durable import STORE, opened, sleeper, steps
from bench.figures import latencies
from bench.job import Job, Outcome
from bench.stopwatch import Stopwatch
from durable import WorkflowEngine

HOUR = 3600.0
LOOK_EVERY = 0.05
ASLEEP = "SELECT 1 FROM workflow WHERE wake_at <= ? LIMIT 1"
LATE = "SELECT finished_at - ? FROM workflow WHERE name = ? AND status = 'succeeded'"


async def measure(job: Job) -> Outcome:
    """Put them to sleep, open the engine, wait until they are due, and measure until the last one is awake."""
    lead = job.sizes["lead"]
    while (outcome := await _measure(job, lead)) is None:
        # They were due before the engine was open: this machine needs more time for the copies.
        (job.path / STORE).unlink()
        lead *= 2
    return outcome


async def _measure(job: Job, lead: float) -> Outcome | None:
    """One try, with `lead` seconds for the preparation; None if they were not enough."""
    path, count = job.path / STORE, job.size("count")
    due = time.time_ns() // 1000 + int(lead * 1e6)
    await _put_to_sleep(path, count, due)
    async with opened(job.path) as driver:
        await driver.run("warm", 1)
        left = due / 1e6 - time.time()
        if left <= 0:
            return None
        await asyncio.sleep(left)
        over = asyncio.Event()
        stopwatch = Stopwatch()
        with stopwatch:
            caller = asyncio.create_task(_call_steadily(driver.engine, job.sizes["every"], over))
            while await asyncio.to_thread(_query, path, ASLEEP, due):  # noqa: ASYNC110  # another thread commits
                await asyncio.sleep(LOOK_EVERY)
        over.set()
        starts = await caller
        settings = driver.settings
    late = [micros / 1e6 for (micros,) in _query(path, LATE, due, sleeper.name)]
    if len(late) != count:
        raise RuntimeError(f"{count - len(late)} sleepers did not wake up")
    figures = {"all_s": stopwatch.wall, "cpu_us": stopwatch.cpu / count * 1e6, "starts": len(starts)}
    figures |= latencies(late, "late_") | latencies(starts, "start_")
    return Outcome(figures | stopwatch.figures(), settings)


async def _put_to_sleep(path: Path, count: int, due: int) -> None:
    """Store copies of a workflow that sleeps until `due`. For the engine they are like any others."""
    async with WorkflowEngine(path) as engine:
        await engine.start(sleeper(HOUR), id="seed")
    [(wake_at,)] = _query(path, "SELECT wake_at FROM workflow")
    clone(path, "seed", count, prefix="sleeping-", shift=due - wake_at)


async def _call_steadily(engine: WorkflowEngine, every: float, over: asyncio.Event) -> list[float]:
    """Start a small workflow at fixed moments, whether or not the last call has returned. Returns how long each took.

    Each call is timed from the moment it was due: when the loop is blocked, callers of a service wait as well.
    """
    took: list[float] = []
    begun = time.perf_counter()

    async def call(at: float) -> None:
        await engine.start(steps(1))
        took.append(time.perf_counter() - at)

    async with asyncio.TaskGroup() as calls:
        number = 0
        while not over.is_set():
            at = begun + number * every
            await asyncio.sleep(max(0.0, at - time.perf_counter()))
            calls.create_task(call(at))
            number += 1
    return took


def _query(path: Path, sql: str, *values: object) -> list[tuple[int, ...]]:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        return connection.execute(sql, values).fetchall()

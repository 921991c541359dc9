"""W4: many workflows sleep, and all are due at the same instant: how late they wake, and what it costs."""

from __future__ import annotations

import asyncio
import time

from bench.driver import opened
from bench.figures import latencies, many
from bench.job import Job, Outcome
from bench.stopwatch import Stopwatch
from bench.workload import NONE, Case, Column, Workload

STARTS_AT_ONCE = 100

W4 = Workload(
    name="W4",
    title="Sleepers due at once",
    about="Late is the time from the instant at which a workflow was due to its end. While the 100,000 wake up, a "
    "client starts a workflow of one step every 10 ms; the last two columns show how long that call takes, counted "
    "from the moment it was due. The 100,000 are copies of one that the engine started.",
    entry="bench.workloads.w4:measure",
    cases=(
        Case(
            name="2,000",
            sizes={"count": 2_000, "lead": 3.0},
            quick={"count": 200, "lead": 1.0},
            contenders={"durable": NONE, "dbos": {"count": 300, "lead": 6.0}, "restate": {"lead": 4.0}},
            repeats_max=3,
        ),
        Case(
            name="100,000",
            sizes={"count": 100_000, "lead": 8.0, "every": 0.01},
            quick={"count": 5_000, "lead": 2.0},
            entry="bench.sleepers:measure",
            repeats_max=2,
        ),
    ),
    columns=(
        Column(figure="late_p50_ms", heading="late p50, ms"),
        Column(figure="late_p99_ms", heading="late p99, ms"),
        Column(figure="all_s", heading="all awake after, s", format=",.2f"),
        Column(figure="cpu_us", heading="CPU each, µs"),
        Column(figure="start_p50_ms", heading="start p50, ms", format=",.1f"),
        Column(figure="start_p99_ms", heading="start p99, ms", format=",.1f"),
    ),
)


async def measure(job: Job) -> Outcome:
    """Start sleepers that are all due at the same instant, and wait until the last one has ended."""
    count = job.size("count")
    due, ended = [0.0] * count, [0.0] * count
    async with opened(job) as driver, asyncio.TaskGroup() as tasks:
        await many(20, 20, lambda number: driver.run(f"warm-{number}", 1))
        instant = time.time() + job.sizes["lead"]

        async def result(number: int, handle: object) -> None:
            await driver.result(handle)
            ended[number] = time.time()

        async def start(number: int) -> None:
            now = time.time()
            # A sleeper that starts too late is due at once.
            due[number] = max(instant, now + 0.05)
            handle = await driver.start_sleeping(f"s{number}", due[number] - now)
            tasks.create_task(result(number, handle))

        await many(count, STARTS_AT_ONCE, start)
        await asyncio.sleep(max(0.0, instant - time.time()))
        stopwatch = Stopwatch(driver.pids)
        with stopwatch:
            while not all(ended):  # noqa: ASYNC110  # polling costs less than an event for each of them
                await asyncio.sleep(0.02)
        settings = driver.settings
    late = [end - at for end, at in zip(ended, due, strict=True)]
    figures = {"all_s": max(late), "cpu_us": stopwatch.cpu / count * 1e6}
    return Outcome(figures | latencies(late, "late_") | stopwatch.figures(), settings)

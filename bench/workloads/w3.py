"""W3: events to one waiting workflow at a time (latency), and to 1,000 waiting ones (rate)."""

from __future__ import annotations

import asyncio
import time

from bench.driver import Driver, opened
from bench.figures import latencies, many
from bench.job import Job, Outcome
from bench.stopwatch import Stopwatch
from bench.workload import NONE, Case, Column, Workload

STARTS_AT_ONCE = 100

W3 = Workload(
    name="W3",
    title="Events",
    about="A workflow waits for an event, and a caller waits for its result. Measured is the time from the call that "
    "sends the event until the result is there. Alone, durable needs one commit for it.",
    entry="bench.workloads.w3:measure",
    cases=(
        Case(
            name="alone",
            sizes={"count": 500, "waiting": 1, "sends_at_once": 1},
            quick={"count": 100},
            contenders={
                "one commit": NONE,
                "durable": NONE,
                "dbos": {"count": 8},
                "edda": {"count": 8},
                "restate": {"count": 40},
            },
        ),
        Case(
            name="1,000 wait, 100 sends at a time",
            sizes={"count": 1_000, "waiting": 1_000, "sends_at_once": 100},
            contenders={
                "durable": NONE,
                "dbos": {"count": 250, "waiting": 250},
                "edda": {"count": 60, "waiting": 60},
                "restate": NONE,
            },
        ),
        Case(
            name="1,000 wait, all sends at once",
            sizes={"count": 1_000, "waiting": 1_000, "sends_at_once": 1_000},
        ),
    ),
    columns=(
        Column(figure="per_s", heading="events/s"),
        Column(figure="cpu_us", heading="CPU an event, µs"),
        Column(figure="p50_ms", heading="p50, ms", format=",.2f"),
        Column(figure="p99_ms", heading="p99, ms", format=",.2f"),
    ),
)


async def measure(job: Job) -> Outcome:
    """For each group of workflows: start them, let them settle, send all their events, wait for their results."""
    count, waiting, sends_at_once = job.size("count"), job.size("waiting"), job.size("sends_at_once")
    async with opened(job) as driver:
        await _group(driver, "warm", min(20, count), 20)
        took: list[float] = []
        wall = cpu = 0.0
        whole = Stopwatch(driver.pids)
        with whole:
            for first in range(0, count, waiting):
                seconds, stopwatch = await _group(driver, f"g{first}", waiting, sends_at_once)
                took += seconds
                wall, cpu = wall + stopwatch.wall, cpu + stopwatch.cpu
        settings = driver.settings
    # Rates count the sending alone, not the start of the workflows.
    rates = {"per_s": count / wall, "cpu_us": cpu / count * 1e6, "wall_s": wall, "cpu_s": cpu}
    return Outcome(rates | latencies(took) | {"strangers": whole.strangers}, settings)


async def _group(driver: Driver, name: str, waiting: int, sends_at_once: int) -> tuple[list[float], Stopwatch]:
    """Start `waiting` workflows, then send all their events. Returns the seconds from each send to its result."""
    ids = [f"{name}-{number}" for number in range(waiting)]
    handles: dict[str, object] = {}

    async def start(number: int) -> None:
        handles[ids[number]] = await driver.start_waiting(ids[number])

    await many(waiting, STARTS_AT_ONCE, start)
    await driver.settle(waiting)
    sent, ended = [0.0] * waiting, [0.0] * waiting

    async def result(number: int) -> None:
        await driver.result(handles[ids[number]])
        ended[number] = time.perf_counter()

    async def send(number: int) -> None:
        sent[number] = time.perf_counter()
        await driver.send(ids[number])

    async with asyncio.TaskGroup() as tasks:
        results = [tasks.create_task(result(number)) for number in range(waiting)]
        # Let the calls of `result` be made before the events are sent, and pause no longer than that: there is no pause
        # before a bare commit either. For the same reason only the outer stopwatch reads the counters of the machine.
        for _ in range(3):
            await asyncio.sleep(0)
        stopwatch = Stopwatch(driver.pids, looks_around=False)
        with stopwatch:
            await many(waiting, sends_at_once, send)
            await asyncio.gather(*results)
    return [end - begin for begin, end in zip(sent, ended, strict=True)], stopwatch

"""W1: workflows of ten steps, many at once. A step does as little as possible, so the time is the engine's."""

from __future__ import annotations

from bench.driver import opened
from bench.figures import latencies, many
from bench.job import Job, Outcome
from bench.stopwatch import Stopwatch
from bench.workload import NONE, Case, Column, Workload

STEPS = 10

W1 = Workload(
    name="W1",
    title="Ten steps",
    about="Workflows of ten trivial async activities in a row. As soon as one has ended, its client starts the next.",
    entry="bench.workloads.w1:measure",
    cases=(
        Case(
            name="100 at once",
            sizes={"count": 2_000, "at_once": 100},
            quick={"count": 300},
            contenders={
                "bare loop": NONE,
                "durable": NONE,
                "dbos": {"count": 100},
                "edda": {"count": 100},
                "restate": {"count": 300},
            },
        ),
        Case(
            name="1,000 at once",
            sizes={"count": 4_000, "at_once": 1_000},
            quick={"count": 1_000},
            contenders={"bare loop": NONE, "durable": NONE},
        ),
    ),
    columns=(
        Column(figure="steps_per_s", heading="steps/s"),
        Column(figure="cpu_us", heading="CPU a step, µs", format=",.1f"),
        Column(figure="p50_ms", heading="p50 of a workflow, ms", format=",.1f"),
        Column(figure="p99_ms", heading="p99, ms", format=",.1f"),
    ),
)


async def measure(job: Job) -> Outcome:
    """Many clients, each of which starts a workflow, waits for its result, and starts the next."""
    count, at_once = job.size("count"), job.size("at_once")
    async with opened(job) as driver:
        await many(max(10, count // 10), at_once, lambda number: driver.run(f"warm-{number}", STEPS))
        stopwatch = Stopwatch(driver.pids)
        with stopwatch:
            took = await many(count, at_once, lambda number: driver.run(f"w{number}", STEPS))
        settings = driver.settings
    return Outcome(figures(stopwatch, count * STEPS) | latencies(took), settings)


def figures(stopwatch: Stopwatch, steps: int) -> dict[str, float]:
    """The rate and the CPU time per step, with the times of the stopwatch."""
    rates = {"steps_per_s": steps / stopwatch.wall, "cpu_us": stopwatch.cpu / steps * 1e6}
    return rates | stopwatch.figures()

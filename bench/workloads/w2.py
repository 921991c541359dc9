"""W2: workflows of one step, one after the other (latency) and 100 at a time (rate)."""

from __future__ import annotations

from bench.driver import opened
from bench.figures import latencies, many
from bench.job import Job, Outcome
from bench.stopwatch import Stopwatch
from bench.workload import NONE, Case, Column, Workload

W2 = Workload(
    name="W2",
    title="One step",
    about="Workflows of one trivial async activity, from `start` to the result. Alone, durable needs two commits: "
    "one for the start, before the activity may run, and one for its result and the end of the workflow.",
    entry="bench.workloads.w2:measure",
    cases=(
        Case(
            name="one after the other",
            sizes={"count": 500, "at_once": 1},
            quick={"count": 100},
            contenders={
                "two commits": NONE,
                "two commits, log laid out": NONE,
                "durable": NONE,
                "dbos": {"count": 60},
                "edda": {"count": 40},
                "restate": {"count": 60},
            },
        ),
        Case(
            name="100 at a time",
            sizes={"count": 5_000, "at_once": 100},
            quick={"count": 500},
            contenders={
                "durable": NONE,
                "dbos": {"count": 250},
                "edda": {"count": 100},
                "restate": {"count": 500},
            },
        ),
    ),
    columns=(
        Column(figure="per_s", heading="workflows/s"),
        Column(figure="cpu_us", heading="CPU a workflow, µs"),
        Column(figure="p50_ms", heading="p50, ms", format=",.2f"),
        Column(figure="p99_ms", heading="p99, ms", format=",.2f"),
    ),
)


async def measure(job: Job) -> Outcome:
    """Clients that start a workflow, wait for its result, and start the next."""
    count, at_once = job.size("count"), job.size("at_once")
    async with opened(job) as driver:
        await many(max(10, count // 10), at_once, lambda number: driver.run(f"warm-{number}", 1))
        stopwatch = Stopwatch(driver.pids)
        with stopwatch:
            took = await many(count, at_once, lambda number: driver.run(f"w{number}", 1))
        settings = driver.settings
    return Outcome(figures(stopwatch, count) | latencies(took), settings)


def figures(stopwatch: Stopwatch, count: int) -> dict[str, float]:
    """The rate and the CPU time per workflow, with the times of the stopwatch."""
    return {"per_s": count / stopwatch.wall, "cpu_us": stopwatch.cpu / count * 1e6} | stopwatch.figures()

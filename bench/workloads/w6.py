"""W6: what suspended workflows cost while nothing happens: memory and CPU."""

from __future__ import annotations

import asyncio
import gc

from bench.driver import opened
from bench.figures import many
from bench.job import Job, Outcome
from bench.stopwatch import Stopwatch, resident
from bench.workload import Case, Column, Store, Workload

STARTS_AT_ONCE = 500
_COPIES = Store(entry="bench.stores:suspended", sizes=("suspended",))

W6 = Workload(
    name="W6",
    title="Idle",
    about="Resident memory of a process whose engine is open on a store with suspended workflows (half wait, half "
    "sleep), and of one that has just started 10,000 waiting ones itself, compared with its memory before. CPU is "
    "that of a few idle seconds, in per cent of one core.",
    entry="bench.workloads.w6:stored",
    cases=(
        Case(
            name="1,000,000 in the store",
            sizes={"suspended": 1_000_000, "seconds": 3.0},
            quick={"suspended": 20_000, "seconds": 1.0},
            store=_COPIES,
            repeats_max=3,
        ),
        Case(
            name="an idle engine",
            sizes={"suspended": 0, "seconds": 3.0},
            quick={"seconds": 1.0},
            store=_COPIES,
            repeats_max=3,
        ),
        Case(
            name="10,000 just started",
            sizes={"count": 10_000, "seconds": 5.0},
            quick={"count": 1_000, "seconds": 1.0},
            entry="bench.workloads.w6:started",
            repeats_max=3,
        ),
    ),
    columns=(
        Column(figure="rss_mib", heading="memory, MiB", format=",.1f"),
        Column(figure="more_mib", heading="more than before, MiB", format=",.1f"),
        Column(figure="idle", heading="CPU, %", format=",.2f", factor=100.0),
    ),
)


async def stored(job: Job) -> Outcome:
    """Open the store and do nothing."""
    async with opened(job) as driver:
        idle = await _idle(job)
        return Outcome({"rss_mib": resident()} | idle, driver.settings)


async def started(job: Job) -> Outcome:
    """Start workflows that wait, and then do nothing."""
    async with opened(job) as driver:
        await many(50, 10, lambda number: driver.run(f"warm-{number}", 1))
        gc.collect()
        before = resident()
        await many(job.size("count"), STARTS_AT_ONCE, lambda number: driver.start_waiting(f"w{number}"))
        await driver.settle(job.size("count"))
        idle = await _idle(job)
        after = resident()
        return Outcome({"rss_mib": after, "more_mib": after - before} | idle, driver.settings)


async def _idle(job: Job) -> dict[str, float]:
    """The share of one core that the process uses while nothing happens."""
    # Let the work that the start left behind end first.
    await asyncio.sleep(job.sizes["seconds"] / 3)
    gc.collect()
    stopwatch = Stopwatch()
    with stopwatch:
        await asyncio.sleep(job.sizes["seconds"])
    return {"idle": stopwatch.cpu / stopwatch.wall} | stopwatch.figures()

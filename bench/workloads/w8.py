"""W8: ten steps again, on a store that already holds many finished runs: what grows with the size of the file?"""

from __future__ import annotations

from bench.clones import scattered
from bench.driver import opened
from bench.figures import latencies, many
from bench.job import Job, Outcome
from bench.stopwatch import Stopwatch
from bench.workload import NONE, Case, Store, Workload
from bench.workloads.w1 import STEPS, W1, figures

RUN = "run-"
EMPTY = "durable on an empty file"
SIZES = (1_000, 10_000, 100_000, 1_000_000)
_COPIES = Store(entry="bench.stores:finished", sizes=("finished",))

W8 = Workload(
    name="W8",
    title="Growth",
    about="W1 with 100 at once, on stores that hold finished runs of ten steps (copies of one that the engine ran), "
    "in turns with the same on an empty file. New ids fall between the old ones, as random ids do.",
    entry="bench.workloads.w8:measure",
    cases=tuple(
        Case(
            name=f"{finished:,} finished",
            sizes={"finished": finished, "count": 2_000, "at_once": 100},
            quick={"finished": min(finished, 20_000), "count": 300},
            contenders={EMPTY: {"finished": 0}, "durable": NONE},
            store=_COPIES,
            repeats_max=3,
        )
        for finished in SIZES
    ),
    columns=W1.columns,
)


async def measure(job: Job) -> Outcome:
    """The same as W1, with ids that continue those of the finished runs."""
    finished, count, at_once = job.size("finished"), job.size("count"), job.size("at_once")
    warm = max(10, count // 10)

    async with opened(job) as driver:

        async def run(number: int) -> None:
            await driver.run(scattered(RUN, finished + number), STEPS)

        await many(warm, at_once, run)
        stopwatch = Stopwatch(driver.pids)
        with stopwatch:
            took = await many(count, at_once, lambda number: run(warm + number))
        settings = driver.settings
    return Outcome(figures(stopwatch, count * STEPS) | latencies(took), settings)

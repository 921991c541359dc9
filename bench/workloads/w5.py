"""W5: a process starts on a store with many suspended workflows: when is it ready, and when have some of them ended?"""

from __future__ import annotations

import asyncio
import time

from bench.clones import scattered
from bench.driver import opened
from bench.figures import many
from bench.job import Job, Outcome
from bench.stopwatch import Stopwatch, resident, tree_cpu
from bench.workload import NONE, Case, Column, Store, Workload

WAITING = "waiting-"
STARTS_AT_ONCE = 100
SENDS_AT_ONCE = 100
_COPIES = Store(entry="bench.stores:suspended", sizes=("suspended",))

W5 = Workload(
    name="W5",
    title="A start with many suspended workflows",
    about="From the start of the process, imports included, until the engine is open, and until the first and the "
    "last of some waiting workflows have ended, which are sent their events as soon as it is open. In the first case "
    "the same engine started all of them and was then killed. In the others half wait and half sleep, and they are "
    "copies of two that the engine started. The file is in the system's page cache.",
    entry="bench.workloads.w5:measure",
    cases=(
        Case(
            name="2,000 after a kill",
            sizes={"waiting": 2_000, "sent": 1_000},
            quick={"waiting": 200, "sent": 100},
            contenders={"durable": NONE, "dbos": {"waiting": 300, "sent": 150}, "restate": NONE},
            store=Store(entry="bench.workloads.w5:prepare", sizes=("waiting",)),
            repeats_max=2,
        ),
        Case(
            name="10,000",
            sizes={"suspended": 10_000, "sent": 1_000},
            quick={"suspended": 1_000, "sent": 100},
            store=_COPIES,
            repeats_max=3,
        ),
        Case(
            name="1,000,000",
            sizes={"suspended": 1_000_000, "sent": 1_000},
            quick={"suspended": 20_000},
            store=_COPIES,
            repeats_max=3,
        ),
    ),
    columns=(
        Column(figure="ready_s", heading="ready after, s", format=",.2f"),
        Column(figure="first_s", heading="first ended, s", format=",.2f"),
        Column(figure="last_s", heading="last ended, s", format=",.2f"),
        Column(figure="cpu_s", heading="CPU in all, s", format=",.2f"),
        Column(figure="rss_mib", heading="memory when ready, MiB"),
    ),
)


async def prepare(job: Job) -> Outcome:
    """Start the workflows, and end as a kill would."""
    async with opened(job) as driver:
        await many(job.size("waiting"), STARTS_AT_ONCE, lambda n: driver.start_waiting(scattered(WAITING, n)))
        await driver.settle(job.size("waiting"))
        job.end(Outcome({}))


async def measure(job: Job) -> Outcome:
    """Open the store, send events to some of the workflows, and wait until they have ended."""
    waiting = job.size("waiting") if "waiting" in job.sizes else job.size("suspended") // 2
    sent = job.size("sent")
    # Spread over the store, and not its first rows.
    ids = [scattered(WAITING, number * (waiting // sent)) for number in range(sent)]
    ended: list[float] = []
    async with opened(job) as driver, asyncio.TaskGroup() as tasks:
        ready, memory = time.monotonic(), resident()

        async def result(id: str) -> None:
            await driver.result(driver.handle(id))
            ended.append(time.monotonic())

        stopwatch = Stopwatch(driver.pids)
        with stopwatch:
            results = [tasks.create_task(result(id)) for id in ids]
            await many(sent, SENDS_AT_ONCE, lambda number: driver.send(ids[number]))
            await asyncio.wait(results)
        # From the start of the processes, not from the moment they were ready.
        cpu = time.process_time() + sum(map(tree_cpu, driver.pids))
        settings = driver.settings
    moments = {"ready_s": ready, "first_s": ended[0], "last_s": ended[-1]}
    figures = {name: moment - job.spawned for name, moment in moments.items()}
    return Outcome(figures | {"rss_mib": memory} | stopwatch.figures() | {"cpu_s": cpu}, settings)

"""W7: a workflow with a long history is needed again after a restart: how long does its replay take?"""

from __future__ import annotations

import time

from bench.drivers.durable import go, opened
from bench.job import Job, Outcome
from bench.stopwatch import Stopwatch
from bench.stores import long
from bench.workload import Case, Column, Store, Workload

W7 = Workload(
    name="W7",
    title="Replay",
    about="A workflow has made many steps and waits for an event. A new process opens the store and sends it. The "
    "history is read and replayed, the event is delivered, and the workflow ends.",
    entry="bench.workloads.w7:measure",
    cases=(
        Case(
            name="10,000 entries",
            sizes={"entries": 10_000},
            quick={"entries": 1_000},
            store=Store(entry="bench.stores:long_history", sizes=("entries",)),
        ),
    ),
    columns=(
        Column(figure="ready_s", heading="process ready after, s", format=",.2f"),
        Column(figure="replay_ms", heading="event to result, ms", format=",.1f"),
        Column(figure="entry_us", heading="an entry, µs", format=",.1f"),
    ),
)


async def measure(job: Job) -> Outcome:
    """Open the store, send the event, and wait for the result."""
    entries = job.size("entries")
    async with opened(job.path) as driver:
        ready = time.monotonic() - job.spawned
        stopwatch = Stopwatch()
        with stopwatch:
            await driver.engine.send_event(go, 1, to="long")
            assert await driver.engine.handle("long").result() == entries + 1
        settings = driver.settings
    figures = {"ready_s": ready, "replay_ms": stopwatch.wall * 1e3, "entry_us": stopwatch.wall / entries * 1e6}
    return Outcome(figures | stopwatch.figures(), f"{settings}, {long.name}")

"""Jobs for runs in another process that do only what a test asks for."""

from __future__ import annotations

import asyncio
import os
import sys
import time

from bench.job import Job, Outcome
from bench.workload import Case, Column, Store, Workload


async def answer(job: Job) -> Outcome:
    """Returns which process this is, and its arguments."""
    return Outcome({"pid": os.getpid(), "count": job.sizes["count"], "files": len(os.listdir(job.folder))}, "none")


async def fail(job: Job) -> Outcome:
    """Ends with an error."""
    sys.stdout.write("some words before\n")
    raise RuntimeError("no disk today")


async def hang(job: Job) -> Outcome:
    """Never ends."""
    await asyncio.Event().wait()
    raise AssertionError


async def make(job: Job) -> Outcome:
    """Creates a store that differs from any other."""
    (job.path / "store").write_text(str(time.monotonic_ns()))
    return Outcome({})


async def look(job: Job) -> Outcome:
    """Returns which store it was given, and damages it."""
    store = job.path / "store"
    which = int(store.read_text())
    store.write_text("0")
    return Outcome({"which": which, "pid": os.getpid()})


WORKLOAD = Workload(
    name="T",
    title="A test",
    about="What a test needs.",
    entry="tests.bench.jobs:answer",
    cases=(Case(name="one", sizes={"count": 3}),),
    columns=(Column(figure="count", heading="count"),),
)
STORE = Store(entry="tests.bench.jobs:make", sizes=("count",))

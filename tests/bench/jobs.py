"""Entries for runs in a process of their own that do nothing but what a test asks for."""

from __future__ import annotations

import asyncio
import os
import sys
import time

from bench.job import Job, Outcome
from bench.workload import Case, Column, Store, Workload


async def answer(job: Job) -> Outcome:
    """Says which process this is, and what it was told."""
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
    """Makes a store that can be told from any other."""
    (job.path / "store").write_text(str(time.monotonic_ns()))
    return Outcome({})


async def look(job: Job) -> Outcome:
    """Says which store it was given, and spoils it."""
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

"""The big stores of durable: one real workflow of each kind, started by an engine, and copies of its rows."""

from __future__ import annotations

import asyncio

from bench.clones import clone
from bench.drivers.durable import STORE, go, sleeper, step, steps, waiter
from bench.job import Job, Outcome
from bench.workloads.w1 import STEPS
from durable import Durable, WorkflowEngine, workflow
from durable.backends.sqlite import SqliteBackend

FAR = 10 * 365 * 86_400.0
WAITING, SLEEPING, FINISHED = "waiting-", "sleeping-", "run-"


@workflow(name="bench-long")
def long(entries: int) -> Durable[int]:
    """Many activities in a row, then an event."""
    value = 0
    for _ in range(entries):
        value = yield from step(value)
    return value + (yield from go.wait())


async def suspended(job: Job) -> Outcome:
    """Suspended workflows: half wait for an event, half sleep for ten years."""
    path, half = job.path / STORE, job.size("suspended") // 2
    async with WorkflowEngine(path) as engine:
        await engine.start(waiter(), id="seed-waiting")
        await engine.start(sleeper(FAR), id="seed-sleeping")
    if half:
        clone(path, "seed-waiting", half, prefix=WAITING)
        clone(path, "seed-sleeping", half, prefix=SLEEPING)
    return Outcome({})


async def finished(job: Job) -> Outcome:
    """Finished workflows of ten steps each."""
    path, count = job.path / STORE, job.size("finished")
    async with WorkflowEngine(path) as engine:
        await (await engine.start(steps(STEPS), id="seed-finished")).result()
    if count:
        clone(path, "seed-finished", count, prefix=FINISHED)
    return Outcome({})


async def long_history(job: Job) -> Outcome:
    """One workflow with a long history that waits for an event. It really ran; nothing is copied."""
    # Nothing is measured here, so the engine need not wait for the disk.
    async with WorkflowEngine(SqliteBackend(job.path / STORE, synchronous="NORMAL")) as engine:
        await engine.start(long(job.size("entries")), id="long")
        while len(await engine.runs.history("long")) < job.size("entries"):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    return Outcome({})

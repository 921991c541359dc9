"""The limits of the machine: how often the disk confirms a write, and how fast SQLite takes rows."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from bench.job import Job, Outcome
from bench.stopwatch import Stopwatch
from bench.workload import NONE, Case, Column, Workload

BLOCK = bytes(4096)

DISK = Workload(
    name="L1",
    title="The disk",
    about="4 KiB appended to a file and made durable, one after the other.",
    entry="bench.workloads.limits:disk",
    cases=(Case(name="4 KiB at a time", sizes={"seconds": 1.0}, quick={"seconds": 0.3}, contenders={"disk": NONE}),),
    columns=(
        Column(figure="fsync_per_s", heading="fsync/s"),
        Column(figure="fdatasync_per_s", heading="fdatasync/s"),
    ),
)

INSERTS = Workload(
    name="L2",
    title="SQLite",
    about="Rows of history inserted with `executemany` by a bare connection, WAL and synchronous=FULL.",
    entry="bench.inserts:measure",
    cases=tuple(
        Case(
            name=f"{rows:,} a commit",
            sizes={"rows": rows, "count": count},
            quick={"count": count // 10},
            contenders={"SQLite": NONE},
        )
        for rows, count in ((1, 1_000), (100, 50_000), (1_000, 200_000))
    ),
    columns=(
        Column(figure="rows_per_s", heading="rows/s"),
        Column(figure="cpu_us", heading="CPU a row, µs", format=",.1f"),
    ),
)


async def disk(job: Job) -> Outcome:
    """How many times a second each of the two calls returns."""
    stopwatch = Stopwatch()
    with stopwatch:
        rates = {
            "fsync_per_s": _rate(job.path / "fsync", job.sizes["seconds"], os.fsync),
            "fdatasync_per_s": _rate(job.path / "fdatasync", job.sizes["seconds"], os.fdatasync),
        }
    return Outcome(rates | stopwatch.figures(), "a plain file")


def _rate(path: Path, seconds: float, sync: Callable[[int], None]) -> float:
    """How many blocks per second can be appended to a file and synced, one after the other."""
    count = 0
    with path.open("wb", buffering=0) as file:
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            file.write(BLOCK)
            sync(file.fileno())
            count += 1
        return count / (time.perf_counter() - began)

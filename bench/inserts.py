"""Rows into SQLite in batches, by a bare connection: the limit of every rate."""

from __future__ import annotations

from bench.commits import SETTINGS, bare_store, commit
from bench.job import Job, Outcome
from bench.stopwatch import Stopwatch


async def measure(job: Job) -> Outcome:
    """Insert `count` rows, `rows` per commit."""
    rows, count = job.size("rows"), job.size("count")
    with bare_store(job.path / "bare.db") as connection:
        for number in range(10):
            commit(connection, 0, number * rows, rows)
        stopwatch = Stopwatch()
        with stopwatch:
            for number in range(1, count // rows + 1):
                commit(connection, number, 0, rows)
    inserted = count // rows * rows
    rates = {"rows_per_s": inserted / stopwatch.wall, "cpu_us": stopwatch.cpu / inserted * 1e6}
    return Outcome(rates | stopwatch.figures(), SETTINGS)

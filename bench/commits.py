"""The bare commit: one row and one fsync, by a connection that does nothing else. The limit of every latency."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.figures import latencies
from bench.job import Job, Outcome
from bench.stopwatch import Stopwatch
from bench.workloads.w2 import figures
from durable.backends.sql.rows import HISTORY, history_rows
from durable.backends.sqlite import SqliteBackend
from durable.backends.sqlite.wal import Log
from durable.model.records import EntryKind, EntryStatus, HistoryEntry

SETTINGS = "SQLite, journal_mode=wal, synchronous=FULL"
LAID_OUT = f"{SETTINGS}, the log laid out ahead as durable does it"
INSERT = HISTORY.insert()


@contextmanager
def bare_store(path: Path) -> Iterator[sqlite3.Connection]:
    """A plain SQLite connection to a store with durable's tables and settings."""
    backend = SqliteBackend(path)
    backend.open("bare")
    backend.close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA wal_autocheckpoint=4000")
    try:
        yield connection
    finally:
        connection.close()


def commit(connection: sqlite3.Connection, workflow: int, first: int, count: int) -> None:
    """Insert `count` rows of history in one transaction."""
    entries = [
        HistoryEntry(seq, "0", EntryKind.ACTIVITY, "step", EntryStatus.OK, "1", time.time_ns() // 1000)
        for seq in range(first, first + count)
    ]
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(INSERT, history_rows((workflow, entry) for entry in entries))
    connection.execute("COMMIT")


def _measure(job: Job, commits: int, *, is_laid_out: bool = False) -> Outcome:
    """Time `count` rounds of this many commits in a row, after a few that warm up the file."""
    count = job.size("count")
    took: list[float] = []
    path = job.path / "bare.db"
    with bare_store(path) as connection:
        log = Log(str(path))
        for number in range(max(10, count // 10)):
            commit(connection, 0, number, 1)
            if is_laid_out:
                log.lay_out()
        stopwatch = Stopwatch()
        with stopwatch:
            for number in range(1, count + 1):
                began = time.perf_counter()
                for seq in range(commits):
                    commit(connection, number, seq, 1)
                    if is_laid_out:
                        log.lay_out()
                took.append(time.perf_counter() - began)
    return Outcome(figures(stopwatch, count) | latencies(took), LAID_OUT if is_laid_out else SETTINGS)


async def one_commit(job: Job) -> Outcome:
    """The time of one commit, one after the other."""
    return _measure(job, 1)


async def two_commits(job: Job) -> Outcome:
    """The time of two commits in a row."""
    return _measure(job, 2)


async def two_commits_laid_out(job: Job) -> Outcome:
    """The time of two commits in a row, into a log that is already longer than what is written to it.

    Its length then does not change with an fsync. SQLite by itself is never faster than this.
    """
    return _measure(job, 2, is_laid_out=True)

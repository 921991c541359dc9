"""Power cuts: `power_cuts(seed, images)` runs a service on a disk that keeps a diary, and switches it off afterwards.

A real engine opens each image of the disk with the standard library's SQLite, which recovers it, and continues. In
every image, four things must hold: the file is sound; it holds exactly what some commit left, so a prefix of all
commits; what was promised is there; and everything that was begun ends with its right result. `FULL` promises
everything that was acknowledged, `NORMAL` only the prefix.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Literal

import anyio
import attrs

from durable.backends.base import Opened
from durable.backends.sqlite import SqliteBackend
from tests.power.images import Image, images
from tests.power.service import resume, serve
from tests.power.store import RecordedBackend, Recording, contents

Synchronous = Literal["FULL", "NORMAL", "OFF"]
Promise = Literal["FULL", "NORMAL"]
STORE = "store.db"
# One engine stops cleanly, and the next continues with its file.
LIVES = 2
ORDERS = 12


# Rows that a store must not have after everything has ended.
_NEVER = (
    "SELECT id, status FROM workflow WHERE status != 'succeeded'",
    "SELECT workflow FROM history GROUP BY workflow HAVING max(seq) != count(*) OR min(seq) != 1",
    "SELECT workflow, position FROM history WHERE status != 'retry' GROUP BY workflow, position HAVING count(*) > 1",
    "SELECT name FROM pending_event",
    "SELECT workflow FROM event_wait",
)


class PowerLoss(AssertionError):
    """A power cut broke a promise."""


@attrs.frozen
class Figures:
    """What was done."""

    images: int
    # Images in which unsynced commits were missing. A disk that forgets nothing proves nothing.
    lost_tails: int
    lost_commits: int
    acknowledged: int
    commits: int
    acts: int
    fates: Counter[str]


class _Examined(SqliteBackend):
    """Reads the file as soon as SQLite has recovered it, before the engine changes anything."""

    last_commit: tuple[str, int] | None = None
    fingerprint = ""
    problems: str = ""

    def _take(self, connection: sqlite3.Connection, incarnation: str) -> Opened:
        self.problems = connection.execute("PRAGMA integrity_check").fetchone()[0]
        if connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'meta'").fetchone()[0]:
            self.last_commit = connection.execute("SELECT incarnation, batch FROM meta").fetchone()
            self.fingerprint = contents(connection)
        return super()._take(connection, incarnation)


def record(folder: Path, seed: int, synchronous: Synchronous) -> Recording:
    """Run the service on a new store, in several lives, and record everything."""
    chance = random.Random(seed)
    recording = Recording()
    folder.mkdir(parents=True)

    async def live() -> None:
        for life in range(LIVES):
            pages = chance.choice([3, 10, 30, 100, 4000])
            backend = RecordedBackend(folder / STORE, recording, synchronous=synchronous, checkpoint_pages=pages)
            await serve(backend, range(life * ORDERS, (life + 1) * ORDERS), recording)

    anyio.run(live)
    return recording


def judge(folder: Path, recording: Recording, image: Image, promise: Promise) -> int:
    """Open one image and continue. Returns the number of lost commits, or raises `PowerLoss`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, data in image.files.items():
        (folder / name).write_bytes(data)
    acknowledged: dict[str, set[str]] = {}
    for at, kind, id in recording.acks:
        if at <= image.at:
            acknowledged.setdefault(kind, set()).add(id)
    backend = _Examined(folder / STORE, synchronous="NORMAL")
    kept = acknowledged if promise == "FULL" else {}
    begun = acknowledged.get("begin", set()) - kept.get("result", set())
    anyio.run(resume, backend, kept, sorted(begun))
    _check_end(folder / STORE)
    return _lost(backend, recording, image, promise)


def _check_end(path: Path) -> None:
    """Every workflow has succeeded, and no history has a gap or two results for one position."""
    with closing(sqlite3.connect(path)) as connection:
        for question in _NEVER:
            if rows := connection.execute(question).fetchall():
                raise PowerLoss(f"{question}: {rows}")


def _lost(backend: _Examined, recording: Recording, image: Image, promise: Promise) -> int:
    if backend.problems != "ok":
        raise PowerLoss(f"the file is damaged: {backend.problems}")
    numbers = list(recording.commits)
    done = sum(commit.at <= image.at for commit in recording.commits.values())
    there = 0
    if backend.last_commit is not None and backend.last_commit[0]:
        there = numbers.index(backend.last_commit) + 1
        if backend.fingerprint != recording.commits[numbers[there - 1]].contents:
            raise PowerLoss(f"the file is not what commit {there} of {done} left: no prefix")
    if promise == "FULL" and there < done:
        raise PowerLoss(f"only {there} of {done} commits that had returned are there")
    return max(0, done - there)


def power_cuts(seed: int, count: int, *, synchronous: Synchronous = "FULL", promise: Promise | None = None) -> Figures:
    """Record one service, cut the power `count` times, and judge each image. Raises `PowerLoss`."""
    folder = Path(tempfile.mkdtemp(prefix="durable-power-"))
    chance = random.Random(seed)
    recording = record(folder / "recorded", seed, synchronous)
    acknowledged = [at for at, _, _ in recording.acks]
    # Half of the cuts come at the worst moment, right after an acknowledgement.
    moments = [
        chance.choice((chance.choice(acknowledged), chance.randint(0, len(recording.diary)))) for _ in range(count)
    ]
    judged = promise or ("FULL" if synchronous == "FULL" else "NORMAL")
    fates: Counter[str] = Counter()
    lost: list[int] = []
    for image in images(recording.diary, moments, chance):
        fates[image.fate] += 1
        try:
            lost.append(judge(folder / "image", recording, image, judged))
        except Exception as error:
            where = f"seed {seed}, {synchronous}, after {image.at} acts, {image.fate}; the files are in {folder}"
            raise PowerLoss(f"{error} ({where})") from error
    shutil.rmtree(folder)
    return Figures(
        images=len(lost),
        lost_tails=sum(map(bool, lost)),
        lost_commits=sum(lost),
        acknowledged=sum(kind != "begin" for _, kind, _ in recording.acks),
        commits=len(recording.commits),
        acts=len(recording.diary),
        fates=fates,
    )

"""The log of a SQLite store is extended ahead of the writes to it, without changing its contents."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest

from durable.backends.base import Batch
from durable.backends.sqlite import SqliteBackend
from durable.backends.sqlite.wal import CHECKPOINT_FRAMES, Log
from durable.model.records import EntryKind, EntryStatus, HistoryEntry

FULL_LOG = CHECKPOINT_FRAMES * (4096 + 24)


def lay_out(file: Path, length: int) -> int:
    """The length to which a log of this length is extended."""
    with file.open("wb") as log:
        log.write(b"x" * min(length, 10))
        log.truncate(length)
    Log(str(file).removesuffix("-wal")).lay_out()
    assert file.read_bytes()[:10] == (b"x" * min(length, 10)).ljust(10, b"\0")
    return file.stat().st_size


def commits(backend: SqliteBackend, workflow: int, count: int) -> None:
    """Some commits of one entry of a history each."""
    for number in range(backend.last_batch() + 1, backend.last_batch() + 1 + count):
        batch = Batch(number=number, serial=1)
        batch.history.add(workflow, HistoryEntry(number, "0", EntryKind.ACTIVITY, "a", EntryStatus.OK, "1", 1))
        backend.commit(batch)


DOUBLED = [(1, 1 << 17), (100_000, 200_000), (3_000_000, 6_000_000), (2 * FULL_LOG, 2 * FULL_LOG)]


@pytest.mark.parametrize(("length", "becomes"), DOUBLED)
def test_log_doubles(tmp_path: Path, length: int, becomes: int) -> None:
    """It doubles to at least 128 KiB; a log that can hold all writes between two checkpoints is not extended."""
    assert lay_out(tmp_path / "a.db-wal", length) == becomes


def test_log_does_not_grow_without_end(tmp_path: Path) -> None:
    """It is not extended beyond what is written between two checkpoints."""
    assert FULL_LOG < lay_out(tmp_path / "a.db-wal", FULL_LOG - 100) < 1.1 * FULL_LOG


def test_log_that_is_long_enough_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it can hold all writes between two checkpoints, no commit checks it again."""
    (tmp_path / "a.db-wal").write_bytes(bytes(FULL_LOG // 2 + 100))
    log = Log(str(tmp_path / "a.db"))
    log.lay_out()
    monkeypatch.setattr(Log, "_look", lambda _: pytest.fail("it was looked at"))
    for _ in range(20):
        log.lay_out()


def test_log_is_looked_at_now_and_then(tmp_path: Path) -> None:
    """One commit in eight checks whether the log was used up; the first does."""
    file = tmp_path / "a.db-wal"
    file.write_bytes(b"x")
    log = Log(str(tmp_path / "a.db"))
    lengths: list[int] = []
    for _ in range(17):
        log.lay_out()
        lengths.append(file.stat().st_size)
        # As if every commit made it longer.
        with file.open("ab") as writer:
            writer.write(bytes(10))
    grown = [now - before > 10 for before, now in zip([1, *lengths], lengths, strict=False)]
    assert [number for number, has_grown in enumerate(grown) if has_grown] == [0, 8, 16]


def test_log_that_is_not_there(tmp_path: Path) -> None:
    """A failure creates nothing and raises nothing: the next commit reports the error."""
    Log(str(tmp_path / "a.db")).lay_out()
    assert list(tmp_path.iterdir()) == []


def test_log_is_seldom_made_longer(tmp_path: Path) -> None:
    """It doubles, and between two looks a few commits make it longer: at most eight changes for each doubling."""
    backend = SqliteBackend(tmp_path / "a.db", synchronous="NORMAL")
    backend.open("one")
    lengths: list[int] = []
    for _ in range(300):
        commits(backend, 1, 1)
        lengths.append((tmp_path / "a.db-wal").stat().st_size)
    backend.close()
    assert len(set(lengths)) <= 8 * math.log2(2 * lengths[-1] / lengths[0])
    assert lengths == sorted(lengths)


def test_log_with_zeros_is_read_to_its_end(tmp_path: Path) -> None:
    """A store whose engine was killed, with a log that ends in zeros, has every commit, and continues."""
    backend = SqliteBackend(tmp_path / "a.db")
    backend.open("one")
    commits(backend, 1, 10)
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in ("a.db", "a.db-wal"):
        shutil.copy(tmp_path / file, copy / file)
    backend.close()
    assert (copy / "a.db-wal").read_bytes().endswith(bytes(4096))
    survivor = SqliteBackend(copy / "a.db")
    survivor.open("two")
    commits(survivor, 2, 5)
    assert [len(survivor.history(workflow)) for workflow in (1, 2)] == [10, 5]
    survivor.close()

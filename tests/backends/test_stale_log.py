"""A log beside a database that it does not belong to: a backup was copied over the file of a killed engine."""

from __future__ import annotations

import pathlib
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing

import pytest

from durable.backends.base import Batch, Workflows
from durable.backends.sqlite import SqliteBackend, filewatch, generation, owner, schema
from durable.backends.sqlite.reader import StoreReader
from durable.errors import StoreUnusable
from durable.testing.conformance.kit import workflow

ROOT = pathlib.Path(schema.__file__).parents[2]
# Opens a store, commits this many workflows, makes a backup half-way if asked to, and exits without a close.
_LIVE = """
import os, sqlite3, sys
from durable.backends.base import Batch
from durable.backends.sqlite import SqliteBackend
from durable.testing.conformance.kit import workflow

path, incarnation, count, pages, copy = sys.argv[1:]
backend = SqliteBackend(path)
first = backend.open(incarnation).serial
backend._connection.execute(f"PRAGMA wal_autocheckpoint = {pages}")
for number in range(1, int(count) + 1):
    key = first + number
    backend.commit(Batch(number=number, serial=key, workflows_new={key: workflow(key, input="x" * 900)}))
    if copy and number == int(count) // 2:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as source:
            if copy.endswith(".vacuum"):
                source.execute("VACUUM INTO ?", (copy,))
            else:
                with sqlite3.connect(copy) as target:
                    source.backup(target)
os._exit(0)
"""


def live(path: pathlib.Path, incarnation: str, count: int, *, pages: int = 10, copy: pathlib.Path | str = "") -> None:
    """A process that works on the store and is killed."""
    command = [sys.executable, "-c", _LIVE, str(path), incarnation, str(count), str(pages), str(copy)]
    subprocess.run(command, cwd=ROOT, check=True)


def keys(path: pathlib.Path, incarnation: str = "reader") -> list[int]:
    """The workflows of a store, which is closed cleanly."""
    backend = SqliteBackend(path)
    backend.open(incarnation)
    try:
        return [record.key for record in backend.find(Workflows(limit=1000))]
    finally:
        backend.close()


def remove_log(path: pathlib.Path) -> None:
    """Do what the refusal says."""
    for suffix in ("-wal", "-shm"):
        pathlib.Path(f"{path}{suffix}").unlink(missing_ok=True)


def online(path: pathlib.Path) -> pathlib.Path:
    """A backup that SQLite made while the last engine worked."""
    live(path, "first", 20)
    live(path, "second", 40, copy=path.with_name("copy.db"))
    return path.with_name("copy.db")


def vacuumed(path: pathlib.Path) -> pathlib.Path:
    """The same with VACUUM INTO: other pages hold other rows."""
    live(path, "first", 20)
    live(path, "second", 40, pages=10_000, copy=path.with_name("copy.vacuum"))
    return path.with_name("copy.vacuum")


def cold(path: pathlib.Path) -> pathlib.Path:
    """A copy of the file of an engine that had stopped cleanly, just before the next one was started."""
    live(path, "first", 20)
    keys(path)
    shutil.copy(path, path.with_name("copy.db"))
    live(path, "second", 40)
    return path.with_name("copy.db")


def older(path: pathlib.Path) -> pathlib.Path:
    """A backup from before the one that the store was restored from."""
    live(path, "first", 20, copy=path.with_name("older.db"))
    live(path, "second", 20, copy=path.with_name("newer.db"))
    remove_log(path)
    shutil.copy(path.with_name("newer.db"), path)
    live(path, "third", 3)
    return path.with_name("older.db")


def lay(log: pathlib.Path, beside: pathlib.Path) -> None:
    """Put a log beside a database."""
    shutil.copy(log, f"{beside}-wal")


def log_of_an_older_opening(path: pathlib.Path) -> None:
    """The log of an engine that was killed, put back after the next one had worked and stopped cleanly."""
    live(path, "first", 10)
    shutil.copy(f"{path}-wal", path.with_name("snapshot"))
    live(path, "second", 40)
    keys(path)
    lay(path.with_name("snapshot"), path)


def log_of_another_store(path: pathlib.Path) -> None:
    """The log of another store, put beside one that was closed cleanly."""
    live(path, "first", 50)
    keys(path)
    live(path.with_name("other.db"), "second", 30)
    lay(path.with_name("other.db-wal"), path)


@pytest.mark.parametrize("prepare", [log_of_an_older_opening, log_of_another_store])
def test_log_that_is_not_the_last_one_is_refused(
    tmp_path: pathlib.Path, prepare: Callable[[pathlib.Path], None]
) -> None:
    """A log of an earlier engine is not mixed into the file; when it is removed, nothing is missing."""
    path = tmp_path / "store.db"
    prepare(path)
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(StoreUnusable, match=r"not the file that the log .* was written for.* rm .*-wal"):
            SqliteBackend(path).open("a")
        with pytest.raises(StoreUnusable, match="rm "), StoreReader(path):
            pass
    assert path.read_bytes() == before
    remove_log(path)
    assert keys(path) == list(range(1, 51))


def test_log_that_is_often_started_again_is_known(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite starts the log again and again; the engine writes down which one it is before the note is too old."""
    monkeypatch.setattr(filewatch, "_NOTE_AFTER", 2)
    path = tmp_path / "store.db"
    backend = SqliteBackend(path)
    backend.open("first")
    assert backend._connection is not None
    backend._connection.execute("PRAGMA wal_autocheckpoint = 1")
    for number in range(1, 10):
        backend.commit(Batch(number=number, serial=number, workflows_new={number: workflow(number)}))
        backend.check()
    salt, noted = generation.log_salt(str(path)), owner.remembered(str(path)).log
    backend.close()
    assert salt is not None
    assert noted is not None
    assert 0 <= salt - noted < 2


@pytest.mark.parametrize("prepare", [online, vacuumed, cold, older])
def test_log_of_another_file_is_refused(
    tmp_path: pathlib.Path, prepare: Callable[[pathlib.Path], pathlib.Path]
) -> None:
    """A backup that was copied beside an old log is not mixed with it: the refusal names the file to remove."""
    path = tmp_path / "store.db"
    backup = prepare(path)
    assert pathlib.Path(f"{path}-wal").stat().st_size
    shutil.copy(backup, path)
    for _ in range(2):
        with pytest.raises(StoreUnusable) as caught:
            SqliteBackend(path).open("a")
        assert f"rm {path}-wal {path}-shm" in str(caught.value)
    assert path.read_bytes() == backup.read_bytes()
    remove_log(path)
    with closing(sqlite3.connect(backup)) as copy:
        stored = [key for (key,) in copy.execute("SELECT key FROM workflow ORDER BY key")]
    assert len(stored) >= 10
    assert keys(path) == stored


@pytest.mark.parametrize("pages", [1, 7, 100_000], ids=["always", "often", "never"])
def test_log_of_a_killed_engine_is_recovered(tmp_path: pathlib.Path, pages: int) -> None:
    """However often engines are killed, and whatever was written back, the log is theirs: nothing is lost."""
    path = tmp_path / "store.db"
    for life, count in enumerate((3, 0, 5, 1, 0, 0, 8)):
        live(path, f"life {life}", count, pages=pages)
    assert keys(path) == list(range(1, 18))


def test_log_that_was_moved_with_its_file(tmp_path: pathlib.Path) -> None:
    """A database and its log that were copied together onto an older store open when the old lock file is removed."""
    here, there = tmp_path / "here.db", tmp_path / "there.db"
    live(here, "first", 3)
    live(there, "second", 5)
    for suffix in ("", "-wal"):
        shutil.copy(f"{there}{suffix}", f"{here}{suffix}")
    pathlib.Path(f"{here}-shm").unlink()
    with pytest.raises(StoreUnusable, match=r"here\.db-owner"):
        SqliteBackend(here).open("a")
    pathlib.Path(f"{here}-owner").unlink()
    assert keys(here) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("note", ["", "[]", '{"generations": "x"}', '{"pid": 1}', "{"])
def test_lock_file_without_a_record_refuses_nothing(tmp_path: pathlib.Path, note: str) -> None:
    """A lock file of an earlier version, or a truncated one, says nothing about the log: it is recovered."""
    path = tmp_path / "store.db"
    live(path, "first", 3)
    pathlib.Path(f"{path}-owner").write_text(note)
    assert keys(path) == [1, 2, 3]


def test_reader_refuses_the_log_of_another_file(tmp_path: pathlib.Path) -> None:
    """A reader gets the same refusal, instead of a mixture; a log that belongs to the file is read."""
    path = tmp_path / "store.db"
    backup = online(path)
    with StoreReader(path) as reader:
        assert len(list(reader.keys())) == 60
    shutil.copy(backup, path)
    with pytest.raises(StoreUnusable, match="rm "), StoreReader(path):
        pass

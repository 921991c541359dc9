"""Reading a store file: beside an engine, without a trace, and only if the file can be understood."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from durable.backends.base import Batch
from durable.backends.sqlite import SqliteBackend, schema
from durable.backends.sqlite.reader import StoreReader, export_histories
from durable.errors import CodecError, StorageUnavailable, StoreTooNew, StoreUnusable
from durable.model.records import EntryKind, EntryStatus, HistoryEntry, WorkflowRecord, WorkflowStatus
from durable.testing.conformance.kit import workflow


def entry(seq: int) -> HistoryEntry:
    """An entry."""
    return HistoryEntry(seq, str(seq - 1), EntryKind.ACTIVITY, "charge", EntryStatus.OK, "1", 1_000 + seq)


def suspended(key: int, **changes: Any) -> WorkflowRecord:
    """An unfinished workflow."""
    return workflow(key, status=WorkflowStatus.SUSPENDED, **changes)


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[SqliteBackend]:
    """An open store with three workflows: a finished one between two that are not."""
    store = SqliteBackend(tmp_path / "store.db")
    store.open("first")
    ended = workflow(2, status=WorkflowStatus.SUCCEEDED)
    new = {1: suspended(1), 2: ended, 3: suspended(3, name="other")}
    store.commit(Batch(number=1, workflows_new=new, history=[(1, entry(1)), (1, entry(2)), (2, entry(1))]))
    yield store
    store.close()


def snapshot(folder: Path) -> dict[str, bytes]:
    """The names and contents of all files; SQLite's shared memory has locks in it, so only its name."""
    return {path.name: b"" if path.name.endswith("-shm") else path.read_bytes() for path in folder.iterdir()}


def alter(path: Path, sql: str) -> None:
    """Change a store behind durable's back."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(sql)
        connection.commit()


def ids(path: Path, **options: Any) -> list[str]:
    """The ids of the exported histories."""
    return [history.record.id for history in export_histories(path, **options)]


def test_unfinished_workflows_are_read_beside_the_engine(backend: SqliteBackend, tmp_path: Path) -> None:
    """Commits of an engine are visible while it has the file open, in order, with histories."""
    histories = list(export_histories(tmp_path / "store.db"))
    assert [history.record for history in histories] == [suspended(1), suspended(3, name="other")]
    assert [history.entries for history in histories] == [(entry(1), entry(2)), ()]
    backend.commit(Batch(number=2, workflows_new={4: suspended(4)}))
    assert len(ids(tmp_path / "store.db")) == 3


def test_name_and_limit_narrow(backend: SqliteBackend, tmp_path: Path) -> None:
    """A name and a limit filter them."""
    path = tmp_path / "store.db"
    assert ids(path, name="other") == [suspended(3).id]
    assert ids(path, limit=1) == [suspended(1).id]
    assert ids(path, name="nobody") == []


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "closed"])
def test_nothing_is_written(backend: SqliteBackend, tmp_path: Path, is_open: bool) -> None:
    """No file is created, changed or removed: no lock is taken, and a closed store gets no WAL."""
    if not is_open:
        backend.close()
        (tmp_path / "store.db-owner").unlink()
    before = snapshot(tmp_path)
    assert len(ids(tmp_path / "store.db")) == 2
    assert snapshot(tmp_path) == before


def test_engine_can_work_and_close_while_it_is_read(backend: SqliteBackend, tmp_path: Path) -> None:
    """A reader blocks neither a commit nor a close, and its next read sees them."""
    with StoreReader(tmp_path / "store.db") as reader:
        keys = reader.keys()
        assert next(keys) == 1
        backend.commit(Batch(number=2, workflows_changed={3: workflow(3, name="other", status=WorkflowStatus.FAILED)}))
        backend.close()
        assert next(keys) == 3
        # It has ended since its key was read.
        assert reader.read(3) is None
        assert reader.read(1) is not None


def test_workflow_and_history_are_of_one_moment(backend: SqliteBackend, tmp_path: Path) -> None:
    """A workflow that continues as another while it is read is returned as it was, with its old history."""
    with StoreReader(tmp_path / "store.db") as reader:
        assert reader.read(1) is not None

        def interrupt(statement: str) -> None:
            if "FROM history" in statement:
                reader._connection.set_trace_callback(None)  # type: ignore[union-attr]
                changed = suspended(1, name="another", round=1)
                backend.commit(Batch(number=2, workflows_changed={1: changed}, restarted={1}))

        reader._connection.set_trace_callback(interrupt)  # type: ignore[union-attr]
        before, after = reader.read(1), reader.read(1)
    assert before is not None
    assert after is not None
    assert (before.record.name, len(before.entries)) == (suspended(1).name, 2)
    assert (after.record.name, len(after.entries)) == ("another", 0)


def test_engine_that_opens_a_closed_store_is_noticed(backend: SqliteBackend, tmp_path: Path) -> None:
    """A closed store is read without locks; when an engine opens it meanwhile, its commits are still seen."""
    backend.close()
    with StoreReader(tmp_path / "store.db") as reader:
        assert reader.read(1) is not None
        backend.open("second")
        backend.commit(Batch(number=1, history=[(1, entry(3))]))
        history = reader.read(1)
        assert history is not None
        assert len(history.entries) == 3
        assert list(reader.keys()) == [1, 3]


def test_store_that_never_stands_still_is_given_up(
    backend: SqliteBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A closed file that changes at every read is reported instead of being read forever."""
    backend.close()
    path = tmp_path / "store.db"
    with StoreReader(path) as reader:
        real = os.stat

        def restless(*args: Any, **kwargs: Any) -> os.stat_result:
            now = real(path).st_mtime_ns + 1_000_000_000
            os.utime(path, ns=(now, now))
            return real(*args, **kwargs)

        monkeypatch.setattr(os, "stat", restless)
        with pytest.raises(StorageUnavailable, match="keeps changing"):
            reader.read(1)
    monkeypatch.undo()


def test_many_workflows_come_page_by_page(backend: SqliteBackend, tmp_path: Path) -> None:
    """More than one page of workflows is returned completely, each once, in order."""
    backend.commit(Batch(number=2, workflows_new={key: suspended(key) for key in range(10, 1510)}))
    with StoreReader(tmp_path / "store.db") as reader:
        assert list(reader.keys()) == [1, 3, *range(10, 1510)]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("UPDATE workflow SET tags = 'no list' WHERE key = 1", "workflow id"),
        ("UPDATE workflow SET id = CAST(X'ff' AS TEXT) WHERE key = 1", "not UTF-8"),
    ],
)
def test_workflow_that_cannot_be_read_is_an_error_of_its_own(
    backend: SqliteBackend, tmp_path: Path, caplog: pytest.LogCaptureFixture, sql: str, reason: str
) -> None:
    """A damaged workflow raises where it is read; an export logs it and continues with the others."""
    backend.close()
    alter(tmp_path / "store.db", sql)
    with StoreReader(tmp_path / "store.db") as reader, pytest.raises(CodecError, match=reason):
        reader.read(1)
    assert ids(tmp_path / "store.db") == [suspended(3).id]
    assert "left out" in caplog.text


def test_entries_that_cannot_be_read_are_told(
    backend: SqliteBackend, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A workflow whose entries are damaged is returned with the reason, and not exported."""
    backend.close()
    alter(tmp_path / "store.db", "UPDATE history SET kind = 'dream' WHERE workflow = 1 AND seq = 2")
    with StoreReader(tmp_path / "store.db") as reader:
        history = reader.read(1)
    assert history is not None
    assert (history.record.id, history.entries) == (suspended(1).id, ())
    assert "'dream' is unknown" in (history.damage or "")
    assert ids(tmp_path / "store.db") == [suspended(3).id]
    assert "left out" in caplog.text


def _stranger(path: Path) -> None:
    alter(path, "CREATE TABLE t (x)")


def _old(path: Path) -> None:
    backend = SqliteBackend(path)
    backend.open("x")
    backend.close()
    alter(path, f"PRAGMA user_version = {schema.SCHEMA_VERSION - 1}")


def _new(path: Path) -> None:
    backend = SqliteBackend(path)
    backend.open("x")
    backend.close()
    alter(path, f"PRAGMA user_version = {schema.SCHEMA_VERSION + 1}")


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "missing": (lambda path: None, StoreUnusable, "no such file"),
    "folder": (lambda path: path.mkdir(), StoreUnusable, "no such file"),
    "empty": (lambda path: path.touch(), StoreUnusable, "schema version 0"),
    "text": (lambda path: path.write_text("hello " * 200), StoreUnusable, "not a database"),
    "stranger": (_stranger, StoreUnusable, "other tables"),
    "older": (_old, StoreUnusable, "read it with the durable that wrote it"),
    "newer": (_new, StoreTooNew, "upgrade durable-engine"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_file_that_is_no_store_of_this_version_is_refused(tmp_path: Path, name: str) -> None:
    """An unreadable file is refused with what to do, and is not changed."""
    make, error, reason = REFUSED[name]
    path = tmp_path / "store.db"
    make(path)
    before = snapshot(tmp_path) if path.is_file() else {}
    with pytest.raises(error, match=reason), StoreReader(path):
        pass
    assert not path.is_file() or snapshot(tmp_path) == before


def test_file_that_goes_away_is_told(backend: SqliteBackend, tmp_path: Path) -> None:
    """A store that is removed under the reader is reported in one sentence."""
    backend.close()
    with StoreReader(tmp_path / "store.db") as reader:
        (tmp_path / "store.db").unlink()
        with pytest.raises(StoreUnusable, match="cannot be examined"):
            reader.read(1)

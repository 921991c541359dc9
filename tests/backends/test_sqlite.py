"""A SQLite store at work: failing commits, rows that were altered by hand, and the contents of its tables."""

from __future__ import annotations

import logging
import pathlib
import sqlite3
from collections.abc import Iterator

import pytest

from durable.backends.base import Batch, Timers, WaitsFor, Workflows
from durable.backends.sqlite import SqliteBackend
from durable.errors import CodecError, InvariantViolated, StorageUnavailable, StoreFenced
from durable.model.records import ParkReason, SentEvent, WorkflowStatus
from durable.testing.conformance.kit import by_key, by_place, entry, event, keys, wait, workflow


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "store.db"


@pytest.fixture
def backend(path: pathlib.Path) -> Iterator[SqliteBackend]:
    backend = SqliteBackend(path, busy_timeout=0.01)
    backend.open("a")
    yield backend
    backend.close()


def _sql(backend: SqliteBackend, statement: str) -> list[tuple[object, ...]]:
    """Alter the store behind its back, over its own connection."""
    assert backend._connection is not None
    return backend._connection.execute(statement).fetchall()


def test_full_disk(backend: SqliteBackend) -> None:
    """A commit for which the disk has no room stores nothing, says so, and succeeds once there is room."""
    backend.commit(Batch(number=1, workflows_new=by_key(workflow(1))))
    (pages,) = _sql(backend, "PRAGMA page_count")[0]
    _sql(backend, f"PRAGMA max_page_count = {pages}")
    large = Batch(number=2, history=[(1, entry(0)), (1, entry(1, outcome="x" * 500_000))])
    for _ in range(2):
        with pytest.raises(StorageUnavailable, match="full"):
            backend.commit(large)
        assert backend.last_batch() == 1
        assert backend.history(1) == []
    _sql(backend, "PRAGMA max_page_count = 100000")
    backend.commit(large)
    assert len(backend.history(1)) == 2


def test_foreign_writer(backend: SqliteBackend, path: pathlib.Path) -> None:
    """A foreign write transaction makes a commit fail after the busy timeout; reads work, and a repeat succeeds."""
    foreign = sqlite3.connect(path, isolation_level=None)
    foreign.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageUnavailable, match=r"store\.db: database is locked"):
        backend.commit(Batch(number=1))
    assert backend.last_batch() == 0
    foreign.close()
    backend.commit(Batch(number=1))


def test_superseded_by_hand(backend: SqliteBackend) -> None:
    """If another incarnation is in the file, this one can neither write nor ask for its number."""
    _sql(backend, "UPDATE meta SET incarnation = 'b'")
    with pytest.raises(StoreFenced):
        backend.commit(Batch(number=1))
    with pytest.raises(StoreFenced):
        backend.last_batch()


@pytest.mark.parametrize(
    "batch",
    [
        Batch(number=1, events_put={2**63: event(2**63)}),
        Batch(number=1, history=[(1, entry(0, outcome="\ud800"))]),
        Batch(number=1, sent_put={"a": SentEvent(event_id="a", digest="d", reply="r", at="soon")}),  # type: ignore[arg-type]
        Batch(number=1, history=[(1, entry(0, outcome=object()))]),  # type: ignore[arg-type]
    ],
    ids=["too large", "surrogate", "wrong type", "no type"],
)
def test_values_that_no_column_takes(backend: SqliteBackend, batch: Batch) -> None:
    """A value that cannot be stored is our bug; the batch is rolled back and the next one succeeds."""
    with pytest.raises(InvariantViolated):
        backend.commit(batch)
    backend.commit(Batch(number=1))


def test_interruption_inside_a_commit(backend: SqliteBackend) -> None:
    """Whatever ends a commit half-way, no transaction stays open behind it."""

    class Interrupting(dict[object, object]):
        def values(self) -> object:  # type: ignore[override]
            raise KeyboardInterrupt

    broken = Batch(number=1, history=[(1, entry(0))])
    broken.sent_put = Interrupting(a=1)  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        backend.commit(broken)
    assert backend.history(1) == []
    backend.commit(Batch(number=1))


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ("status = 'dreaming'", "'dreaming' is unknown"),
        ("park_reason = 'bored'", "'bored' is unknown"),
        ("tags = '{'", "Expecting"),
        ("tags = '{\"a\": 1}'", "not a list of texts"),
        ("tags = '[1]'", "must be a str"),
        ("tags = '[\"\\ud800\"]'", "lone surrogate"),
        ("cursors = '[[1, 2]]'", "not a list of"),
        ('cursors = \'[["a", "\\ud800", 3]]\'', "lone surrogate"),
        ("cursors = 'null'", "not a list of"),
        ("input = CAST(x'ff' AS TEXT)", "not UTF-8"),
        ("created_at = 9223372036854775807", "created_at 9223372036854775807"),
        ("wake_at = -9223372036854775808", "wake_at -9223372036854775808"),
        ("round = -1", "round -1 is out of range"),
    ],
)
def test_unreadable_workflow(backend: SqliteBackend, caplog: pytest.LogCaptureFixture, change: str, hint: str) -> None:
    """An unreadable row is a parked workflow that says why, is logged once, and is sound once it is written."""
    backend.commit(Batch(number=1, workflows_new=by_key(*(workflow(key) for key in (1, 2, 3)))))
    _sql(backend, f"UPDATE workflow SET {change} WHERE key = 1")
    with caplog.at_level(logging.ERROR, "durable"):
        for _ in range(2):
            assert keys(backend.find(Workflows(limit=9))) == [1, 2, 3]
            assert backend.workflow("workflow-1") == backend.workflow_by_key(1)
    damaged = backend.workflow_by_key(1)
    assert damaged is not None
    assert (damaged.status, damaged.park_reason) == (WorkflowStatus.PARKED, ParkReason.UNREADABLE)
    assert hint in (damaged.park_detail or "")
    assert [record.message.count(hint) for record in caplog.records] == [1]
    ended = damaged.with_status(WorkflowStatus.CANCELLED, park_reason=None, is_damaged=False)
    backend.commit(Batch(number=2, workflows_changed={1: ended}))
    assert backend.workflow_by_key(1) == ended
    assert keys(backend.find(Workflows(after=2, limit=9))) == [3]


def test_workflow_without_an_id_is_left_out(backend: SqliteBackend, caplog: pytest.LogCaptureFixture) -> None:
    """A row whose id cannot be read is named when it is asked for; in a list it is left out and logged once."""
    backend.commit(Batch(number=1, workflows_new=by_key(*(workflow(key) for key in (1, 2, 3)))))
    _sql(backend, "UPDATE workflow SET id = '' WHERE key = 1")
    with pytest.raises(CodecError, match=r"workflow id '': .* must not be empty"):
        backend.workflow_by_key(1)
    with caplog.at_level(logging.ERROR, "durable"):
        for _ in range(2):
            assert keys(backend.find(Workflows(limit=9))) == [2, 3]
            assert keys(backend.find(Workflows(limit=1))) == [2]
    assert [record.message.count("must not be empty") for record in caplog.records] == [1]


def test_unreadable_workflow_does_not_end_the_pages(backend: SqliteBackend) -> None:
    """A page is filled with readable rows, however many unreadable ones lie between them."""
    backend.commit(Batch(number=1, workflows_new=by_key(*(workflow(key, tags=("t",)) for key in range(1, 40)))))
    _sql(backend, "UPDATE workflow SET id = 'x' || char(0) || key WHERE key BETWEEN 3 AND 37")
    assert keys(backend.find(Workflows(statuses=(WorkflowStatus.RUNNING,), limit=3))) == [1, 2, 38]
    assert keys(backend.find(Workflows(after=2, limit=2))) == [38, 39]
    assert keys(backend.find(Workflows(after=2, limit=9))) == [38, 39]
    assert len(backend.find(Timers(limit=5))) == 0
    backend.commit(Batch(number=2, workflows_purged=set(range(3, 38))))
    assert backend.count(Workflows(tag="t", limit=1)) == 4
    assert _sql(backend, "SELECT count(*) FROM workflow_tag") == [(4,)]


def test_unreadable_history(backend: SqliteBackend) -> None:
    """An entry that cannot be read is named by workflow and seq; other histories are not affected."""
    backend.commit(Batch(number=1, history=[(1, entry(0)), (1, entry(1)), (2, entry(0))]))
    for change in (
        "kind = 'dream'",
        "status = 'maybe'",
        "outcome = CAST(x'ff' AS TEXT)",
        "at = -1 << 62",
        "retry_at = 1 << 62",
    ):
        _sql(backend, f"UPDATE history SET {change} WHERE workflow = 1 AND seq = 1")
        with pytest.raises(CodecError, match="history workflow 1 seq 1"):
            backend.history(1)
        assert backend.history(2) == [entry(0)]


def test_unreadable_wait(backend: SqliteBackend) -> None:
    """One wait that cannot be read does not keep an event from the others that wait for it."""
    backend.commit(Batch(number=1, waits_put=by_place(wait(1, 1), wait(2, 2))))
    _sql(backend, "UPDATE event_wait SET mode = 'never' WHERE workflow = 1")
    assert backend.find(WaitsFor(name="paid", event_key="", limit=1)) == [wait(2, 2)]


def test_broken_store_while_reading(backend: SqliteBackend) -> None:
    """A read that SQLite cannot do is `StorageUnavailable`, never a bare error of SQLite."""
    _sql(backend, "DROP TABLE history")
    with pytest.raises(StorageUnavailable, match="no such table"):
        backend.history(1)
    with pytest.raises(StorageUnavailable, match="no such table"):
        backend.commit(Batch(number=1, history=[(1, entry(0))]))
    backend.commit(Batch(number=1))


def test_what_lies_in_the_tables(backend: SqliteBackend, path: pathlib.Path) -> None:
    """Rows are readable SQL for a second connection: JSON as text, instants as integers, updates counted."""
    record = workflow(1, tags=("red", "☃"), cursors=(("paid", "k", 3),))
    backend.commit(Batch(number=1, serial=5, workflows_new=by_key(record)))
    for number in (2, 3):
        backend.commit(Batch(number=number, workflows_changed=by_key(record)))
    reader = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    row = reader.execute("SELECT tags, cursors, created_at, revision FROM workflow").fetchone()
    assert row == ('["red","☃"]', '[["paid","k",3]]', 1001, 2)
    assert reader.execute("SELECT incarnation, batch, serial, clean FROM meta").fetchall() == [("a", 3, 5, 0)]
    reader.close()


def test_close_with_a_reader(backend: SqliteBackend, path: pathlib.Path) -> None:
    """A reader of an old state does not keep the store from closing, and nothing is lost."""
    reader = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM workflow").fetchall()
    backend.commit(Batch(number=1, workflows_new=by_key(workflow(1))))
    backend.close()
    reader.close()
    backend.open("b")
    assert backend.workflow("workflow-1") == workflow(1)


def test_close_after_the_connection_broke(backend: SqliteBackend) -> None:
    """A failing close still releases the lock."""
    assert backend._connection is not None
    backend._connection.close()
    with pytest.raises(InvariantViolated):
        backend.workflow("a")
    backend.close()
    backend.open("b")

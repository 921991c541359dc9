"""A store that an earlier version has written is opened, migrated and keeps what it holds."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from durable.backends import schema
from durable.backends.base import Batch, Schedules, Timers
from durable.backends.sqlite import SqliteBackend
from durable.testing.conformance.kit import by_key, workflow


def test_store_from_before_schedules(tmp_path: Path) -> None:
    """A store of version 1 gets its table of schedules, and its workflows and their timers are as they were."""
    path = tmp_path / "store.db"
    old = SqliteBackend(path)
    old.open("old")
    old.commit(Batch(number=1, workflows_new=by_key(workflow(1, wake_at=7, tags=("red",)))))
    old.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TABLE schedule")
        connection.execute("DELETE FROM _sqlite_migrations WHERE name = 'm002_schedules'")
        connection.execute("PRAGMA user_version = 1")
    new = SqliteBackend(path)
    new.open("new")
    assert new.workflow("workflow-1") == workflow(1, wake_at=7, tags=("red",))
    assert new.find(Timers(limit=9)) == [(7, 1)]
    assert new.find(Schedules(limit=9)) == []
    new.close()
    with closing(sqlite3.connect(path)) as connection:
        assert schema.is_current(connection)

"""Stores of older versions: they open with all that they hold, and can do what is new."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from durable.backends import schema
from durable.backends.base import Batch, OpenPauses, WaitsOf
from durable.backends.sqlite import SqliteBackend
from durable.records import Question
from durable.testing.conformance.kit import by_key, by_place, wait, workflow

# What takes the last migration back, and its mark with it.
BEFORE_PAUSES = (
    *(f"ALTER TABLE event_wait DROP COLUMN {name}" for name in ("prompt", "expects", "expires_at")),
    "DELETE FROM _sqlite_migrations WHERE name = 'm002_pauses'",
    "PRAGMA user_version = 1",
)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A store as it was made before there were pauses, with a workflow that waits for an event."""
    path = tmp_path / "store.db"
    backend = SqliteBackend(path)
    backend.open("maker")
    backend.commit(Batch(number=1, workflows_new=by_key(workflow(1)), waits_put=by_place(wait(1, 2))))
    backend.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in BEFORE_PAUSES:
            connection.execute(statement)
        assert not schema.is_current(connection)
    return path


def test_store_from_before_pauses(old: Path) -> None:
    """A file of the first schema opens with all that it holds, and takes pauses."""
    backend = SqliteBackend(old)
    backend.open("a")
    assert backend.workflow("workflow-1") == workflow(1)
    assert backend.find(WaitsOf(workflow_key=1)) == [wait(1, 2)]
    assert backend.find(OpenPauses(limit=9)) == []
    asked = wait(1, 3, "1", name="", question=Question('"sure?"', "bool"))
    backend.commit(Batch(number=1, waits_put=by_place(asked)))
    assert [one.prompt for one in backend.find(OpenPauses(limit=9))] == ["sure?"]
    backend.close()

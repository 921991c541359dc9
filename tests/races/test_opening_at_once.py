"""Two processes that open a new store at the same time."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from durable.backends.sqlite import SqliteBackend, schema


@pytest.mark.parametrize("moment", [1, 2, 3])
def test_store_that_another_process_is_making_is_no_foreign_database(tmp_path: Path, moment: int) -> None:
    """Before each question of the check another process may make the store: the file is accepted."""
    path = tmp_path / "store.db"
    questions: list[str] = []

    class Racing(sqlite3.Connection):
        def execute(self, sql: str, *params: Any) -> sqlite3.Cursor:
            questions.append(sql)
            if len(questions) == moment:
                other = SqliteBackend(path)
                other.open("other")
                other.close()
            return super().execute(sql, *params)

    with closing(sqlite3.connect(path, factory=Racing)) as connection:
        schema.check(connection, "store")
    assert len(questions) == 3

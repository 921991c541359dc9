"""Stores written by earlier versions open, and every workflow in them finishes as it would have."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from durable.backends.sqlite import SqliteBackend
from tests.formats.scenario import STORES, finish

pytestmark = pytest.mark.anyio
EXPECTED = json.loads(STORES.joinpath("expected.json").read_text())


@pytest.mark.parametrize("store", sorted(STORES.glob("*.db")), ids=lambda store: store.stem)
async def test_old_store_is_finished(store: Path, tmp_path: Path) -> None:
    """Each run has the result, the error or the history that the code which began it would have produced."""
    copy = tmp_path / "store.db"
    shutil.copy(store, copy)
    ends = await finish(copy)
    # Compared as text after a round trip: tuples are lists there.
    assert json.loads(json.dumps(ends)) == EXPECTED


@pytest.mark.parametrize("store", sorted(STORES.glob("*.db")), ids=lambda store: store.stem)
def test_store_is_as_old_as_its_name_says(store: Path) -> None:
    """No kept store was opened in place, which would have migrated it."""
    with closing(sqlite3.connect(f"file:{store}?mode=ro&immutable=1", uri=True)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    assert store.stem == f"schema-{version}"


CAUSES = {
    "parent 'family' has ended": "parent_ended",
    'parent "o\'brien" has ended': "parent_ended",
    "workflow 'family' no longer waits for it": "not_awaited",
    "enough": "requested",
}


@pytest.mark.parametrize(("reason", "cause"), CAUSES.items())
def test_cause_of_a_cancel_is_read_off_its_reason_once(tmp_path: Path, reason: str, cause: str) -> None:
    """Up to schema version 7 only the reason said why a child was cancelled; the migration stores the cause."""
    copy = tmp_path / "store.db"
    shutil.copy(STORES / "schema-7.db", copy)
    with closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute(
            "UPDATE workflow SET cancel_requested = 1, cancel_reason = ? WHERE id = 'family-awaited'", (reason,)
        )
    backend = SqliteBackend(copy)
    backend.open("migrating")
    backend.close()
    with closing(sqlite3.connect(copy)) as connection:
        causes = dict(connection.execute("SELECT id, cancel_cause FROM workflow"))
    assert (causes["family-awaited"], causes["waiting"], causes["cancelled"]) == (cause, None, "requested")

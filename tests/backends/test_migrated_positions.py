"""A file from before branches had names in positions: its runs continue under the numbers they began with."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlite_utils import Database

from durable import Durable, Event, WorkflowEngine, WorkflowStatus, race, workflow
from durable.backends.sqlite import schema
from durable.model.clock import SECOND
from tests.scenarios.kit import SOON

go = Event[int]("positions.go")
_REST = "0, 0, '[]', 0, NULL, 0, NULL, NULL, '[]', 1, NULL"
_ROWS = f"""
    INSERT INTO workflow VALUES (1, 'p', 'positions.parent', 1, 'suspended', '{{}}', '',
        {SECOND}, {SECOND}, NULL, NULL, NULL, NULL, NULL, NULL, {_REST});
    INSERT INTO workflow VALUES (2, 'p/0.0.0', 'positions.child', 1, 'suspended', '{{}}', '',
        {SECOND}, {SECOND}, NULL, NULL, NULL, NULL, 1, '0.0.0', {_REST});
    INSERT INTO event_wait (workflow, position, name, event_key, mode, serial, since)
        VALUES (2, '0', 'positions.go', '', 'all', 3, {SECOND}), (1, '0.1.0', 'positions.go', 'k', 'all', 4, {SECOND});
    UPDATE meta SET serial = 4;
"""


@workflow(name="positions.child")
def child() -> Durable[int]:
    """Waits."""
    return (yield from go.wait())


@workflow(name="positions.parent")
def parent() -> Durable[list[object]]:
    """A child against an event, and another race after it."""
    won = yield from race(child=child(), event=go.wait("k"))
    again = yield from race(child=child(), event=go.wait("k"))
    return [won.key, again.key]


@pytest.mark.anyio
@pytest.mark.parametrize("winner", ["child", "event"])
async def test_runs_of_the_fourth_schema_keep_their_numbers(tmp_path: Path, winner: str) -> None:
    """No second child is started, the waits are the same ones, and the numbers stay to the end of the run."""
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        schema._migrations().apply(Database(connection), stop_before="m005_mail")
        connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 4")
        connection.execute("COMMIT")
        connection.executescript(_ROWS)
    async with WorkflowEngine(path, workflows=[parent, child]) as engine:
        assert [wait.position for wait in (await engine.runs.describe("p")).waits] == ["0.0.0", "0.1.0"]
        if winner == "child":
            await engine.send_event(go, 1, to="p/0.0.0")
        else:
            await engine.send_event(go, 1, to="p", key="k")
            assert await engine.query_status("p/0.0.0") is WorkflowStatus.CANCELLED
        assert (await engine.runs.describe("p")).children == ("p/1.0.0", "p/0.0.0")
        await engine.send_event(go, 1, to="p/1.0.0")
        assert await engine.handle("p").result(timeout=SOON) == [winner, "child"]
        await engine.start(parent(), id="q")
        assert (await engine.runs.describe("q")).children == ("q/0.child.0",)

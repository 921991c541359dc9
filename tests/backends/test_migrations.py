"""A file of an older durable opens, gets what it lacks, and keeps what it holds."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlite_utils import Database

from durable import Durable, Event, OnParentClose, WorkflowEngine, WorkflowStatus, publish, spawn, workflow
from durable.backends.base import (
    Batch,
    Children,
    OpenPauses,
    PendingEvents,
    ProgressOf,
    Schedules,
    Timers,
    WaitsOf,
    Workflows,
)
from durable.backends.sqlite import SqliteBackend, schema
from durable.model.clock import SECOND
from durable.model.records import PendingEvent, Question
from durable.model.timers import OF_WORKFLOW
from durable.testing.conformance.kit import by_place, wait
from tests.scenarios.kit import SOON

go = Event[int]("migrations.go")
# A workflow that waits for an event, and its parent, as rows of the first schema.
_REST = "0, NULL, 0, NULL, NULL, '[]', 1"
_ROWS = f"""
    INSERT INTO workflow VALUES (1, 'p', 'migrations.parent', 1, 'suspended', '{{}}', '',
        {SECOND}, {SECOND}, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, '[]', {_REST});
    INSERT INTO workflow VALUES (2, 'p/0', 'migrations.child', 1, 'suspended', '{{}}', '',
        {SECOND}, {SECOND}, NULL, NULL, NULL, NULL, 1, '0', 1, 0, '[]', {_REST});
    INSERT INTO event_wait VALUES (2, '0', 'migrations.go', '', 'all', 3, {SECOND});
    UPDATE meta SET serial = 3;
"""


@workflow(name="migrations.child")
def child() -> Durable[int]:
    """Waits."""
    return (yield from go.wait())


@workflow(name="migrations.parent")
def parent() -> Durable[list[int]]:
    """Waits for its child, then uses features that an older durable lacked."""
    first = yield from child()
    publish(first)
    handle = yield from spawn(child(), on_parent_close=OnParentClose.CANCEL)
    return [first, (yield from handle.result())]


def an_old_store(path: Path) -> None:
    """A file as the first version made it, with a parent and the child that it waits for."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        schema._migrations().apply(Database(connection), stop_before="m002_pauses")
        connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 1")
        connection.execute("COMMIT")
        connection.executescript(_ROWS)


def test_first_schema_is_brought_up_to_date(tmp_path: Path) -> None:
    """The rows are unchanged, nothing is spawned or published, and children are found by their parent."""
    path = tmp_path / "old.db"
    an_old_store(path)
    backend = SqliteBackend(path)
    assert backend.open("new").serial == 3
    old, young = backend.find(Workflows(limit=9))
    assert (old.id, young.id, young.parent_key, young.on_parent_close) == ("p", "p/0", 1, None)
    assert list(backend.find(Children(1))) == [young]
    assert list(backend.find(ProgressOf(1))) == []
    backend.close()
    with closing(sqlite3.connect(path)) as connection:
        assert schema.is_current(connection)


def test_first_schema_takes_pauses(tmp_path: Path) -> None:
    """The waits are unchanged, none of them is a pause, and pauses can be stored."""
    path = tmp_path / "old.db"
    an_old_store(path)
    backend = SqliteBackend(path)
    backend.open("new")
    (old,) = backend.find(WaitsOf(workflow_key=2))
    assert (old.name, old.serial, old.question) == ("migrations.go", 3, None)
    assert backend.find(OpenPauses(limit=9)) == []
    asked = wait(1, 4, "1", name="", question=Question('"sure?"', "bool"))
    backend.commit(Batch(number=1, waits_put=by_place(asked)))
    assert [pause.prompt for pause in backend.find(OpenPauses(limit=9))] == ["sure?"]
    backend.close()


def test_first_schema_takes_schedules(tmp_path: Path) -> None:
    """The timers are unchanged, and there is a table for schedules."""
    path = tmp_path / "old.db"
    an_old_store(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE workflow SET wake_at = 7 WHERE key = 1")
    backend = SqliteBackend(path)
    backend.open("new")
    assert backend.find(Timers(limit=9)) == [(7, OF_WORKFLOW, 1)]
    assert backend.find(Schedules(limit=9)) == []
    backend.close()


def test_first_schema_takes_traces(tmp_path: Path) -> None:
    """The workflows have no trace, and new events can have one."""
    path = tmp_path / "old.db"
    an_old_store(path)
    backend = SqliteBackend(path)
    backend.open("new")
    assert [record.trace for record in backend.find(Workflows(limit=9))] == [None, None]
    sent = PendingEvent(serial=4, name="traced", payload="1", sent_at=SECOND, trace="00-0a-0b-01")
    backend.commit(Batch(number=1, events_put={4: sent}))
    assert backend.find(PendingEvents(serial=4)) == [sent]
    backend.close()


@pytest.mark.anyio
async def test_workflows_of_the_first_schema_go_on(tmp_path: Path) -> None:
    """Workflows that an older durable left waiting continue, and can use every new feature."""
    path = tmp_path / "old.db"
    an_old_store(path)
    async with WorkflowEngine(path, workflows=[parent, child]) as engine:
        await engine.send_event(go, 5, to="p/0")
        assert await engine.handle("p").progress() == 5
        assert await engine.query_status("p/1") is WorkflowStatus.SUSPENDED
        await engine.send_event(go, 6, to="p/1")
        assert await engine.handle("p").result(timeout=SOON) == [5, 6]

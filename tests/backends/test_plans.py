"""Frequent queries use an index, without sorting and without reading a table."""

from __future__ import annotations

import pathlib
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from durable.backends.base import (
    Answers,
    AttachedTo,
    Backgrounds,
    ChildIds,
    Children,
    EventsFor,
    HistoryLength,
    KeptRequests,
    Letters,
    Mailbox,
    OpenPauses,
    PendingCount,
    PendingEvents,
    ProgressOf,
    Query,
    Schedules,
    Sent,
    StaleEvents,
    Suspects,
    Taken,
    TheseWorkflows,
    Timers,
    WaitsFor,
    WaitsOf,
    Workflows,
)
from durable.backends.sql import queries
from durable.backends.sqlite import schema
from durable.model.records import WorkflowStatus
from durable.model.timers import OF_SCHEDULE, OF_WORKFLOW, ScheduleKey

RUNNING, PARKED = WorkflowStatus.RUNNING, WorkflowStatus.PARKED


@pytest.fixture
def connection(tmp_path: pathlib.Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(tmp_path / "plans.db", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    schema.migrate(connection)
    connection.execute("COMMIT")
    yield connection
    connection.close()


def _plan(connection: sqlite3.Connection, sql: str, params: Any = ()) -> list[str]:
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", params)]


# For each query the index of each search in its plan.
HOT: list[tuple[Query[Any], list[str]]] = [
    (Timers(limit=9), ["workflow_wake", "schedule_wake"]),
    (Timers(after=(5, OF_WORKFLOW, 7), limit=9), ["workflow_wake"] * 2 + ["schedule_wake"] * 2),
    (Timers(after=(5, OF_SCHEDULE, ScheduleKey(-7)), limit=9), ["workflow_wake"] * 2 + ["schedule_wake"] * 2),
    (WaitsFor(name="a", event_key="", limit=9), ["event_wait_event"]),
    (WaitsOf(workflow_key=1), ["PRIMARY KEY"]),
    (OpenPauses(after=7, limit=9), ["event_wait_event", "PRIMARY KEY"]),
    (OpenPauses(name="a", limit=9), ["event_wait_event", "PRIMARY KEY"]),
    (EventsFor(name="a", event_key="", target=None, limit=9), ["pending_event_queue"]),
    (EventsFor(name="a", event_key="", target=1, after_serial=4, limit=9), ["pending_event_queue"]),
    (EventsFor(name="a", event_key="", target=None, consume=False, after_serial=4, limit=9), ["pending_event_queue"]),
    (PendingEvents(serial=4), ["PRIMARY KEY"]),
    (PendingEvents(after=4, limit=9), ["PRIMARY KEY"]),
    (PendingEvents(name="a", after=4, limit=9), ["PRIMARY KEY"]),
    (PendingEvents(name="a", target=1, after=4, limit=9), ["pending_event_target"]),
    (PendingEvents(unstarted="a", after=4, limit=9), ["pending_event_unstarted"]),
    (Taken(workflow_key=1), ["PRIMARY KEY"]),
    (Taken(workflow_key=1, name="a", event_key=""), ["PRIMARY KEY"]),
    (Mailbox(target=1, limit=9), ["pending_event_target"]),
    (Mailbox(unstarted="a", limit=9), ["pending_event_unstarted"]),
    (Workflows(statuses=(RUNNING,), limit=9), ["workflow_live"]),
    (Workflows(statuses=(RUNNING,), after=7, limit=9), ["workflow_live"]),
    (Workflows(statuses=(RUNNING, PARKED), after=7, limit=9), ["workflow_live"] * 2),
    (Workflows(statuses=(PARKED, RUNNING), newest_first=True, limit=9), ["workflow_live"] * 2),
    (Workflows(name="a", after=7, limit=9), ["workflow_name"]),
    (Workflows(tag="a", after=7, newest_first=True, limit=9), ["PRIMARY KEY", "PRIMARY KEY"]),
    (Workflows(after=7, limit=9), ["PRIMARY KEY"]),
    (Workflows(parent="a", after=7, newest_first=True, limit=9), ["workflow_parent", "sqlite_autoindex_workflow_1"]),
    (
        Workflows(parent="a", id_prefix="b", statuses=(RUNNING,), name="a", after=7, newest_first=True, limit=9),
        ["workflow_parent", "sqlite_autoindex_workflow_1"],
    ),
    (TheseWorkflows(ids=("a", "b")), ["sqlite_autoindex_workflow_1"]),
    (TheseWorkflows(keys=(1, 2)), ["PRIMARY KEY"]),
    (TheseWorkflows(ids=("a", "b"), keys=(1, 2)), ["sqlite_autoindex_workflow_1", "PRIMARY KEY"]),
    (AttachedTo((1, 2)), ["PRIMARY KEY", "PRIMARY KEY", "pending_event_target"]),
    (Letters(after=7, limit=9), ["PRIMARY KEY"]),
    (Letters(died_before=7, limit=9), ["dead_letter_died"]),
    (Sent(event_id="a"), ["PRIMARY KEY"]),
    (Sent(before=9, limit=9), ["sent_event_at"]),
    (Answers(request_id="a"), ["PRIMARY KEY"]),
    (Answers(before=9, limit=9), ["answer_at"]),
    (KeptRequests(after=4, limit=9), ["PRIMARY KEY"]),
    (Children(1), ["workflow_child"]),
    (ProgressOf(1), ["PRIMARY KEY"]),
    (ChildIds(1, 9), ["workflow_parent"]),
    (Backgrounds((1, 2)), ["PRIMARY KEY"] * 3),
    (Schedules(name="a"), ["sqlite_autoindex_schedule_1"]),
    (Schedules(key=ScheduleKey(-1)), ["PRIMARY KEY"]),
    (Schedules(after="a", limit=9), ["sqlite_autoindex_schedule_1"]),
]


@pytest.mark.parametrize(("query", "indexes"), HOT, ids=lambda value: type(value).__name__)
def test_hot_questions_use_their_index(connection: sqlite3.Connection, query: Query[Any], indexes: list[str]) -> None:
    """Each search of the plan goes through its index; nothing is scanned and nothing is sorted."""
    select = queries.select(query)
    plan = _plan(connection, select.sql, {**select.params, "limit": 9})
    searches = [line for line in plan if line.startswith("SEARCH")]
    assert len(searches) == len(indexes), plan
    assert all(index in line for index, line in zip(indexes, searches, strict=True)), plan
    scans = [line for line in plan if line.startswith("SCAN") and line != "SCAN asked VIRTUAL TABLE INDEX 1:"]
    assert not [*scans, *(line for line in plan if "TEMP B-TREE" in line)], plan


def test_every_question_is_in_the_list() -> None:
    """Every kind of query has a plan here."""
    # All suspects are read, once at every start.
    assert {type(query) for query, _ in HOT} | {StaleEvents, Suspects} == set(queries._SELECTS)


def test_pauses_of_one_workflow_are_found_by_it(connection: sqlite3.Connection) -> None:
    """Its few rows are found by its key and sorted; the pauses of other workflows are not read."""
    select = queries.select(OpenPauses(workflow_key=1, limit=9))
    plan = _plan(connection, select.sql, {**select.params, "limit": 9})
    assert [line for line in plan if line.startswith("SEARCH")] == [
        "SEARCH e USING PRIMARY KEY (workflow=?)", "SEARCH w USING INTEGER PRIMARY KEY (rowid=?)",
    ]  # fmt: skip


@pytest.mark.parametrize("more", [{}, {"name": "a"}, {"statuses": (RUNNING, PARKED)}, {"created_since": 5}])
def test_workflows_are_found_by_the_beginning_of_their_id(connection: sqlite3.Connection, more: Any) -> None:
    """Only ids that begin so are read, whatever other filters there are. Keys are sorted, and a page is read."""
    query = Workflows(id_prefix="order-", after=7, newest_first=True, limit=9, **more)
    select = queries.select(query)
    plan = _plan(connection, select.sql, {**select.params, "limit": 9})
    rows, search = [line for line in plan if line.startswith("SEARCH")]
    assert "PRIMARY KEY (rowid=?)" in rows, plan
    assert "sqlite_autoindex_workflow_1 (id>? AND id<?)" in search, plan
    assert ("COVERING" in search) is (not more), plan
    (counted,) = _plan(connection, *queries.count(query))
    assert "sqlite_autoindex_workflow_1 (id>? AND id<?)" in counted


def test_stale_events_read_no_table(connection: sqlite3.Connection) -> None:
    """The sweep finds its few through two indexes; a store full of fresh events costs it nothing."""
    select = queries.select(StaleEvents(expired_at=1, since_before=1, limit=9))
    plan = _plan(connection, select.sql, {**select.params, "limit": 9})
    assert any("pending_event_expiry" in line for line in plan), plan
    assert any("pending_event_since" in line for line in plan), plan
    assert not [line for line in plan if line.startswith("SCAN pending_event")], plan


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (PendingCount(name="a"), "COVERING INDEX pending_event_open"),
        (PendingCount(name="a", taken=True), "COVERING INDEX pending_event_open"),
        (PendingCount(target=1), "COVERING INDEX pending_event_target"),
        (PendingCount(unstarted="a"), "COVERING INDEX pending_event_unstarted"),
        (PendingCount(), "COVERING INDEX pending_event_unstarted"),
        (Workflows(statuses=(RUNNING, PARKED), limit=9), "COVERING INDEX workflow_live"),
        (Workflows(name="a", limit=9), "COVERING INDEX workflow_name"),
        (HistoryLength(1), "PRIMARY KEY (workflow=?)"),
    ],
)
def test_counts_read_only_an_index(
    connection: sqlite3.Connection, query: Workflows | PendingCount | HistoryLength, index: str
) -> None:
    """Counting does not read the rows."""
    plan = _plan(connection, *queries.count(query))
    assert len(plan) == 1
    assert index in plan[0]


@pytest.mark.parametrize(
    ("sql", "index"),
    [
        ("SELECT * FROM workflow WHERE id = ?", "sqlite_autoindex_workflow_1"),
        ("SELECT * FROM workflow WHERE key = ?", "PRIMARY KEY"),
        ("SELECT * FROM history WHERE workflow = ? ORDER BY seq", "PRIMARY KEY"),
        ("DELETE FROM history WHERE workflow = ?", "PRIMARY KEY"),
        ("DELETE FROM event_wait WHERE workflow = ?", "PRIMARY KEY"),
        ("DELETE FROM pending_event WHERE target = ?", "pending_event_target"),
        ("DELETE FROM workflow_tag WHERE workflow = ?", "workflow_tag_workflow"),
        ("DELETE FROM progress WHERE workflow = ?", "PRIMARY KEY"),
    ],
)
def test_rows_of_one_workflow_are_found_by_index(connection: sqlite3.Connection, sql: str, index: str) -> None:
    """Loading and purging one workflow does not depend on the number of other workflows."""
    plan = _plan(connection, sql, (1,))
    assert len(plan) == 1
    assert index in plan[0]


def test_the_status_index_leaves_out_the_many(connection: sqlite3.Connection) -> None:
    """Sleeping and finished workflows are in no index by status and, without a deadline, in none by time."""
    partial = dict(
        connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql LIKE '%WHERE%'")
    )
    assert partial["workflow_live"].endswith("WHERE status = 'running' OR status = 'parked'")
    assert partial["workflow_wake"].endswith("WHERE wake_at IS NOT NULL")
    tied = "WHERE parent_key IS NOT NULL AND finished_at IS NULL AND on_parent_close IS NOT 'keep'"
    assert partial["workflow_child"].endswith(tied)

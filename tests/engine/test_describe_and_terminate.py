"""Descriptions and terminations of workflows that cannot be read or must not be rebuilt, and of great families."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from durable import Durable, ParkReason, WorkflowStatus, gather, workflow
from durable.backends.base import Workflows
from durable.backends.sqlite import SqliteBackend
from durable.engine.config import EngineConfig
from durable.engine.operations import DescribeWorkflow, ExpireWorkflows, ListWorkflows, RetryWorkflow, TerminateWorkflow
from tests.engine.desk import Desk, call_of
from tests.engine.flows import EVERY, clean, go, parent_of_waiter, waiter, work


@workflow(name="looking.pays")
def pays() -> Durable[None]:
    """A step with an undo, and a wait."""
    yield from work(1).undo(lambda _: clean())
    yield from gather(go.wait(), work(2))


@workflow(name="looking.large")
def large() -> Durable[None]:
    """More children than a description names."""
    yield from gather(*(waiter() for _ in range(120)))


def test_unreadable_history_is_a_problem_and_no_end(tmp_path: Path) -> None:
    """A damaged entry is told by a description; a terminate says that nobody knows what was owed."""
    path = tmp_path / "store.db"
    desk = Desk(pays, *EVERY, make=lambda: SqliteBackend(path))
    desk.start(pays())
    desk.finish(desk.activities[0], 1)
    desk.restart(pays, *EVERY, recover=False)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE history SET kind = 'no such kind'")
    desk.checks = False
    found = desk.do(DescribeWorkflow("w"))
    assert "no such kind" in (found.problem or "")
    assert found.summary.status is WorkflowStatus.RUNNING
    assert desk.do(TerminateWorkflow("w")) is True
    (undo,) = desk.do(DescribeWorkflow("w")).failed_undos
    assert "no such kind" in undo.message
    desk.backend.close()


def test_retention_takes_an_ended_workflow_whose_row_is_damaged(tmp_path: Path) -> None:
    """A damaged row goes by its age if the run had ended and its end can be read."""
    path = tmp_path / "store.db"
    config = EngineConfig(retention=60)
    desk = Desk(*EVERY, make=lambda: SqliteBackend(path), config=config, checks=False)
    for id in ("a", "b"):
        desk.start(waiter(), id)
        desk.send(go, 1, to=id)
    desk.restart(*EVERY, recover=False)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE workflow SET tags = '{'")
        connection.execute("UPDATE workflow SET finished_at = -1 << 62 WHERE id = 'b'")
    desk.clock.advance(3600)
    assert desk.do(ExpireWorkflows()) == 1
    assert [record.id for record in desk.backend.find(Workflows(limit=9))] == ["b"]
    desk.backend.close()


def test_terminate_of_a_crashed_workflow_does_not_rebuild_it() -> None:
    """What took the process down is not tried out to see what it owes; that is said."""
    desk = Desk(pays, *EVERY, config=EngineConfig(max_crashes=1))
    desk.start(pays())
    desk.finish(desk.activities[0], 1)
    desk.state.mark[0] = desk.record().key
    desk.restart(pays, *EVERY, clean=False)
    assert desk.record().park_reason is ParkReason.CRASHED
    assert desk.do(TerminateWorkflow("w")) is True
    (undo,) = desk.do(DescribeWorkflow("w")).failed_undos
    assert "while its body ran" in undo.message


def test_kept_cancel_is_progress() -> None:
    """A suspect that hears of its cancellation has shown that it does not take the process down."""
    desk = Desk(pays, *EVERY, config=EngineConfig(max_crashes=2))
    desk.start(pays())
    desk.finish(desk.activities[0], 1)
    desk.restart(*EVERY)
    desk.cancel()
    desk.restart(pays, *EVERY, clean=False)
    desk.settle()
    assert (desk.record().crashes, desk.record().cancel_pending) == (0, False)
    (undo,) = desk.activities
    assert undo.definition is clean


@pytest.mark.parametrize("how", ["in one batch", "afterwards"])
def test_a_great_family_is_cut(how: str) -> None:
    """A description names a hundred children, also of those that begin in the same batch."""
    desk = Desk(large, *EVERY)
    operations = [call_of(large(), "w"), DescribeWorkflow("w")]
    replies = desk.two(operations[0], operations[1], together=how == "in one batch")
    assert len(replies[1].children) == 100
    assert replies[1].children[0] == "w/0.119.0"


def test_nothing_to_list_is_an_empty_page() -> None:
    """A page without workflows is empty."""
    assert Desk(*EVERY).do(ListWorkflows(Workflows(limit=9))) == []


def test_retry_of_a_crashed_workflow_with_a_kept_cancel() -> None:
    """The retry tells the body of the cancellation before it does anything else."""
    desk = Desk(pays, *EVERY, config=EngineConfig(max_crashes=1))
    desk.start(pays())
    desk.finish(desk.activities[0], 1)
    desk.state.mark[0] = desk.record().key
    desk.restart(pays, *EVERY, clean=False)
    desk.cancel(reason="why")
    desk.do(RetryWorkflow("w"))
    desk.settle()
    (undo,) = desk.activities
    desk.finish(undo)
    assert (desk.status(), desk.record().cancel_reason) == (WorkflowStatus.CANCELLED, "why")


def test_parent_is_described_while_its_child_runs() -> None:
    """Rebuilding a parent to describe it neither starts nor ends its child."""
    desk = Desk(*EVERY)
    desk.start(parent_of_waiter())
    desk.restart(*EVERY)
    rows = desk.rows()
    desk.do(DescribeWorkflow("w"))
    assert desk.rows() == rows
    desk.send(go, 5, to="w/0")
    assert desk.result() == 5

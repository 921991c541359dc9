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
from tests.engine.direct import DirectEngine, call_of
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
    engine = DirectEngine(pays, *EVERY, make=lambda: SqliteBackend(path))
    engine.start(pays())
    engine.finish(engine.activities[0], 1)
    engine.restart(pays, *EVERY, recover=False)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE history SET kind = 'no such kind'")
    engine.checks = False
    found = engine.do(DescribeWorkflow("w"))
    assert "no such kind" in (found.problem or "")
    assert found.summary.status is WorkflowStatus.RUNNING
    assert engine.do(TerminateWorkflow("w")) is True
    (undo,) = engine.do(DescribeWorkflow("w")).failed_undos
    assert "no such kind" in undo.message
    engine.backend.close()


def test_retention_takes_an_ended_workflow_whose_row_is_damaged(tmp_path: Path) -> None:
    """A damaged row goes by its age if the run had ended and its end can be read."""
    path = tmp_path / "store.db"
    config = EngineConfig(retention=60)
    engine = DirectEngine(*EVERY, make=lambda: SqliteBackend(path), config=config, checks=False)
    for id in ("a", "b"):
        engine.start(waiter(), id)
        engine.send(go, 1, to=id)
    engine.restart(*EVERY, recover=False)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE workflow SET tags = '{'")
        connection.execute("UPDATE workflow SET finished_at = -1 << 62 WHERE id = 'b'")
    engine.clock.advance(3600)
    assert engine.do(ExpireWorkflows()) == 1
    assert [record.id for record in engine.backend.find(Workflows(limit=9))] == ["b"]
    engine.backend.close()


def test_terminate_of_a_crashed_workflow_does_not_rebuild_it() -> None:
    """What took the process down is not tried out to see what it owes; that is said."""
    engine = DirectEngine(pays, *EVERY, config=EngineConfig(max_crashes=1))
    engine.start(pays())
    engine.finish(engine.activities[0], 1)
    engine.state.mark[0] = engine.record().key
    engine.restart(pays, *EVERY, clean=False)
    assert engine.record().park_reason is ParkReason.CRASHED
    assert engine.do(TerminateWorkflow("w")) is True
    (undo,) = engine.do(DescribeWorkflow("w")).failed_undos
    assert "while its body ran" in undo.message


def test_kept_cancel_is_progress() -> None:
    """A suspect that hears of its cancellation has shown that it does not take the process down."""
    engine = DirectEngine(pays, *EVERY, config=EngineConfig(max_crashes=2))
    engine.start(pays())
    engine.finish(engine.activities[0], 1)
    engine.restart(*EVERY)
    engine.cancel()
    engine.restart(pays, *EVERY, clean=False)
    engine.settle()
    assert (engine.record().crashes, engine.record().cancel_pending) == (0, False)
    (undo,) = engine.activities
    assert undo.definition is clean


@pytest.mark.parametrize("how", ["in one batch", "afterwards"])
def test_a_great_family_is_cut(how: str) -> None:
    """A description names a hundred children, also of those that begin in the same batch."""
    engine = DirectEngine(large, *EVERY)
    operations = [call_of(large(), "w"), DescribeWorkflow("w")]
    replies = engine.two(operations[0], operations[1], together=how == "in one batch")
    assert len(replies[1].children) == 100
    assert replies[1].children[0] == "w/0.119.0"


def test_nothing_to_list_is_an_empty_page() -> None:
    """A page without workflows is empty."""
    assert DirectEngine(*EVERY).do(ListWorkflows(Workflows(limit=9))) == []


def test_retry_of_a_crashed_workflow_with_a_kept_cancel() -> None:
    """The retry tells the body of the cancellation before it does anything else."""
    engine = DirectEngine(pays, *EVERY, config=EngineConfig(max_crashes=1))
    engine.start(pays())
    engine.finish(engine.activities[0], 1)
    engine.state.mark[0] = engine.record().key
    engine.restart(pays, *EVERY, clean=False)
    engine.cancel(reason="why")
    engine.do(RetryWorkflow("w"))
    engine.settle()
    (undo,) = engine.activities
    engine.finish(undo)
    assert (engine.status(), engine.record().cancel_reason) == (WorkflowStatus.CANCELLED, "why")


def test_parent_is_described_while_its_child_runs() -> None:
    """Rebuilding a parent to describe it neither starts nor ends its child."""
    engine = DirectEngine(*EVERY)
    engine.start(parent_of_waiter())
    engine.restart(*EVERY)
    rows = engine.rows()
    engine.do(DescribeWorkflow("w"))
    assert engine.rows() == rows
    engine.send(go, 5, to="w/0")
    assert engine.result() == 5

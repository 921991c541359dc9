"""Describing and terminating workflows that are unreadable, must not be rebuilt, or have many children."""

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
    """Does a step with an undo, then waits."""
    yield from work(1).undo(lambda _: clean())
    yield from gather(go.wait(), work(2))


@workflow(name="looking.large")
def large() -> Durable[None]:
    """Starts more children than a description names."""
    yield from gather(*(waiter() for _ in range(120)))


def test_unreadable_history_is_reported(tmp_path: Path) -> None:
    """A description reports a damaged entry, and a terminate reports that the owed undos are unknown."""
    path = tmp_path / "store.db"
    engine = DirectEngine(pays, *EVERY, make=lambda: SqliteBackend(path))
    engine.start(pays())
    engine.finish(engine.activities[0], 1)
    engine.restart(pays, *EVERY, recover=False)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE history SET kind = 'no such kind'")
    engine.checks = False
    description = engine.do(DescribeWorkflow("w"))
    assert "no such kind" in (description.problem or "")
    assert description.summary.status is WorkflowStatus.RUNNING
    assert engine.do(TerminateWorkflow("w")) is True
    (undo,) = engine.do(DescribeWorkflow("w")).failed_undos
    assert "no such kind" in undo.message
    engine.backend.close()


def test_retention_takes_an_ended_workflow_whose_row_is_damaged(tmp_path: Path) -> None:
    """Retention deletes a damaged row if the run has ended and its end time is readable."""
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
    """Terminate does not rebuild a workflow that crashed the process, and reports that its undos are unknown."""
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
    """A suspect that survives its kept cancel is acquitted."""
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
def test_description_names_a_hundred_children(how: str) -> None:
    """A description names the newest hundred children, even if they start in the same batch."""
    engine = DirectEngine(large, *EVERY)
    operations = [call_of(large(), "w"), DescribeWorkflow("w")]
    replies = engine.two(operations[0], operations[1], together=how == "in one batch")
    assert len(replies[1].children) == 100
    assert replies[1].children[0] == "w/0.119.0"


def test_nothing_to_list_is_an_empty_page() -> None:
    """A list without workflows is empty."""
    assert DirectEngine(*EVERY).do(ListWorkflows(Workflows(limit=9))) == []


def test_retry_of_a_crashed_workflow_with_a_kept_cancel() -> None:
    """A retry raises the kept cancel before the body does anything else."""
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

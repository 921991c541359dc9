"""What an operator can query, and what a purge removes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from durable import Durable, WorkflowNotFound, WorkflowStatus, gather, sleep, spawn, workflow
from durable.backends.base import Workflows
from durable.engine import operations as ops
from durable.engine.decide.queries import Pending
from durable.engine.operations import (
    AwaitEnd,
    CountWorkflows,
    DescribeWorkflow,
    FindWorkflow,
    ListWorkflows,
    PurgeWorkflows,
    ReadHistory,
)
from durable.engine.operations.views import WorkflowSummary
from durable.model.clock import to_datetime
from durable.testing.clock import NOON
from tests.engine.direct import DirectEngine, call_of, refusal
from tests.engine.flows import EVERY, go, late_waiter, nothing, parent, parent_of_nothing, sleeper, waiter, work, worker


@workflow(name="questions.busy")
def busy() -> Durable[None]:
    """Waits for four kinds of things at once."""
    yield from gather(work(1), go.wait("k"), sleep(60), waiter())


def test_find() -> None:
    """A workflow is found by its id; an unknown id finds None."""
    engine = DirectEngine(*EVERY)
    engine.start(worker())
    record = engine.do(FindWorkflow("w"))
    assert record is not None
    assert record.status is WorkflowStatus.RUNNING
    assert engine.do(FindWorkflow("x")) is None


def test_await_end() -> None:
    """Awaiting the end of a running workflow is pending. If it has ended, the answer is its record."""
    engine = DirectEngine(*EVERY)
    engine.start(waiter())
    assert engine.batch(AwaitEnd("w")) == [Pending(engine.record().key)]
    engine.send(go, 1)
    assert engine.do(AwaitEnd("w")).result == "1"


@pytest.mark.parametrize("op", [AwaitEnd("x"), ReadHistory("x"), DescribeWorkflow("x")])
def test_questions_about_an_unknown_id(op: AwaitEnd) -> None:
    """A question about an unknown id is refused."""
    assert refusal(DirectEngine(*EVERY).batch(op)[0]) == (WorkflowNotFound, "x")


def test_describe_names_the_open_waits() -> None:
    """A description names every open wait with its kind, start, deadline and source line."""
    engine = DirectEngine(busy, *EVERY)
    engine.start(busy())
    waits = {wait.kind: wait for wait in engine.do(DescribeWorkflow("w")).waits}
    assert {kind: wait.name for kind, wait in waits.items()} == {
        "activity": "engine.work",
        "event": "go[k]",
        "timer": "timer",
        "child": "engine.waiter",
    }
    assert waits["timer"].until == NOON + timedelta(seconds=60)
    assert {wait.since for wait in waits.values()} == {NOON}
    assert all("test_questions.py:" in (wait.source or "") for wait in waits.values())


def test_describe_shows_the_attempt() -> None:
    """For an activity that failed, a description shows the attempt, the last error and the time of the next attempt."""
    engine = DirectEngine(*EVERY)
    engine.start(worker())
    engine.clock.advance(5)
    engine.fail(engine.activities[0], OSError("broken"))
    description = engine.do(DescribeWorkflow("w"))
    (wait,) = description.waits
    assert (wait.attempt, wait.last_error) == (2, "builtins.OSError: broken")
    assert wait.until == description.summary.wake_at == NOON + timedelta(seconds=15)
    assert wait.since == NOON
    assert description.history_length == 1


def test_describe_of_an_evicted_workflow() -> None:
    """An evicted workflow is described like one in memory."""
    engine = DirectEngine(*EVERY)
    engine.start(late_waiter())
    engine.finish(engine.activities[0], 1)
    before = engine.do(DescribeWorkflow("w"))
    engine.restart(*EVERY)
    assert engine.do(DescribeWorkflow("w")) == before


def test_describe_of_other_states() -> None:
    """Delayed, parked and ended workflows are described without their bodies."""
    engine = DirectEngine(*EVERY)
    engine.start(worker(), "delayed", delay=60)
    engine.start(worker(), "parked")
    engine.start(nothing(), "ended")
    engine.start(waiter(), "cancelling")
    engine.restart(nothing)
    described = {id: engine.do(DescribeWorkflow(id)) for id in ("delayed", "parked", "ended")}
    assert [description.waits for description in described.values()] == [(), (), ()]
    assert described["delayed"].summary.wake_at == NOON + timedelta(seconds=60)
    assert described["parked"].park_reason is not None
    assert "import the module" in (described["parked"].summary.parked or "")
    assert described["ended"].summary.finished_at == NOON


def test_summary_shows_the_record() -> None:
    """A summary shows the public fields of a record."""
    engine = DirectEngine(*EVERY)
    engine.start(worker(), tags=("red",))
    record = engine.record()
    summary = WorkflowSummary.of(record)
    assert (summary.id, summary.name, summary.status, summary.tags) == ("w", "engine.worker", record.status, ("red",))
    assert summary.created_at == to_datetime(record.created_at)
    assert (summary.finished_at, summary.wake_at, summary.parked) == (None, None, None)


def test_list_and_count() -> None:
    """Workflows are listed by status, name, tag and age, page by page, and counted."""
    engine = DirectEngine(*EVERY)
    for number in range(3):
        engine.start(worker(), f"w{number}", tags=("odd",) if number % 2 else ())
        engine.clock.advance(1)
    engine.start(nothing(), "done")
    query = Workflows(name="engine.worker", newest_first=True, limit=2)
    first = engine.do(ListWorkflows(query))
    second = engine.do(ListWorkflows(query, first[-1].id))
    assert [record.id for record in (*first, *second)] == ["w2", "w1", "w0"]
    assert engine.do(CountWorkflows(Workflows(tag="odd", limit=1))) == 1
    assert engine.do(CountWorkflows(Workflows(statuses=(WorkflowStatus.SUCCEEDED,), limit=1))) == 1
    since = engine.record("w1").created_at
    assert [record.id for record in engine.do(ListWorkflows(Workflows(created_since=since, limit=9)))] == [
        "w1",
        "w2",
        "done",
    ]
    assert refusal(engine.batch(ListWorkflows(query, "nobody"))[0]) == (WorkflowNotFound, "nobody")


def test_history() -> None:
    """The history of a workflow holds the entries of its current round, in order."""
    engine = DirectEngine(*EVERY)
    engine.start(late_waiter())
    engine.finish(engine.activities[0], 1)
    engine.send(go, 2)
    assert [(entry.seq, entry.name, entry.outcome) for entry in engine.do(ReadHistory("w"))] == [
        (1, "engine.work", "1"),
        (2, "go", "2"),
    ]


def test_purge_removes_what_ended_long_ago() -> None:
    """A purge removes ended workflows with all their rows, keeps younger ones, and stops at its limit."""
    engine = DirectEngine(*EVERY)
    for number in range(3):
        engine.start(nothing(), f"old {number}")
    engine.start(worker(), "running")
    engine.clock.advance(10)
    before = engine.clock.now()
    engine.start(nothing(), "young")
    assert [engine.do(PurgeWorkflows(before, limit=2)) for _ in range(3)] == [2, 1, 0]
    assert engine.do(FindWorkflow("old 0")) is None
    assert {record.id for record in engine.backend.find(Workflows(limit=9))} == {"running", "young"}


def test_purged_id_can_be_used_again() -> None:
    """After a purge the id is free, and nothing of the old workflow is left."""
    engine = DirectEngine(*EVERY)
    engine.start(late_waiter())
    engine.finish(engine.activities[0], 1)
    engine.send(go, 2)
    old = engine.record().key
    engine.clock.advance(1)
    engine.do(PurgeWorkflows(engine.clock.now()))
    engine.start(sleeper())
    assert engine.record().key != old
    assert engine.history() == []


def test_purge_keeps_children_of_unfinished_parents() -> None:
    """An ended child is kept until its parent ends, because the parent may still read its result."""
    engine = DirectEngine(*EVERY)
    engine.start(parent_of_nothing(), "done")

    @workflow(name="questions.family")
    def family() -> Durable[int]:
        first = yield from nothing(4)
        yield from sleep(100)
        return first

    engine.start(family())
    engine.clock.advance(1)
    assert engine.do(PurgeWorkflows(engine.clock.now())) == 2
    assert engine.do(FindWorkflow("w/0")) is not None
    engine.restart(family, *EVERY)
    engine.advance(100)
    assert engine.result() == 4
    engine.clock.advance(1)
    assert engine.do(PurgeWorkflows(engine.clock.now())) == 2
    assert engine.rows() == 0


def test_purge_of_a_child_whose_parent_is_gone() -> None:
    """A child whose parent was already purged is purged like any other."""
    engine = DirectEngine(*EVERY)
    engine.start(parent(60))
    engine.advance(60)
    engine.clock.advance(1)
    assert engine.do(PurgeWorkflows(engine.clock.now(), limit=1)) == 1
    assert engine.do(PurgeWorkflows(engine.clock.now(), limit=1)) == 1
    assert engine.rows() == 0


def test_purge_removes_children_of_earlier_rounds() -> None:
    """A parent that always continues does not keep children of its earlier rounds from being purged."""

    @workflow(name="questions.endless")
    def endless() -> Durable[None]:
        yield from nothing()
        yield from spawn(nothing())
        yield from go.wait()
        raise endless.continue_as()

    engine = DirectEngine(*EVERY, endless)
    engine.start(endless())
    for _ in range(3):
        engine.send(go, 1, to="w")
        engine.settle()
    engine.clock.advance(1)
    assert engine.do(PurgeWorkflows(engine.clock.now())) == 6
    kept = [record.id for record in engine.backend.find(Workflows(limit=9))]
    assert kept == ["w", "w/3:0", "w/3:1"]


def test_start_after_the_purge_of_its_id_in_one_batch() -> None:
    """A workflow that starts in the batch that purges its predecessor is a new one, and stays."""
    engine = DirectEngine(*EVERY)
    engine.start(waiter())
    engine.cancel()
    engine.advance(60)
    _, begun = engine.two(ops.PurgeWorkflows(engine.clock.now()), call_of(waiter(), "w"), together=True)
    assert begun.status is WorkflowStatus.RUNNING
    assert engine.status() is WorkflowStatus.SUSPENDED


def test_purge_skips_children_of_unfinished_parents() -> None:
    """A purge skips ended children of unfinished parents, and reaches the workflows after them."""

    @workflow(name="questions.family")
    def family() -> Durable[None]:
        for _ in range(3):
            yield from nothing()
        yield from go.wait()

    engine = DirectEngine(*EVERY, family)
    engine.start(family())
    engine.start(nothing(), "old")
    engine.clock.advance(100)
    assert engine.do(ops.PurgeWorkflows(engine.clock.now(), limit=3)) > 0

"""What an operator can ask, and what a purge removes."""

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
from tests.engine.desk import Desk, call_of, refusal
from tests.engine.flows import EVERY, go, late_waiter, nothing, parent, parent_of_nothing, sleeper, waiter, work, worker


@workflow(name="questions.busy")
def busy() -> Durable[None]:
    """Waits for four kinds of things at once."""
    yield from gather(work(1), go.wait("k"), sleep(60), waiter())


def test_find() -> None:
    """A workflow is found by its id, or not."""
    desk = Desk(*EVERY)
    desk.start(worker())
    found = desk.do(FindWorkflow("w"))
    assert found is not None
    assert found.status is WorkflowStatus.RUNNING
    assert desk.do(FindWorkflow("x")) is None


def test_await_end() -> None:
    """The end of a workflow that goes on is a promise; that of one that has ended is its record."""
    desk = Desk(*EVERY)
    desk.start(waiter())
    assert desk.batch(AwaitEnd("w")) == [Pending(desk.record().key)]
    desk.send(go, 1)
    assert desk.do(AwaitEnd("w")).result == "1"


@pytest.mark.parametrize("op", [AwaitEnd("x"), ReadHistory("x"), DescribeWorkflow("x")])
def test_questions_about_nobody(op: AwaitEnd) -> None:
    """A question about an id that nobody has is refused."""
    assert refusal(Desk(*EVERY).batch(op)[0]) == (WorkflowNotFound, "x")


def test_describe_says_what_it_waits_for() -> None:
    """A description names every open wait with its kind, since when, until when, and its source line."""
    desk = Desk(busy, *EVERY)
    desk.start(busy())
    waits = {wait.kind: wait for wait in desk.do(DescribeWorkflow("w")).waits}
    assert {kind: wait.name for kind, wait in waits.items()} == {
        "activity": "desk.work",
        "event": "go[k]",
        "timer": "timer",
        "child": "desk.waiter",
    }
    assert waits["timer"].until == NOON + timedelta(seconds=60)
    assert {wait.since for wait in waits.values()} == {NOON}
    assert all("test_questions.py:" in (wait.source or "") for wait in waits.values())


def test_describe_says_the_attempt() -> None:
    """Of an activity that has failed a description says the attempt, the last error and the next time."""
    desk = Desk(*EVERY)
    desk.start(worker())
    desk.clock.advance(5)
    desk.fail(desk.activities[0], OSError("broken"))
    found = desk.do(DescribeWorkflow("w"))
    (wait,) = found.waits
    assert (wait.attempt, wait.last_error) == (2, "builtins.OSError: broken")
    assert wait.until == found.summary.wake_at == NOON + timedelta(seconds=15)
    assert wait.since == NOON
    assert found.history_length == 1


def test_describe_rebuilds_what_is_not_in_memory() -> None:
    """A workflow that is not in memory is described like one that is."""
    desk = Desk(*EVERY)
    desk.start(late_waiter())
    desk.finish(desk.activities[0], 1)
    before = desk.do(DescribeWorkflow("w"))
    desk.restart(*EVERY)
    assert desk.do(DescribeWorkflow("w")) == before


def test_describe_of_other_states() -> None:
    """Delayed, parked and ended workflows are described without their bodies."""
    desk = Desk(*EVERY)
    desk.start(worker(), "delayed", delay=60)
    desk.start(worker(), "parked")
    desk.start(nothing(), "ended")
    desk.start(waiter(), "cancelling")
    desk.restart(nothing)
    found = {id: desk.do(DescribeWorkflow(id)) for id in ("delayed", "parked", "ended")}
    assert [one.waits for one in found.values()] == [(), (), ()]
    assert found["delayed"].summary.wake_at == NOON + timedelta(seconds=60)
    assert found["parked"].park_reason is not None
    assert "import the module" in (found["parked"].summary.parked or "")
    assert found["ended"].summary.finished_at == NOON


def test_summary_shows_the_record() -> None:
    """A summary is the public face of a record."""
    desk = Desk(*EVERY)
    desk.start(worker(), tags=("red",))
    record = desk.record()
    summary = WorkflowSummary.of(record)
    assert (summary.id, summary.name, summary.status, summary.tags) == ("w", "desk.worker", record.status, ("red",))
    assert summary.created_at == to_datetime(record.created_at)
    assert (summary.finished_at, summary.wake_at, summary.parked) == (None, None, None)


def test_list_and_count() -> None:
    """Workflows are listed by status, name, tag and age, page by page, and counted."""
    desk = Desk(*EVERY)
    for number in range(3):
        desk.start(worker(), f"w{number}", tags=("odd",) if number % 2 else ())
        desk.clock.advance(1)
    desk.start(nothing(), "done")
    query = Workflows(name="desk.worker", newest_first=True, limit=2)
    first = desk.do(ListWorkflows(query))
    second = desk.do(ListWorkflows(query, first[-1].id))
    assert [record.id for record in (*first, *second)] == ["w2", "w1", "w0"]
    assert desk.do(CountWorkflows(Workflows(tag="odd", limit=1))) == 1
    assert desk.do(CountWorkflows(Workflows(statuses=(WorkflowStatus.SUCCEEDED,), limit=1))) == 1
    since = desk.record("w1").created_at
    assert [record.id for record in desk.do(ListWorkflows(Workflows(created_since=since, limit=9)))] == [
        "w1",
        "w2",
        "done",
    ]
    assert refusal(desk.batch(ListWorkflows(query, "nobody"))[0]) == (WorkflowNotFound, "nobody")


def test_history() -> None:
    """The history of a workflow is what it has learnt in this round, in order."""
    desk = Desk(*EVERY)
    desk.start(late_waiter())
    desk.finish(desk.activities[0], 1)
    desk.send(go, 2)
    assert [(entry.seq, entry.name, entry.outcome) for entry in desk.do(ReadHistory("w"))] == [
        (1, "desk.work", "1"),
        (2, "go", "2"),
    ]


def test_purge_removes_what_ended_long_ago() -> None:
    """A purge removes ended workflows with all their rows, keeps younger ones, and is bounded."""
    desk = Desk(*EVERY)
    for number in range(3):
        desk.start(nothing(), f"old {number}")
    desk.start(worker(), "running")
    desk.clock.advance(10)
    before = desk.clock.now()
    desk.start(nothing(), "young")
    assert [desk.do(PurgeWorkflows(before, limit=2)) for _ in range(3)] == [2, 1, 0]
    assert desk.do(FindWorkflow("old 0")) is None
    assert {record.id for record in desk.backend.find(Workflows(limit=9))} == {"running", "young"}


def test_purged_id_can_be_used_again() -> None:
    """After a purge the id is free, and nothing of the old workflow is left."""
    desk = Desk(*EVERY)
    desk.start(late_waiter())
    desk.finish(desk.activities[0], 1)
    desk.send(go, 2)
    old = desk.record().key
    desk.clock.advance(1)
    desk.do(PurgeWorkflows(desk.clock.now()))
    desk.start(sleeper())
    assert desk.record().key != old
    assert desk.history() == []


def test_purge_spares_the_children_of_the_living() -> None:
    """A child that has ended is kept as long as its parent has not: it may still ask for the result."""
    desk = Desk(*EVERY)
    desk.start(parent_of_nothing(), "done")

    @workflow(name="questions.family")
    def family() -> Durable[int]:
        first = yield from nothing(4)
        yield from sleep(100)
        return first

    desk.start(family())
    desk.clock.advance(1)
    assert desk.do(PurgeWorkflows(desk.clock.now())) == 2
    assert desk.do(FindWorkflow("w/0")) is not None
    desk.restart(family, *EVERY)
    desk.advance(100)
    assert desk.result() == 4
    desk.clock.advance(1)
    assert desk.do(PurgeWorkflows(desk.clock.now())) == 2
    assert desk.rows() == 0


def test_purge_of_a_child_whose_parent_is_gone() -> None:
    """A child whose parent was purged before is purged like any other."""
    desk = Desk(*EVERY)
    desk.start(parent(60))
    desk.advance(60)
    desk.clock.advance(1)
    assert desk.do(PurgeWorkflows(desk.clock.now(), limit=1)) == 1
    assert desk.do(PurgeWorkflows(desk.clock.now(), limit=1)) == 1
    assert desk.rows() == 0


def test_purge_takes_the_children_of_rounds_that_are_over() -> None:
    """A parent that goes on for ever as another round keeps no child of an earlier one from being purged."""

    @workflow(name="questions.endless")
    def endless() -> Durable[None]:
        yield from nothing()
        yield from spawn(nothing())
        yield from go.wait()
        raise endless.continue_as()

    desk = Desk(*EVERY, endless)
    desk.start(endless())
    for _ in range(3):
        desk.send(go, 1, to="w")
        desk.settle()
    desk.clock.advance(1)
    assert desk.do(PurgeWorkflows(desk.clock.now())) == 6
    kept = [record.id for record in desk.backend.find(Workflows(limit=9))]
    assert kept == ["w", "w/3:0", "w/3:1"]


def test_start_after_the_purge_of_its_id_in_one_batch() -> None:
    """A workflow that begins in the batch that purges its namesake is a new one, and stays."""
    desk = Desk(*EVERY)
    desk.start(waiter())
    desk.cancel()
    desk.advance(60)
    _, begun = desk.two(ops.PurgeWorkflows(desk.clock.now()), call_of(waiter(), "w"), together=True)
    assert begun.status is WorkflowStatus.RUNNING
    assert desk.status() is WorkflowStatus.SUSPENDED


def test_purge_gets_past_children_of_living_parents() -> None:
    """Ended children whose parent lives do not keep a purge from what lies behind them."""

    @workflow(name="questions.family")
    def family() -> Durable[None]:
        for _ in range(3):
            yield from nothing()
        yield from go.wait()

    desk = Desk(*EVERY, family)
    desk.start(family())
    desk.start(nothing(), "old")
    desk.clock.advance(100)
    assert desk.do(ops.PurgeWorkflows(desk.clock.now(), limit=3)) > 0

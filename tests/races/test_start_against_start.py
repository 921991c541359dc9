"""One id is started twice."""

from __future__ import annotations

from durable import WorkflowAlreadyExists, WorkflowStatus
from durable.engine.operations import CancelWorkflow, TerminateWorkflow
from tests.engine.direct import DirectEngine, call_of, event_of, refusal
from tests.engine.flows import EVERY, go, parent_of_nothing, rounds, sleeper, waiter, worker
from tests.races.kit import TOGETHER


@TOGETHER
def test_same_call_twice(together: bool) -> None:
    """The same call under the same id is one workflow, whose activity is handed out once."""
    engine = DirectEngine(*EVERY)
    first, second = engine.two(call_of(worker(), "w"), call_of(worker(), "w"), together=together)
    assert first.key == second.key
    assert len(engine.activities) == 1


@TOGETHER
def test_other_call_with_the_same_id(together: bool) -> None:
    """Another name or other arguments under the same id are refused, and change nothing."""
    engine = DirectEngine(*EVERY)
    for other in (worker(2), sleeper()):
        _, reply = engine.two(call_of(worker(1), "w"), call_of(other, "w"), together=together)
        assert refusal(reply)[:3] == (WorkflowAlreadyExists, "w", "engine.worker")
    assert len(engine.activities) == 1


@TOGETHER
def test_same_call_after_continue_as(together: bool) -> None:
    """The call that started a workflow finds it again after it has continued with other arguments."""
    engine = DirectEngine(*EVERY)
    engine.start(rounds(2))
    replies = engine.two(event_of(go, 5, to="w"), call_of(rounds(2), "w"), together=together)
    engine.settle()
    assert replies[1].key == engine.record().key
    assert engine.record().round == 1
    (reply,) = engine.batch(call_of(rounds(1, 5), "w"))
    assert refusal(reply)[:3] == (WorkflowAlreadyExists, "w", "engine.rounds")


@TOGETHER
def test_start_against_end(together: bool) -> None:
    """The same call after the end finds the ended workflow and does not begin it again."""
    engine = DirectEngine(*EVERY)
    engine.start(worker())
    _, started = engine.two(TerminateWorkflow("w"), call_of(worker(), "w"), together=together)
    assert started.status is WorkflowStatus.CANCELLED
    assert engine.activities == []


@TOGETHER
def test_start_against_cancel(together: bool) -> None:
    """A cancel right behind a start finds the workflow."""
    engine = DirectEngine(*EVERY)
    replies = engine.two(call_of(waiter(), "w"), CancelWorkflow("w"), together=together)
    assert replies[1] is True
    assert engine.status() is WorkflowStatus.CANCELLED


@TOGETHER
def test_start_with_the_id_of_a_child(together: bool) -> None:
    """A call from outside finds a child by its id; a child does not take the id of another workflow."""
    engine = DirectEngine(*EVERY)
    child, stranger = call_of(parent_of_nothing(), "w"), call_of(sleeper(), "w/0")
    _, reply = engine.two(child, stranger, together=together)
    assert refusal(reply)[:3] == (WorkflowAlreadyExists, "w/0", "engine.nothing")
    engine = DirectEngine(*EVERY)
    engine.two(stranger, child, together=together)
    assert isinstance(engine.error(), WorkflowAlreadyExists)
    assert engine.status("w/0") is WorkflowStatus.SUSPENDED

"""Workflows that are started by workflows."""

from __future__ import annotations

from typing import Any

import pytest

from durable import ChildDepthExceeded, ChildWorkflowFailed, Durable, WorkflowStatus, gather, sleep, workflow
from durable.backends.base import Workflows
from durable.engine.config import EngineConfig
from durable.engine.operations import TerminateWorkflow
from tests.engine.direct import DirectEngine
from tests.engine.flows import (
    EVERY,
    deep,
    go,
    nothing,
    other,
    parent,
    parent_of_failing,
    parent_of_waiter,
    racer,
    rounds,
    sleeper,
    waiter,
    work,
)


@workflow(name="children.guardian")
def guardian() -> Durable[str]:
    """Waits for a child. When cancelled, takes a minute to clean up."""
    try:
        yield from waiter()
    finally:
        yield from sleep(60)
    return "done"


@pytest.mark.parametrize("restart", [None, True, False])
def test_result_of_a_child(restart: bool | None) -> None:
    """A parent gets its child's result, even after a restart, and the child is started once."""
    engine = DirectEngine(*EVERY)
    engine.start(parent_of_waiter())
    child = engine.record("w/0")
    assert (child.parent_key, child.depth) == (engine.record().key, 1)
    if restart is not None:
        engine.restart(*EVERY, clean=restart)
    engine.send(go, 5, to="w/0")
    assert engine.result() == 5
    assert engine.record("w/0").key == child.key


def test_child_end_and_parent_wake_up_are_one_commit() -> None:
    """A child's end and its parent's wake-up are in the same commit."""
    engine = DirectEngine(*EVERY)
    engine.start(parent(60))
    engine.clock.advance(60)
    engine.settle()
    assert engine.record().finished_at == engine.record("w/0").finished_at
    assert engine.state.batch.is_empty()


def test_failure_of_a_child() -> None:
    """A failed child raises ChildWorkflowFailed in its parent, with the original error as its cause."""
    engine = DirectEngine(*EVERY)
    engine.start(parent_of_failing())
    error = engine.error()
    assert isinstance(error, ChildWorkflowFailed)
    assert (error.workflow_id, error.error_type, error.message) == ("w/0", "builtins.LookupError", "nothing there")
    assert isinstance(error.__cause__, LookupError)


@pytest.mark.parametrize("terminate", [True, False])
def test_cancellation_of_a_child(terminate: bool) -> None:
    """A cancelled or terminated child raises ChildWorkflowCancelled with the reason in its parent, which continues."""
    engine = DirectEngine(*EVERY)
    engine.start(parent_of_waiter())
    engine.do(TerminateWorkflow("w/0", "why")) if terminate else engine.cancel("w/0", "why")
    name, message, _ = engine.result()
    assert name == "ChildWorkflowCancelled"
    assert message == "child workflow 'w/0' was cancelled: why"


def test_explicit_id() -> None:
    """A child that is given an id can be reached by it."""
    engine = DirectEngine(*EVERY)
    engine.start(parent_of_waiter("my child"))
    engine.send(go, 5, to="my child")
    assert engine.result() == 5


def test_explicit_id_that_is_taken() -> None:
    """A child whose id is taken is not started: its parent gets WorkflowAlreadyExists."""
    engine = DirectEngine(*EVERY)
    engine.start(waiter(), "taken")
    engine.start(parent_of_waiter("taken"))
    assert engine.result()[0] == "WorkflowAlreadyExists"
    assert engine.status("taken") is WorkflowStatus.SUSPENDED


def test_same_id_in_two_branches() -> None:
    """Two branches cannot start children with one id: the second is refused, and the first is cancelled with it."""

    @workflow(name="children.twins")
    def twins() -> Durable[Any]:
        try:
            yield from gather(waiter().with_id("twin"), waiter().with_id("twin"))
        except Exception as error:
            yield from sleep(1)
            return type(error).__name__

    engine = DirectEngine(twins, *EVERY)
    engine.start(twins())
    assert engine.status("twin") is WorkflowStatus.CANCELLED
    engine.advance(1)
    assert engine.result() == "WorkflowAlreadyExists"


def test_depth_limit() -> None:
    """Children may nest down to the limit. One level deeper is refused, and the error travels up the chain."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_child_depth=5))
    engine.start(deep(5), "fits")
    assert engine.result("fits") == 5
    engine.start(deep(6), "deep")
    assert isinstance(engine.error("deep/0/0/0/0/0"), ChildDepthExceeded)
    assert isinstance(engine.error("deep"), ChildWorkflowFailed)


def test_deep_chain_grows_no_stack() -> None:
    """A hundred generations of children end in one decision, without recursion."""
    engine = DirectEngine(*EVERY, checks=False)
    engine.start(deep(100))
    assert engine.result() == 100
    assert max(len(record.id) for record in [engine.record()]) <= 255


def test_bad_call_of_a_child() -> None:
    """A child with too large arguments or a name that is taken is not started; the parent gets the error."""

    @workflow(name="engine.waiter")
    def impostor() -> Durable[None]:
        yield from sleep(1)

    @workflow(name="children.texts")
    def takes(text: str) -> Durable[str]:
        yield from sleep(0)
        return text

    @workflow(name="children.bad")
    def bad(which: str) -> Durable[str]:
        try:
            if which == "large":
                yield from takes("x" * 1000)
            else:
                yield from impostor()
        except Exception as error:
            return type(error).__name__
        return "fine"

    engine = DirectEngine(bad, takes, *EVERY, config=EngineConfig(max_payload_bytes=500))
    engine.start(bad("large"), "a")
    engine.start(bad("impostor"), "b")
    assert (engine.result("a"), engine.result("b")) == ("PayloadTooLarge", "DuplicateWorkflow")
    assert len(engine.backend.find(Workflows(limit=100))) == 2


@pytest.mark.parametrize("room", [1, 1000])
def test_losing_child_is_cancelled(room: int) -> None:
    """A child whose branch loses is cancelled in the same commit, with a reason that names its parent."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_loaded_workflows=room))
    engine.start(racer())
    engine.send(other, 1, to="w")
    assert engine.status("w/0.child.0") is WorkflowStatus.CANCELLED
    assert engine.record("w/0.child.0").cancel_reason == "workflow 'w' no longer waits for it"
    engine.advance(60)
    assert engine.result() == "event"


def test_terminated_parent_cancels_its_child() -> None:
    """Terminating a workflow cancels the child that it awaits."""
    engine = DirectEngine(*EVERY)
    engine.start(parent_of_waiter())
    engine.do(TerminateWorkflow("w"))
    assert engine.status("w/0") is WorkflowStatus.CANCELLED
    assert engine.record("w/0").cancel_reason == "parent 'w' has ended"


def test_cancelled_parent_that_cleans_up_cancels_its_child() -> None:
    """Cancelling a workflow cancels its child while the parent still cleans up."""
    engine = DirectEngine(*EVERY, guardian)
    engine.start(guardian())
    engine.cancel()
    assert (engine.status(), engine.status("w/0")) == (WorkflowStatus.SUSPENDED, WorkflowStatus.CANCELLED)
    engine.advance(60)
    assert engine.status() is WorkflowStatus.CANCELLED


def test_child_that_continues_gives_its_final_result() -> None:
    """A parent waits through all rounds of its child, and gets the result of the last."""

    @workflow(name="children.of_rounds")
    def of_rounds() -> Durable[int]:
        return (yield from rounds(3))

    engine = DirectEngine(*EVERY, of_rounds)
    engine.start(of_rounds())
    for number in (1, 2, 3):
        assert engine.status() is WorkflowStatus.SUSPENDED
        engine.send(go, number, to="w/0")
        engine.settle()
    assert engine.result() == 6
    assert len(engine.history()) == 1


def test_children_of_rounds_have_ids_of_their_own() -> None:
    """A parent that continues as a new round starts a new child, even at the same position."""

    @workflow(name="children.in_rounds")
    def in_rounds(left: int) -> Durable[int]:
        got = yield from nothing(left)
        if left == 0:
            return got
        raise in_rounds.continue_as(left - 1)

    engine = DirectEngine(*EVERY, in_rounds)
    engine.start(in_rounds(2))
    engine.settle()
    assert [engine.result(id) for id in ("w/0", "w/1:0", "w/2:0", "w")] == [2, 1, 0, 0]


def test_child_of_an_earlier_round_wakes_nobody() -> None:
    """The end of a child from an earlier round does not wake a wait of the current round."""

    @workflow(name="children.mixed")
    def mixed(round: int = 0) -> Durable[str]:
        if round == 0:
            try:
                yield from sleeper(100).within(1)
            except TimeoutError:
                yield from work(1)
            raise mixed.continue_as(1)
        return (yield from sleeper(500))

    engine = DirectEngine(*EVERY, mixed)
    engine.start(mixed())
    engine.advance(1)
    engine.finish(engine.activities[0], 1)
    engine.settle()
    assert engine.record().round == 1
    engine.advance(200)
    assert engine.status() is WorkflowStatus.SUSPENDED


def test_parent_that_ended_before_its_child() -> None:
    """A child that ends after its parent wakes nobody."""

    @workflow(name="children.stubborn")
    def stubborn_child() -> Durable[str]:
        try:
            yield from go.wait()
        finally:
            yield from sleep(60)
        return "done"

    @workflow(name="children.hasty")
    def hasty() -> Durable[str]:
        return (yield from stubborn_child())

    engine = DirectEngine(stubborn_child, hasty)
    engine.start(hasty())
    engine.do(TerminateWorkflow("w"))
    assert engine.status("w/0") is WorkflowStatus.SUSPENDED
    engine.advance(60)
    assert engine.status("w/0") is WorkflowStatus.CANCELLED

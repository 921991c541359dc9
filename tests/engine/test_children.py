"""Workflows that workflows start."""

from __future__ import annotations

from typing import Any

import pytest

from durable import ChildDepthExceeded, ChildWorkflowFailed, Durable, WorkflowStatus, gather, sleep, workflow
from durable.backends.base import Workflows
from durable.engine.config import EngineConfig
from durable.engine.operations import TerminateWorkflow
from tests.engine.desk import Desk
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
    """Waits for a child; when cancelled it takes its time."""
    try:
        yield from waiter()
    finally:
        yield from sleep(60)
    return "done"


@pytest.mark.parametrize("restart", [None, True, False])
def test_result_of_a_child(restart: bool | None) -> None:
    """A parent gets its child's result, also when everything restarts in between; the child is started once."""
    desk = Desk(*EVERY)
    desk.start(parent_of_waiter())
    child = desk.record("w/0")
    assert (child.parent_key, child.depth) == (desk.record().key, 1)
    if restart is not None:
        desk.restart(*EVERY, clean=restart)
    desk.send(go, 5, to="w/0")
    assert desk.result() == 5
    assert desk.record("w/0").key == child.key


def test_child_end_and_parent_wake_up_are_one_commit() -> None:
    """In the commit in which a child ends its parent has learnt of it."""
    desk = Desk(*EVERY)
    desk.start(parent(60))
    desk.clock.advance(60)
    desk.settle()
    assert desk.record().finished_at == desk.record("w/0").finished_at
    assert desk.state.batch.is_empty()


def test_failure_of_a_child() -> None:
    """A failed child raises ChildWorkflowFailed in its parent, with the original error as its cause."""
    desk = Desk(*EVERY)
    desk.start(parent_of_failing())
    error = desk.error()
    assert isinstance(error, ChildWorkflowFailed)
    assert (error.workflow_id, error.error_type, error.message) == ("w/0", "builtins.LookupError", "nothing there")
    assert isinstance(error.__cause__, LookupError)


@pytest.mark.parametrize("terminate", [True, False])
def test_cancellation_of_a_child(terminate: bool) -> None:
    """A cancelled or terminated child raises ChildWorkflowCancelled with the reason in its parent, which goes on."""
    desk = Desk(*EVERY)
    desk.start(parent_of_waiter())
    desk.do(TerminateWorkflow("w/0", "why")) if terminate else desk.cancel("w/0", "why")
    name, message, _ = desk.result()
    assert name == "ChildWorkflowCancelled"
    assert message == "child workflow 'w/0' was cancelled: why"


def test_explicit_id() -> None:
    """A child may have an id of its own, by which it is found."""
    desk = Desk(*EVERY)
    desk.start(parent_of_waiter("my child"))
    desk.send(go, 5, to="my child")
    assert desk.result() == 5


def test_explicit_id_that_is_taken() -> None:
    """A child whose id belongs to somebody else is not started: the parent gets WorkflowAlreadyExists."""
    desk = Desk(*EVERY)
    desk.start(waiter(), "taken")
    desk.start(parent_of_waiter("taken"))
    assert desk.result()[0] == "WorkflowAlreadyExists"
    assert desk.status("taken") is WorkflowStatus.SUSPENDED


def test_same_id_in_two_branches() -> None:
    """Two branches cannot have children with one id: the second is refused, the first is cancelled as its sibling."""

    @workflow(name="children.twins")
    def twins() -> Durable[Any]:
        try:
            yield from gather(waiter().with_id("twin"), waiter().with_id("twin"))
        except Exception as error:
            yield from sleep(1)
            return type(error).__name__

    desk = Desk(twins, *EVERY)
    desk.start(twins())
    assert desk.status("twin") is WorkflowStatus.CANCELLED
    desk.advance(1)
    assert desk.result() == "WorkflowAlreadyExists"


def test_depth_limit() -> None:
    """Children may start children down to the limit; one deeper is refused, and the error passes up the chain."""
    desk = Desk(*EVERY, config=EngineConfig(max_child_depth=5))
    desk.start(deep(5), "fits")
    assert desk.result("fits") == 5
    desk.start(deep(6), "deep")
    assert isinstance(desk.error("deep/0/0/0/0/0"), ChildDepthExceeded)
    assert isinstance(desk.error("deep"), ChildWorkflowFailed)


def test_deep_chain_grows_no_stack() -> None:
    """A hundred generations of children end in one decision without recursion."""
    desk = Desk(*EVERY, checks=False)
    desk.start(deep(100))
    assert desk.result() == 100
    assert max(len(record.id) for record in [desk.record()]) <= 255


def test_bad_call_of_a_child() -> None:
    """A child whose arguments are too large, or whose name is another's, is not started; the parent gets the error."""

    @workflow(name="desk.waiter")
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

    desk = Desk(bad, takes, *EVERY, config=EngineConfig(max_payload_bytes=500))
    desk.start(bad("large"), "a")
    desk.start(bad("impostor"), "b")
    assert (desk.result("a"), desk.result("b")) == ("PayloadTooLarge", "DuplicateWorkflow")
    assert len(desk.backend.find(Workflows(limit=100))) == 2


@pytest.mark.parametrize("room", [1, 1000])
def test_losing_child_is_cancelled(room: int) -> None:
    """A child whose branch has lost is cancelled in the same commit, with a reason that names its parent."""
    desk = Desk(*EVERY, config=EngineConfig(max_loaded_workflows=room))
    desk.start(racer())
    desk.send(other, 1, to="w")
    assert desk.status("w/0.child.0") is WorkflowStatus.CANCELLED
    assert desk.record("w/0.child.0").cancel_reason == "workflow 'w' no longer waits for it"
    desk.advance(60)
    assert desk.result() == "event"


def test_terminated_parent_cancels_its_child() -> None:
    """The child that a workflow waits for is cancelled when the workflow is terminated."""
    desk = Desk(*EVERY)
    desk.start(parent_of_waiter())
    desk.do(TerminateWorkflow("w"))
    assert desk.status("w/0") is WorkflowStatus.CANCELLED
    assert desk.record("w/0").cancel_reason == "parent 'w' has ended"


def test_cancelled_parent_that_cleans_up_cancels_its_child() -> None:
    """The child of a workflow that is cancelled is cancelled too, while the parent still cleans up."""
    desk = Desk(*EVERY, guardian)
    desk.start(guardian())
    desk.cancel()
    assert (desk.status(), desk.status("w/0")) == (WorkflowStatus.SUSPENDED, WorkflowStatus.CANCELLED)
    desk.advance(60)
    assert desk.status() is WorkflowStatus.CANCELLED


def test_child_that_continues_gives_its_final_result() -> None:
    """A parent waits through all rounds of its child and gets the result of the last."""

    @workflow(name="children.of_rounds")
    def of_rounds() -> Durable[int]:
        return (yield from rounds(3))

    desk = Desk(*EVERY, of_rounds)
    desk.start(of_rounds())
    for number in (1, 2, 3):
        assert desk.status() is WorkflowStatus.SUSPENDED
        desk.send(go, number, to="w/0")
        desk.settle()
    assert desk.result() == 6
    assert len(desk.history()) == 1


def test_children_of_rounds_have_ids_of_their_own() -> None:
    """A parent that continues starts a new child in each round, although the positions are the same."""

    @workflow(name="children.in_rounds")
    def in_rounds(left: int) -> Durable[int]:
        got = yield from nothing(left)
        if left == 0:
            return got
        raise in_rounds.continue_as(left - 1)

    desk = Desk(*EVERY, in_rounds)
    desk.start(in_rounds(2))
    desk.settle()
    assert [desk.result(id) for id in ("w/0", "w/1:0", "w/2:0", "w")] == [2, 1, 0, 0]


def test_child_of_an_earlier_round_wakes_nobody() -> None:
    """The end of a child whose parent has gone on to another round does not reach a wait of the new round."""

    @workflow(name="children.mixed")
    def mixed(round: int = 0) -> Durable[str]:
        if round == 0:
            try:
                yield from sleeper(100).within(1)
            except TimeoutError:
                yield from work(1)
            raise mixed.continue_as(1)
        return (yield from sleeper(500))

    desk = Desk(*EVERY, mixed)
    desk.start(mixed())
    desk.advance(1)
    desk.finish(desk.activities[0], 1)
    desk.settle()
    assert desk.record().round == 1
    desk.advance(200)
    assert desk.status() is WorkflowStatus.SUSPENDED


def test_parent_that_ended_before_its_child() -> None:
    """A child that ends after its parent ends without waking anybody."""

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

    desk = Desk(stubborn_child, hasty)
    desk.start(hasty())
    desk.do(TerminateWorkflow("w"))
    assert desk.status("w/0") is WorkflowStatus.SUSPENDED
    desk.advance(60)
    assert desk.status("w/0") is WorkflowStatus.CANCELLED

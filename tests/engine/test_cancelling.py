"""Workflows that are told to end."""

from __future__ import annotations

import pytest

from durable import Cancelled, Durable, WorkflowNotFound, WorkflowStatus, gather, sleep, workflow
from durable.engine import operations as ops
from durable.engine.config import EngineConfig
from durable.engine.operations import CancelWorkflow, StopActivity, TerminateWorkflow
from tests.engine.desk import Desk, refusal
from tests.engine.flows import EVERY, both, clean, go, nothing, racer, sleeper, tidy, waiter, work, worker

ROOM = pytest.mark.parametrize("room", [1, 1000], ids=["evicted", "loaded"])


@workflow(name="cancelling.gathering")
def gathering() -> Durable[str]:
    """Branches that clean up one by one."""

    def branch(number: int) -> Durable[None]:
        try:
            yield from work(number)
        except Cancelled:
            yield from sleep(number)
            raise

    yield from gather(branch(1), branch(2), go.wait())
    return "never"


@pytest.mark.parametrize("op", [CancelWorkflow("w"), TerminateWorkflow("w")])
def test_unknown_id(op: CancelWorkflow) -> None:
    """Ending a workflow that does not exist is refused."""
    assert refusal(Desk(*EVERY).batch(op)[0]) == (WorkflowNotFound, "w")


@pytest.mark.parametrize("op", [CancelWorkflow("w"), TerminateWorkflow("w")])
def test_ended_workflow(op: CancelWorkflow) -> None:
    """Ending a workflow that has ended says so and changes nothing."""
    desk = Desk(*EVERY)
    desk.start(nothing(3))
    before = desk.record()
    assert desk.do(op) is False
    assert desk.record() == before


@ROOM
def test_cancel_withdraws_waits_and_timers(room: int) -> None:
    """A cancelled workflow that does not clean up leaves no wait, no timer and no event row behind."""
    desk = Desk(*EVERY, config=EngineConfig(max_loaded_workflows=room))
    desk.start(both())
    desk.start(sleeper(), "s")
    assert desk.cancel("w", "why") is True
    assert desk.cancel("s") is True
    assert desk.waits("w") == []
    assert [desk.status(id) for id in "ws"] == [WorkflowStatus.CANCELLED] * 2
    assert desk.record("w").cancel_reason == "why"
    assert [entry.kind.value for entry in desk.history("w")] == ["cancel"]
    desk.advance(100)


@ROOM
def test_branches_clean_up_on_their_own(room: int) -> None:
    """Every branch of a cancelled workflow cleans up in its own time; then the workflow ends cancelled."""
    desk = Desk(gathering, *EVERY, config=EngineConfig(max_loaded_workflows=room))
    desk.start(gathering())
    desk.start(waiter(), "elsewhere")
    desk.cancel()
    assert len([effect for effect in desk.effects if isinstance(effect, StopActivity)]) == 2
    desk.advance(1)
    assert desk.status() is WorkflowStatus.SUSPENDED
    desk.restart(gathering, *EVERY)
    desk.advance(1)
    assert desk.status() is WorkflowStatus.CANCELLED


def test_failing_cleanup_still_ends_cancelled() -> None:
    """A cleanup that fails does not turn a cancelled workflow into a failed one."""
    desk = Desk(*EVERY)
    desk.start(tidy())
    desk.cancel()
    desk.fail(desk.activities[0], OSError())
    assert (desk.status(), desk.record().error) == (WorkflowStatus.CANCELLED, None)


def test_terminate_skips_the_cleanup() -> None:
    """Terminate ends a workflow at once; its cleanup does not run, also when it had begun."""
    desk = Desk(*EVERY)
    desk.start(tidy(), "a")
    desk.start(tidy(), "b")
    desk.cancel("b", "cancelled")
    for id in "ab":
        assert desk.do(TerminateWorkflow(id, "terminated")) is True
    assert desk.activities == []
    assert [desk.record(id).cancel_reason for id in "ab"] == ["terminated", "terminated"]
    assert {desk.status(id) for id in "ab"} == {WorkflowStatus.CANCELLED}


@ROOM
def test_terminate_drops_waits(room: int) -> None:
    """A terminated workflow waits for nothing any more, whether its body was in memory or not."""
    desk = Desk(*EVERY, config=EngineConfig(max_loaded_workflows=room))
    desk.start(both())
    desk.start(worker(), "elsewhere")
    desk.do(TerminateWorkflow("w"))
    assert desk.waits() == []


def test_overdue_delayed_start_is_cancelled() -> None:
    """A delayed workflow that is cancelled after its time, but before it ran, ends cancelled."""
    desk = Desk(*EVERY)
    desk.start(tidy(), delay=10)
    desk.clock.advance(10)
    assert desk.cancel() is True
    for effect in desk.activities:
        assert effect.definition is clean
        desk.finish(effect)
    assert desk.status() is WorkflowStatus.CANCELLED


def test_body_sees_the_reason() -> None:
    """`Cancelled` carries the reason that the caller gave, on replay too."""

    @workflow(name="cancelling.reason")
    def reason() -> Durable[None]:
        try:
            yield from go.wait()
        except Cancelled as cancelled:
            yield from work(len(cancelled.reason or ""))

    desk = Desk(reason)
    desk.start(reason())
    desk.cancel(reason="four")
    desk.restart(reason)
    assert [effect.args for effect in desk.activities] == [(4,)]


def test_terminate_of_an_evicted_parent_cancels_its_child() -> None:
    """Terminating a workflow cancels the child it waits for, whether its body is in memory or not."""
    for room in (1000, 1):
        desk = Desk(*EVERY, config=EngineConfig(max_loaded_workflows=room))
        desk.start(racer())
        desk.start(sleeper(), "elsewhere")
        desk.do(ops.TerminateWorkflow("w"))
        assert desk.status("w/0.child.0") is WorkflowStatus.CANCELLED, room

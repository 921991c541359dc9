"""Workflows that are cancelled or terminated."""

from __future__ import annotations

import pytest

from durable import Cancelled, Durable, WorkflowNotFound, WorkflowStatus, gather, sleep, workflow
from durable.engine import operations as ops
from durable.engine.config import EngineConfig
from durable.engine.operations import CancelWorkflow, StopActivity, TerminateWorkflow
from tests.engine.direct import DirectEngine, refusal
from tests.engine.flows import EVERY, both, go, nothing, racer, sleeper, tidy, waiter, work, worker

ROOM = pytest.mark.parametrize("room", [1, 1000], ids=["evicted", "loaded"])


@workflow(name="cancelling.gathering")
def gathering() -> Durable[str]:
    """Branches that take different times to clean up."""

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
    """Ending an unknown workflow is refused."""
    assert refusal(DirectEngine(*EVERY).batch(op)[0]) == (WorkflowNotFound, "w")


@pytest.mark.parametrize("op", [CancelWorkflow("w"), TerminateWorkflow("w")])
def test_ended_workflow(op: CancelWorkflow) -> None:
    """Ending an ended workflow returns False and changes nothing."""
    engine = DirectEngine(*EVERY)
    engine.start(nothing(3))
    before = engine.record()
    assert engine.do(op) is False
    assert engine.record() == before


@ROOM
def test_cancel_withdraws_waits_and_timers(room: int) -> None:
    """A cancelled workflow without cleanup leaves no wait, timer or event row."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_loaded_workflows=room))
    engine.start(both())
    engine.start(sleeper(), "s")
    assert engine.cancel("w", "why") is True
    assert engine.cancel("s") is True
    assert engine.waits("w") == []
    assert [engine.status(id) for id in "ws"] == [WorkflowStatus.CANCELLED] * 2
    assert engine.record("w").cancel_reason == "why"
    assert [entry.kind.value for entry in engine.history("w")] == ["cancel"]
    engine.advance(100)


@ROOM
def test_branches_clean_up_on_their_own(room: int) -> None:
    """Each branch of a cancelled workflow cleans up in its own time; then the workflow ends as cancelled."""
    engine = DirectEngine(gathering, *EVERY, config=EngineConfig(max_loaded_workflows=room))
    engine.start(gathering())
    engine.start(waiter(), "elsewhere")
    engine.cancel()
    assert len([effect for effect in engine.effects if isinstance(effect, StopActivity)]) == 2
    engine.advance(1)
    assert engine.status() is WorkflowStatus.SUSPENDED
    engine.restart(gathering, *EVERY)
    engine.advance(1)
    assert engine.status() is WorkflowStatus.CANCELLED


def test_failing_cleanup_still_ends_cancelled() -> None:
    """A cleanup that fails does not turn a cancelled workflow into a failed one."""
    engine = DirectEngine(*EVERY)
    engine.start(tidy())
    engine.cancel()
    engine.fail(engine.activities[0], OSError())
    assert (engine.status(), engine.record().error) == (WorkflowStatus.CANCELLED, None)


def test_terminate_skips_the_cleanup() -> None:
    """Terminate ends a workflow at once. Its cleanup does not run, even if it had begun."""
    engine = DirectEngine(*EVERY)
    engine.start(tidy(), "a")
    engine.start(tidy(), "b")
    engine.cancel("b", "cancelled")
    for id in "ab":
        assert engine.do(TerminateWorkflow(id, "terminated")) is True
    assert engine.activities == []
    assert [engine.record(id).cancel_reason for id in "ab"] == ["terminated", "terminated"]
    assert {engine.status(id) for id in "ab"} == {WorkflowStatus.CANCELLED}


@ROOM
def test_terminate_drops_waits(room: int) -> None:
    """A terminated workflow has no waits, whether its body was in memory or not."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_loaded_workflows=room))
    engine.start(both())
    engine.start(worker(), "elsewhere")
    engine.do(TerminateWorkflow("w"))
    assert engine.waits() == []


def test_overdue_delayed_start_is_cancelled() -> None:
    """A delayed workflow that is cancelled after its time, but before it ran, ends at once, and its body never runs."""
    engine = DirectEngine(*EVERY)
    engine.start(tidy(), delay=10)
    engine.clock.advance(10)
    assert engine.cancel() is True
    assert engine.status() is WorkflowStatus.CANCELLED
    engine.settle()
    assert (engine.history(), engine.activities) == ([], [])


def test_body_sees_the_reason() -> None:
    """`Cancelled` carries the caller's reason, on replay too."""

    @workflow(name="cancelling.reason")
    def reason() -> Durable[None]:
        try:
            yield from go.wait()
        except Cancelled as cancelled:
            yield from work(len(cancelled.reason or ""))

    engine = DirectEngine(reason)
    engine.start(reason())
    engine.cancel(reason="four")
    engine.restart(reason)
    assert [effect.args for effect in engine.activities] == [(4,)]


def test_terminate_of_an_evicted_parent_cancels_its_child() -> None:
    """Terminating a workflow cancels the child it awaits, whether the parent's body is in memory or not."""
    for room in (1000, 1):
        engine = DirectEngine(*EVERY, config=EngineConfig(max_loaded_workflows=room))
        engine.start(racer())
        engine.start(sleeper(), "elsewhere")
        engine.do(ops.TerminateWorkflow("w"))
        assert engine.status("w/0.child.0") is WorkflowStatus.CANCELLED, room

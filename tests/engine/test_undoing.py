"""Undos as decisions: each is a commit, survives a restart, is retried, and never hides the workflow's error."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from durable.engine.config import EngineConfig
from durable.engine.operations import DescribeWorkflow, RunActivity, StopActivity, TerminateWorkflow
from durable.errors import (
    Cancelled,
    ChildWorkflowCancelled,
    ChildWorkflowFailed,
    CodecError,
    OperationMisused,
    PayloadTooLarge,
)
from durable.model.error_codec import failed_undos
from durable.model.records import EntryKind, EntryStatus, ParkReason, WorkflowStatus
from durable.model.retry import Retry
from durable.runner.definitions import Durable, activity, workflow
from durable.runner.events import Event
from durable.runner.undo import saga
from durable.testing.clock import NOON
from tests.engine.direct import DirectEngine

ROOM = pytest.mark.parametrize("room", [1, 100])
go = Event[str]("undoing-go")


class Declined(Exception):
    """The error of a step."""


@activity(name="undoing.charge", retry=Retry.never())
def charge(number: int) -> int:
    """A step."""
    return number


@activity(name="undoing.refund", retry=Retry(max_attempts=2, first_delay=10, jitter=0))
def refund(number: int) -> None:
    """Its undo."""


@workflow(name="undoing.pair")
def pair() -> Durable[str]:
    """Does two steps with undos, and a third without."""
    yield from charge(1).undo(refund)
    yield from charge(2).undo(refund)
    yield from charge(3)
    return "done"


@workflow(name="undoing.waiter")
def waiter() -> Durable[str]:
    """Does a step with an undo, then waits for an event that says whether it fails."""
    yield from charge(1).undo(refund)
    answer = yield from go.wait()
    if answer == "no":
        raise Declined(answer)
    return answer


@workflow(name="undoing.large")
def large() -> Durable[str]:
    """Returns more than the engine accepts."""
    yield from charge(1).undo(refund)
    return "x" * 5_000


@workflow(name="undoing.wrong")
def wrong() -> Durable[int]:
    """Returns a value that its annotation does not allow."""
    yield from charge(1).undo(refund)
    return "text"  # type: ignore[return-value]


@workflow(name="undoing.endless")
def endless() -> Durable[None]:
    """Continues as a new round while an undo is owed."""
    yield from charge(1).undo(refund)
    raise endless.continue_as()


@workflow(name="undoing.parent")
def parent() -> Durable[list[Any]]:
    """Returns what its child could not undo."""
    try:
        yield from waiter()
    except (ChildWorkflowFailed, ChildWorkflowCancelled) as error:
        return [type(error).__name__, [failed.message for failed in failed_undos(error)]]
    return []


@workflow(name="undoing.forgiving")
def forgiving() -> Durable[str]:
    """Continues after a saga has failed."""

    def inner() -> Durable[None]:
        yield from charge(1).undo(refund)
        raise Declined("inside")

    try:
        yield from saga(inner())
    except Declined as error:
        return f"went on: {error}"
    return "fine"


EVERY = (pair, waiter, large, wrong, endless, parent, forgiving)


def running(engine: DirectEngine) -> RunActivity:
    """The only running activity."""
    (effect,) = engine.activities
    return effect


def step(engine: DirectEngine) -> tuple[str, int, int]:
    """Let the running activity succeed. Returns its position, its argument and its attempt."""
    effect = running(engine)
    engine.finish(effect, effect.args[0] if effect.definition is charge else None)
    return effect.position, effect.args[0], effect.attempt


@ROOM
def test_undos_survive_a_restart_after_every_commit(room: int) -> None:
    """Each undo runs once, in reverse order, across restarts, and the workflow fails with the third step's error."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_loaded_workflows=room))
    engine.start(pair())
    engine.start(waiter(), "elsewhere")
    engine.finish(engine.activities[1], 1)
    steps = []
    for _ in range(2):
        steps.append(step(engine))
        engine.restart(*EVERY, clean=False)
    engine.fail(running(engine), Declined("no"))
    for _ in range(2):
        engine.restart(*EVERY)
        steps.append(step(engine))
        assert (engine.status() is WorkflowStatus.FAILED) == (len(steps) == 4)
    assert steps == [("0", 1, 1), ("1", 2, 1), ("u.0.0", 2, 1), ("u.1.0", 1, 1)]
    assert repr(engine.error()) == "Declined('no')"
    assert [entry.position for entry in engine.history()] == ["0", "1", "2", "u.0.0", "u.1.0"]


def test_undo_is_retried_by_its_policy_and_then_reported(caplog: pytest.LogCaptureFixture) -> None:
    """An undo has its own attempts. One that fails for good appears in the history, on the error and in the log."""
    engine = DirectEngine(*EVERY)
    engine.start(pair())
    step(engine)
    step(engine)
    engine.fail(running(engine), Declined("no"))
    engine.fail(running(engine), Declined("bank closed"))
    assert (engine.activities, engine.status()) == ([], WorkflowStatus.RUNNING)
    engine.restart(*EVERY)
    engine.advance(10)
    assert (running(engine).position, running(engine).attempt) == ("u.0.0", 2)
    with caplog.at_level(logging.ERROR, "durable"):
        engine.fail(running(engine), Declined("still closed"))
        description = engine.do(DescribeWorkflow("w"))
        assert step(engine) == ("u.1.0", 1, 1)
    (failed,) = failed_undos(engine.error())
    assert repr(engine.error()) == "Declined('no')"
    assert (failed.position, failed.undo, failed.message) == ("1", "undoing.refund", "still closed")
    assert description.failed_undos == engine.do(DescribeWorkflow("w")).failed_undos == (failed,)
    assert [entry.status for entry in engine.history()][-3:] == [EntryStatus.RETRY, EntryStatus.ERROR, EntryStatus.OK]
    errors = [line.getMessage() for line in caplog.records if line.levelno == logging.ERROR]
    assert errors == [f"workflow w (undoing.pair): {failed}"]


def test_description_lists_the_owed_undos() -> None:
    """A description lists the owed undos, the next one first, even while they run."""
    engine = DirectEngine(*EVERY)
    engine.start(pair())
    step(engine)
    step(engine)
    owed = engine.do(DescribeWorkflow("w")).owed_undos
    assert [(undo.position, undo.step, undo.undo) for undo in owed] == [
        ("1", "undoing.charge(...)", "undoing.refund"),
        ("0", "undoing.charge(...)", "undoing.refund"),
    ]
    engine.cancel()
    assert engine.do(DescribeWorkflow("w")).owed_undos == owed
    step(engine)
    assert engine.do(DescribeWorkflow("w")).owed_undos == owed[1:]
    step(engine)
    assert engine.do(DescribeWorkflow("w")).owed_undos == ()


@pytest.mark.parametrize("moment", ["before", "during"])
def test_cancelled_workflow_undoes_and_ends_cancelled(moment: str) -> None:
    """A cancel starts the undos, or lets running ones finish. The end is the same, and an earlier error is kept."""
    engine = DirectEngine(*EVERY)
    engine.start(pair())
    step(engine)
    step(engine)
    if moment == "during":
        engine.fail(running(engine), Declined("no"))
    assert engine.cancel(reason="enough")
    stopped = [effect.position for effect in engine.effects if isinstance(effect, StopActivity)]
    assert stopped == (["2"] if moment == "before" else [])
    assert [step(engine), step(engine)] == [("u.0.0", 2, 1), ("u.1.0", 1, 1)]
    record = engine.record()
    assert (record.status, record.cancel_reason) == (WorkflowStatus.CANCELLED, "enough")
    if moment == "before":
        assert record.error is None
    else:
        assert isinstance(engine.error(), Cancelled)
        assert repr(engine.error().__cause__) == "Declined('no')"


def test_terminate_ends_undos_at_once() -> None:
    """Terminate stops the running activity, and the owed undos never run."""
    engine = DirectEngine(*EVERY)
    engine.start(pair())
    step(engine)
    step(engine)
    engine.fail(running(engine), Declined("no"))
    assert engine.do(TerminateWorkflow("w", "now"))
    assert (engine.status(), engine.activities) == (WorkflowStatus.CANCELLED, [])


@pytest.mark.parametrize(("definition", "error"), [(large, PayloadTooLarge), (wrong, CodecError)])
def test_result_that_cannot_be_stored_is_undone(definition: Any, error: type[Exception]) -> None:
    """A workflow whose result is refused fails and runs its undos, and the refusal is in its history."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_payload_bytes=1_000))
    engine.start(definition())
    step(engine)
    assert engine.status() is WorkflowStatus.RUNNING
    # Even with a limit that would accept the result: what was refused stays refused.
    engine.config = EngineConfig(max_payload_bytes=1_000_000)
    engine.restart(*EVERY, clean=False)
    assert step(engine) == ("u.0.0", 1, 1)
    assert engine.status() is WorkflowStatus.FAILED
    assert isinstance(engine.error(), error)
    assert [entry.kind for entry in engine.history()] == [EntryKind.ACTIVITY, EntryKind.REFUSAL, EntryKind.ACTIVITY]


def test_refusal_that_the_code_no_longer_reaches_parks() -> None:
    """Code that no longer returns where its result was refused has diverged."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_payload_bytes=1_000))
    engine.start(large())
    step(engine)

    @workflow(name="undoing.large")
    def changed() -> Durable[str]:
        yield from charge(1).undo(refund)
        return (yield from go.wait())

    engine.restart(changed)
    record = engine.record()
    assert (record.status, record.park_reason) == (WorkflowStatus.PARKED, ParkReason.DIVERGED)
    assert "refusal result" in (record.park_detail or "")
    # A body that cannot run cannot undo: a cancel waits for code that fits.
    assert engine.cancel()
    assert (engine.status(), engine.activities) == (WorkflowStatus.PARKED, [])


def test_continue_as_is_refused_while_undos_are_owed() -> None:
    """Continuing with owed undos fails the workflow with advice, and runs the undos."""
    engine = DirectEngine(*EVERY)
    engine.start(endless())
    step(engine)
    assert step(engine) == ("u.0.0", 1, 1)
    assert isinstance(engine.error(), OperationMisused)
    assert "do those steps in a child workflow" in str(engine.error())


@pytest.mark.parametrize("kind", ["ChildWorkflowFailed", "ChildWorkflowCancelled"])
def test_parent_is_told_what_its_child_could_not_undo(kind: str) -> None:
    """The parent gets the failed undos of a child with its error or its cancellation."""
    engine = DirectEngine(*EVERY)
    engine.start(parent())
    step(engine)
    if kind == "ChildWorkflowFailed":
        engine.send(go, "no", to="w/0")
    else:
        engine.cancel("w/0")
    for _ in range(2):
        engine.fail(running(engine), Declined("bank closed"))
        engine.advance(10)
    assert engine.result() == [kind, ["bank closed"]]


def test_saga_that_fails_lets_the_workflow_succeed() -> None:
    """The undos of a saga are commits like any other, and the workflow may still succeed."""
    engine = DirectEngine(*EVERY)
    engine.start(forgiving())
    step(engine)
    engine.restart(*EVERY)
    assert step(engine) == ("0.u.0.0", 1, 1)
    assert engine.result() == "went on: inside"


@ROOM
def test_wait_that_is_due_at_the_start_is_not_taken_for_a_delay(room: int) -> None:
    """After the clock was set back, a wait may be due at a delayed workflow's start time. Its undos are still owed."""

    @workflow(name="undoing.delayed")
    def delayed() -> Durable[None]:
        yield from charge(1).undo(refund)
        yield from go.wait().within(0)

    engine = DirectEngine(delayed, waiter, config=EngineConfig(max_loaded_workflows=room))
    begun = engine.start(delayed(), delay=60)
    engine.advance(60)
    engine.clock.set(NOON)
    engine.finish(engine.activities[0], 1)
    engine.start(waiter(), "elsewhere")
    assert engine.record().wake_at == begun.start_at
    assert engine.cancel() is True
    assert [effect.definition for effect in engine.activities if effect.workflow_id == "w"] == [refund]

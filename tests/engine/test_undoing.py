"""Undos through the engine's decisions: each is a commit, survives a restart, is retried, and never hides the error."""

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
    """What a step fails with."""


@activity(name="undoing.charge", retry=Retry.never())
def charge(number: int) -> int:
    """A step."""
    return number


@activity(name="undoing.refund", retry=Retry(max_attempts=2, first_delay=10, jitter=0))
def refund(number: int) -> None:
    """Its undo."""


@workflow(name="undoing.pair")
def pair() -> Durable[str]:
    """Two steps that are undone, and a third."""
    yield from charge(1).undo(refund)
    yield from charge(2).undo(refund)
    yield from charge(3)
    return "done"


@workflow(name="undoing.waiter")
def waiter() -> Durable[str]:
    """A step, then an event that says whether it fails."""
    yield from charge(1).undo(refund)
    answer = yield from go.wait()
    if answer == "no":
        raise Declined(answer)
    return answer


@workflow(name="undoing.large")
def large() -> Durable[str]:
    """Returns more than the engine takes."""
    yield from charge(1).undo(refund)
    return "x" * 5_000


@workflow(name="undoing.wrong")
def wrong() -> Durable[int]:
    """Returns what its annotation does not allow."""
    yield from charge(1).undo(refund)
    return "text"  # type: ignore[return-value]


@workflow(name="undoing.endless")
def endless() -> Durable[None]:
    """Continues while an undo is owed."""
    yield from charge(1).undo(refund)
    raise endless.continue_as()


@workflow(name="undoing.parent")
def parent() -> Durable[list[Any]]:
    """Tells what its child could not undo."""
    try:
        yield from waiter()
    except (ChildWorkflowFailed, ChildWorkflowCancelled) as error:
        return [type(error).__name__, [one.message for one in failed_undos(error)]]
    return []


@workflow(name="undoing.forgiving")
def forgiving() -> Durable[str]:
    """Goes on after a saga has failed."""

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
    """The one activity that runs."""
    (effect,) = engine.activities
    return effect


def step(engine: DirectEngine) -> tuple[str, int, int]:
    """The activity that runs: where, with what, in which attempt; it succeeds."""
    effect = running(engine)
    engine.finish(effect, effect.args[0] if effect.definition is charge else None)
    return effect.position, effect.args[0], effect.attempt


@ROOM
def test_undos_survive_a_restart_after_every_commit(room: int) -> None:
    """Each undo is run once, in reverse, whatever is lost in between; the error is the one of the third step."""
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
    """An undo has attempts of its own; one that fails for good is in the history, on the error and in the log."""
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
        told = engine.do(DescribeWorkflow("w"))
        assert step(engine) == ("u.1.0", 1, 1)
    (failed,) = failed_undos(engine.error())
    assert repr(engine.error()) == "Declined('no')"
    assert (failed.position, failed.undo, failed.message) == ("1", "undoing.refund", "still closed")
    assert told.failed_undos == engine.do(DescribeWorkflow("w")).failed_undos == (failed,)
    assert [entry.status for entry in engine.history()][-3:] == [EntryStatus.RETRY, EntryStatus.ERROR, EntryStatus.OK]
    errors = [line.getMessage() for line in caplog.records if line.levelno == logging.ERROR]
    assert errors == [f"workflow w (undoing.pair): {failed}"]


def test_description_says_what_is_owed() -> None:
    """An operator sees what would be undone now, the first to be undone first, also while it is being undone."""
    engine = DirectEngine(*EVERY)
    engine.start(pair())
    step(engine)
    step(engine)
    owed = engine.do(DescribeWorkflow("w")).owed_undos
    assert [(one.position, one.step, one.undo) for one in owed] == [
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
    """A cancellation starts the undos or leaves them alone; the end is the same, and an earlier error is kept."""
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
    """The axe: what runs is stopped, what is owed stays done."""
    engine = DirectEngine(*EVERY)
    engine.start(pair())
    step(engine)
    step(engine)
    engine.fail(running(engine), Declined("no"))
    assert engine.do(TerminateWorkflow("w", "now"))
    assert (engine.status(), engine.activities) == (WorkflowStatus.CANCELLED, [])


@pytest.mark.parametrize(("definition", "error"), [(large, PayloadTooLarge), (wrong, CodecError)])
def test_result_that_cannot_be_stored_is_undone(definition: Any, error: type[Exception]) -> None:
    """A workflow fails when its result is refused, so it is undone; that it was refused is in its history."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_payload_bytes=1_000))
    engine.start(definition())
    step(engine)
    assert engine.status() is WorkflowStatus.RUNNING
    # With a limit that would let it pass, too: what was refused stays refused.
    engine.config = EngineConfig(max_payload_bytes=1_000_000)
    engine.restart(*EVERY, clean=False)
    assert step(engine) == ("u.0.0", 1, 1)
    assert engine.status() is WorkflowStatus.FAILED
    assert isinstance(engine.error(), error)
    assert [entry.kind for entry in engine.history()] == [EntryKind.ACTIVITY, EntryKind.REFUSAL, EntryKind.ACTIVITY]


def test_refusal_that_the_code_does_not_come_to_parks() -> None:
    """Code that no longer returns where a result was refused does not fit."""
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
    """Nothing is forgotten in silence: the workflow fails with a sentence that says what to do, and undoes."""
    engine = DirectEngine(*EVERY)
    engine.start(endless())
    step(engine)
    assert step(engine) == ("u.0.0", 1, 1)
    assert isinstance(engine.error(), OperationMisused)
    assert "do those steps in a child workflow" in str(engine.error())


@pytest.mark.parametrize("kind", ["ChildWorkflowFailed", "ChildWorkflowCancelled"])
def test_parent_hears_what_its_child_could_not_undo(kind: str) -> None:
    """The error of a child, and its cancellation, tell which undos have failed."""
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
    """The undos of a saga are commits like others, and the workflow may end well behind them."""
    engine = DirectEngine(*EVERY)
    engine.start(forgiving())
    step(engine)
    engine.restart(*EVERY)
    assert step(engine) == ("0.u.0.0", 1, 1)
    assert engine.result() == "went on: inside"


@ROOM
def test_wait_that_is_due_at_the_start_is_not_taken_for_a_delay(room: int) -> None:
    """After the clock was set back, a wait can be due at the instant of a delayed start; its undos are still owed."""

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

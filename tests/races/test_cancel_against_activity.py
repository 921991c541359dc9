"""A workflow is cancelled while its activity runs, and the activity ends all the same."""

from __future__ import annotations

import pytest

from durable import WorkflowStatus
from durable.engine.operations import CancelWorkflow, StopActivity
from durable.errors import WorkflowTerminated
from tests.engine.direct import DirectEngine, event_of, refusal
from tests.engine.flows import EVERY, go, stubborn, tidy
from tests.races.kit import TOGETHER

THEN = pytest.mark.parametrize("then", ["return", "fail", "suspend", "continue"])
ERROR = pytest.mark.parametrize("error", [None, ValueError("no")], ids=["completes", "fails"])


@ERROR
@THEN
@TOGETHER
def test_cancel_first_always_ends_cancelled(then: str, error: Exception | None, together: bool) -> None:
    """Whatever the body does after a cancel and however its activity ends, the workflow ends cancelled."""
    engine = DirectEngine(*EVERY)
    engine.start(stubborn(then))
    (effect,) = engine.activities
    replies = engine.two(CancelWorkflow("w", "why"), engine.answer(effect, 1, error), together=together)
    assert replies == [True, None]
    assert StopActivity(effect.key, 0, "0") in engine.effects
    if then == "suspend":
        assert engine.status() is WorkflowStatus.SUSPENDED
        engine.send(go, 1, to="w")
    assert engine.status() is WorkflowStatus.CANCELLED
    assert engine.record().cancel_reason == "why"


@TOGETHER
def test_answer_first_completes(together: bool) -> None:
    """A workflow that its activity has completed can no longer be cancelled."""
    engine = DirectEngine(*EVERY)
    engine.start(stubborn("return"))
    answer = engine.answer(engine.activities[0], 1)
    assert engine.two(answer, CancelWorkflow("w"), together=together) == [None, False]
    assert engine.result() == 7


@TOGETHER
def test_failed_attempt_first_then_cancel(together: bool) -> None:
    """A workflow that is cancelled while it waits for the next attempt makes no further attempt."""
    engine = DirectEngine(*EVERY)
    engine.start(tidy())
    answer = engine.answer(engine.activities[0], error=ValueError("no"))
    assert engine.two(answer, CancelWorkflow("w"), together=together) == [None, True]
    engine.advance(1000)
    assert [entry.status.value for entry in engine.history()] == ["retry", "ok"]
    assert [effect.definition.name for effect in engine.activities][-1] == "engine.clean"


@ERROR
@TOGETHER
def test_cleanup_runs_and_late_answer_is_dropped(error: Exception | None, together: bool) -> None:
    """The cleanup of a cancelled workflow runs once, and the late answer of the stopped activity is not recorded."""
    engine = DirectEngine(*EVERY)
    engine.start(tidy())
    engine.two(CancelWorkflow("w"), engine.answer(engine.activities[0], 1, error), together=together)
    (cleanup,) = engine.activities
    assert cleanup.definition.name == "engine.clean"
    assert [entry.kind.value for entry in engine.history()] == ["cancel"]
    engine.finish(cleanup)
    assert engine.status() is WorkflowStatus.CANCELLED


@pytest.mark.parametrize("clean", [True, False])
def test_cancel_survives_a_restart(clean: bool) -> None:
    """A restart during the cleanup runs the cleanup again and changes nothing about the end."""
    engine = DirectEngine(*EVERY)
    engine.start(tidy())
    engine.cancel(reason="why")
    engine.restart(*EVERY, clean=clean)
    (cleanup,) = engine.activities
    assert cleanup.definition.name == "engine.clean"
    engine.fail(cleanup, ValueError("cannot clean"))
    assert engine.status() is WorkflowStatus.CANCELLED
    assert engine.record().cancel_reason == "why"


@TOGETHER
def test_cancel_twice_raises_twice(together: bool) -> None:
    """A second cancel during the cleanup is raised there, and its reason stands."""
    engine = DirectEngine(*EVERY)
    engine.start(tidy())
    assert engine.two(CancelWorkflow("w", "first"), CancelWorkflow("w", "second"), together=together) == [True, True]
    assert engine.activities == []
    assert engine.record().cancel_reason == "second"
    assert refusal(engine.batch(event_of(go, 1, to="w"))[0]) == (WorkflowTerminated, "w", "cancelled")
    assert engine.cancel() is False

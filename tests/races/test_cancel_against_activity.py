"""A workflow is cancelled while its activity runs, and the activity ends all the same."""

from __future__ import annotations

import pytest

from durable import WorkflowStatus
from durable.engine.operations import CancelWorkflow, StopActivity
from durable.errors import WorkflowTerminated
from tests.engine.desk import Desk, event_of, refusal
from tests.engine.flows import EVERY, go, stubborn, tidy
from tests.races.kit import TOGETHER

THEN = pytest.mark.parametrize("then", ["return", "fail", "suspend", "continue"])
ERROR = pytest.mark.parametrize("error", [None, ValueError("no")], ids=["completes", "fails"])


@ERROR
@THEN
@TOGETHER
def test_cancel_first_always_ends_cancelled(then: str, error: Exception | None, together: bool) -> None:
    """Whatever the body does after a cancel and however its activity ends, the workflow ends cancelled."""
    desk = Desk(*EVERY)
    desk.start(stubborn(then))
    (effect,) = desk.activities
    replies = desk.two(CancelWorkflow("w", "why"), desk.answer(effect, 1, error), together=together)
    assert replies == [True, None]
    assert StopActivity(effect.key, 0, "0") in desk.effects
    if then == "suspend":
        assert desk.status() is WorkflowStatus.SUSPENDED
        desk.send(go, 1, to="w")
    assert desk.status() is WorkflowStatus.CANCELLED
    assert desk.record().cancel_reason == "why"


@TOGETHER
def test_answer_first_completes(together: bool) -> None:
    """A workflow that its activity has completed cannot be cancelled any more."""
    desk = Desk(*EVERY)
    desk.start(stubborn("return"))
    answer = desk.answer(desk.activities[0], 1)
    assert desk.two(answer, CancelWorkflow("w"), together=together) == [None, False]
    assert desk.result() == 7


@TOGETHER
def test_failed_attempt_first_then_cancel(together: bool) -> None:
    """A workflow that is cancelled while it waits for the next attempt makes no further attempt."""
    desk = Desk(*EVERY)
    desk.start(tidy())
    answer = desk.answer(desk.activities[0], error=ValueError("no"))
    assert desk.two(answer, CancelWorkflow("w"), together=together) == [None, True]
    desk.advance(1000)
    assert [entry.status.value for entry in desk.history()] == ["retry", "ok"]
    assert [effect.definition.name for effect in desk.activities][-1] == "desk.clean"


@ERROR
@TOGETHER
def test_cleanup_runs_and_late_answer_is_dropped(error: Exception | None, together: bool) -> None:
    """The cleanup of a cancelled workflow runs once, and the late answer of the stopped activity is not recorded."""
    desk = Desk(*EVERY)
    desk.start(tidy())
    desk.two(CancelWorkflow("w"), desk.answer(desk.activities[0], 1, error), together=together)
    (cleanup,) = desk.activities
    assert cleanup.definition.name == "desk.clean"
    assert [entry.kind.value for entry in desk.history()] == ["cancel"]
    desk.finish(cleanup)
    assert desk.status() is WorkflowStatus.CANCELLED


@pytest.mark.parametrize("clean", [True, False])
def test_cancel_survives_a_restart(clean: bool) -> None:
    """A restart during the cleanup runs the cleanup again and changes nothing about the end."""
    desk = Desk(*EVERY)
    desk.start(tidy())
    desk.cancel(reason="why")
    desk.restart(*EVERY, clean=clean)
    (cleanup,) = desk.activities
    assert cleanup.definition.name == "desk.clean"
    desk.fail(cleanup, ValueError("cannot clean"))
    assert desk.status() is WorkflowStatus.CANCELLED
    assert desk.record().cancel_reason == "why"


@TOGETHER
def test_cancel_twice_raises_twice(together: bool) -> None:
    """A second cancel during the cleanup is raised there, and its reason stands."""
    desk = Desk(*EVERY)
    desk.start(tidy())
    assert desk.two(CancelWorkflow("w", "first"), CancelWorkflow("w", "second"), together=together) == [True, True]
    assert desk.activities == []
    assert desk.record().cancel_reason == "second"
    assert refusal(desk.batch(event_of(go, 1, to="w"))[0]) == (WorkflowTerminated, "w", "cancelled")
    assert desk.cancel() is False

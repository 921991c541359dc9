"""An event is sent to a workflow that is about to end."""

from __future__ import annotations

from durable import Delivered, Queued, WorkflowStatus, WorkflowTerminated
from durable.engine.operations import CancelWorkflow
from tests.engine.direct import DirectEngine, event_of, refusal
from tests.engine.flows import EVERY, go, waiter, worker
from tests.races.kit import TOGETHER


@TOGETHER
def test_event_before_the_end_becomes_a_dead_letter(together: bool) -> None:
    """An event accepted just before the end is not lost: it is a dead letter."""
    engine = DirectEngine(*EVERY)
    engine.start(worker())
    ends = engine.answer(engine.activities[0], 1)
    assert engine.two(event_of(go, 5, to="w"), ends, together=together) == [Queued(), None]
    assert [(letter.workflow_id, letter.payload) for letter in engine.letters()] == [("w", 5)]
    assert engine.pending("go") == 0


@TOGETHER
def test_event_after_the_end_is_refused(together: bool) -> None:
    """An event sent just after the end is refused with the status, and nothing is stored."""
    engine = DirectEngine(*EVERY)
    engine.start(worker())
    ends = engine.answer(engine.activities[0], 1)
    _, reply = engine.two(ends, event_of(go, 5, to="w"), together=together)
    assert refusal(reply) == (WorkflowTerminated, "w", "succeeded")
    assert (engine.letters(), engine.pending("go")) == ([], 0)


@TOGETHER
def test_second_event_after_the_one_that_ends(together: bool) -> None:
    """Of two events to a workflow that needs one, the first is delivered and the second is refused."""
    engine = DirectEngine(*EVERY)
    engine.start(waiter())
    first, second = engine.two(event_of(go, 1, to="w"), event_of(go, 2, to="w"), together=together)
    assert first == Delivered(("w",))
    assert refusal(second) == (WorkflowTerminated, "w", "succeeded")
    assert engine.result() == 1


@TOGETHER
def test_second_untargeted_event_is_kept(together: bool) -> None:
    """Of two untargeted events the one that is not needed stays for the next waiter."""
    engine = DirectEngine(*EVERY)
    engine.start(waiter())
    replies = engine.two(event_of(go, 1), event_of(go, 2), together=together)
    assert replies == [Delivered(("w",)), Queued()]
    engine.start(waiter(), "next")
    assert (engine.result("w"), engine.result("next")) == (1, 2)


@TOGETHER
def test_event_against_cancel(together: bool) -> None:
    """An event that is sent after a cancel is refused; one that came before has ended the workflow."""
    for event_first in (True, False):
        engine = DirectEngine(*EVERY)
        engine.start(waiter())
        send, cancel = event_of(go, 1, to="w"), CancelWorkflow("w")
        first, second = engine.two(*((send, cancel) if event_first else (cancel, send)), together=together)
        if event_first:
            assert (first, second) == (Delivered(("w",)), False)
        else:
            assert (first, refusal(second)) == (True, (WorkflowTerminated, "w", "cancelled"))
        assert engine.status() is (WorkflowStatus.SUCCEEDED if event_first else WorkflowStatus.CANCELLED)

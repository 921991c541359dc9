"""A child ends while its parent begins to wait, does something else, is parked or ends."""

from __future__ import annotations

import pytest

from durable import Durable, WorkflowStatus, WorkflowTerminated, gather, workflow
from durable.engine.operations import CancelWorkflow, ResumeWorkflow
from tests.engine.direct import DirectEngine, event_of, refusal
from tests.engine.flows import EVERY, go, other, parent_of_nothing, parent_of_waiter, racer, waiter, work
from tests.races.kit import TOGETHER


@workflow(name="race.busy_parent")
def busy_parent() -> Durable[tuple[int, int]]:
    """A child and an activity at once."""
    return (yield from gather(waiter(), work(1)))


def test_child_that_ends_in_the_decision_that_starts_it() -> None:
    """A child that ends at once answers its parent in the decision in which it is started."""
    engine = DirectEngine(*EVERY)
    engine.start(parent_of_nothing())
    assert engine.result() == 5
    assert engine.result("w/0") == 5


@pytest.mark.parametrize("clean", [True, False])
def test_child_that_ends_at_once_after_a_restart(clean: bool) -> None:
    """A child that a restarted parent starts and that ends at once is started once."""
    engine = DirectEngine(*EVERY)
    engine.start(parent_of_nothing(True))
    engine.restart(*EVERY, clean=clean)
    engine.finish(engine.activities[0], 1)
    assert (engine.result(), engine.result("w/1")) == (5, 5)


@TOGETHER
@pytest.mark.parametrize("child_first", [True, False])
def test_child_against_activity_of_its_parent(together: bool, child_first: bool) -> None:
    """A child and an activity of its parent may end in either order; the parent gets both results."""
    engine = DirectEngine(*EVERY, busy_parent)
    engine.start(busy_parent())
    child, work_done = event_of(go, 5, to="w/0.0.0"), engine.answer(engine.activities[0], 6)
    engine.two(*((child, work_done) if child_first else (work_done, child)), together=together)
    assert engine.result() == [5, 6]
    kinds = [entry.kind.value for entry in engine.history()]
    assert kinds == (["child", "activity"] if child_first else ["activity", "child"])


@TOGETHER
def test_child_wins_its_race(together: bool) -> None:
    """A child that ends just before the event that it races wins, and the event stays queued."""
    engine = DirectEngine(*EVERY)
    engine.start(racer())
    engine.two(event_of(go, 1, to="w/0.child.0"), event_of(other, 2), together=together)
    engine.advance(60)
    assert engine.result() == "child"
    assert engine.pending("other") == 1


@TOGETHER
def test_child_loses_its_race(together: bool) -> None:
    """A child that loses to an event is cancelled, and later events to it are refused."""
    engine = DirectEngine(*EVERY)
    engine.start(racer())
    _, reply = engine.two(event_of(other, 2), event_of(go, 1, to="w/0.child.0"), together=together)
    assert refusal(reply) == (WorkflowTerminated, "w/0.child.0", "cancelled")
    assert engine.status("w/0.child.0") is WorkflowStatus.CANCELLED
    engine.advance(60)
    assert engine.result() == "event"


@pytest.mark.parametrize("ends_by", ["event", "cancel"])
def test_child_that_ends_while_its_parent_is_parked(ends_by: str) -> None:
    """A parent that is parked when its child ends gets the child's end when its code is back."""
    engine = DirectEngine(*EVERY)
    engine.start(parent_of_waiter())
    engine.restart(waiter)
    engine.do(ResumeWorkflow(engine.record().key))
    assert engine.status() is WorkflowStatus.PARKED
    engine.do(event_of(go, 5, to="w/0") if ends_by == "event" else CancelWorkflow("w/0"))
    assert engine.status() is WorkflowStatus.PARKED
    assert engine.history() == []
    report = engine.restart(*EVERY)
    assert report.unparked == 1
    assert engine.result() == 5 if ends_by == "event" else engine.result()[0] == "ChildWorkflowCancelled"


def test_child_end_parks_a_parent_without_code() -> None:
    """A child ends although its parent's code is gone; the parent is parked and gets the result later."""
    engine = DirectEngine(*EVERY)
    engine.start(parent_of_waiter())
    engine.restart(waiter)
    engine.send(go, 5, to="w/0")
    assert (engine.status(), engine.status("w/0")) == (WorkflowStatus.PARKED, WorkflowStatus.SUCCEEDED)
    engine.restart(*EVERY)
    assert engine.result() == 5


@TOGETHER
@pytest.mark.parametrize("child_first", [True, False])
def test_child_against_cancel_of_its_parent(together: bool, child_first: bool) -> None:
    """A parent that is cancelled around the end of its child ends cancelled, unless the child had ended it before."""
    engine = DirectEngine(*EVERY)
    engine.start(parent_of_waiter())
    child, cancel = event_of(go, 5, to="w/0"), CancelWorkflow("w")
    engine.two(*((child, cancel) if child_first else (cancel, child)), together=together)
    expected = WorkflowStatus.SUCCEEDED if child_first else WorkflowStatus.CANCELLED
    assert (engine.status(), engine.status("w/0")) == (expected, expected)

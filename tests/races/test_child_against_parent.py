"""A child ends while its parent begins to wait, does something else, is parked or ends."""

from __future__ import annotations

import pytest

from durable import Durable, WorkflowStatus, WorkflowTerminated, gather, workflow
from durable.engine.operations import CancelWorkflow, ResumeWorkflow
from tests.engine.desk import Desk, event_of, refusal
from tests.engine.flows import EVERY, go, other, parent_of_nothing, parent_of_waiter, racer, waiter, work
from tests.races.kit import TOGETHER


@workflow(name="race.busy_parent")
def busy_parent() -> Durable[tuple[int, int]]:
    """A child and an activity at once."""
    return (yield from gather(waiter(), work(1)))


def test_child_that_ends_in_the_decision_that_starts_it() -> None:
    """A child that ends at once answers its parent in the decision in which it is started."""
    desk = Desk(*EVERY)
    desk.start(parent_of_nothing())
    assert desk.result() == 5
    assert desk.result("w/0") == 5


@pytest.mark.parametrize("clean", [True, False])
def test_child_that_ends_at_once_after_a_restart(clean: bool) -> None:
    """A child that a restarted parent starts and that ends at once is started once."""
    desk = Desk(*EVERY)
    desk.start(parent_of_nothing(True))
    desk.restart(*EVERY, clean=clean)
    desk.finish(desk.activities[0], 1)
    assert (desk.result(), desk.result("w/1")) == (5, 5)


@TOGETHER
@pytest.mark.parametrize("child_first", [True, False])
def test_child_against_activity_of_its_parent(together: bool, child_first: bool) -> None:
    """A child and an activity of its parent may end in either order; the parent gets both results."""
    desk = Desk(*EVERY, busy_parent)
    desk.start(busy_parent())
    child, work_done = event_of(go, 5, to="w/0.0.0"), desk.answer(desk.activities[0], 6)
    desk.two(*((child, work_done) if child_first else (work_done, child)), together=together)
    assert desk.result() == [5, 6]
    kinds = [entry.kind.value for entry in desk.history()]
    assert kinds == (["child", "activity"] if child_first else ["activity", "child"])


@TOGETHER
def test_child_wins_its_race(together: bool) -> None:
    """A child that ends just before the event that it races wins, and the event stays queued."""
    desk = Desk(*EVERY)
    desk.start(racer())
    desk.two(event_of(go, 1, to="w/0.child.0"), event_of(other, 2), together=together)
    desk.advance(60)
    assert desk.result() == "child"
    assert desk.pending("other") == 1


@TOGETHER
def test_child_loses_its_race(together: bool) -> None:
    """A child that loses to an event is cancelled, and later events to it are refused."""
    desk = Desk(*EVERY)
    desk.start(racer())
    _, reply = desk.two(event_of(other, 2), event_of(go, 1, to="w/0.child.0"), together=together)
    assert refusal(reply) == (WorkflowTerminated, "w/0.child.0", "cancelled")
    assert desk.status("w/0.child.0") is WorkflowStatus.CANCELLED
    desk.advance(60)
    assert desk.result() == "event"


@pytest.mark.parametrize("ends_by", ["event", "cancel"])
def test_child_that_ends_while_its_parent_is_parked(ends_by: str) -> None:
    """A parent that is parked when its child ends gets the child's end when its code is back."""
    desk = Desk(*EVERY)
    desk.start(parent_of_waiter())
    desk.restart(waiter)
    desk.do(ResumeWorkflow(desk.record().key))
    assert desk.status() is WorkflowStatus.PARKED
    desk.do(event_of(go, 5, to="w/0") if ends_by == "event" else CancelWorkflow("w/0"))
    assert desk.status() is WorkflowStatus.PARKED
    assert desk.history() == []
    report = desk.restart(*EVERY)
    assert report.unparked == 1
    assert desk.result() == 5 if ends_by == "event" else desk.result()[0] == "ChildWorkflowCancelled"


def test_child_end_parks_a_parent_without_code() -> None:
    """A child ends although its parent's code is gone; the parent is parked and gets the result later."""
    desk = Desk(*EVERY)
    desk.start(parent_of_waiter())
    desk.restart(waiter)
    desk.send(go, 5, to="w/0")
    assert (desk.status(), desk.status("w/0")) == (WorkflowStatus.PARKED, WorkflowStatus.SUCCEEDED)
    desk.restart(*EVERY)
    assert desk.result() == 5


@TOGETHER
@pytest.mark.parametrize("child_first", [True, False])
def test_child_against_cancel_of_its_parent(together: bool, child_first: bool) -> None:
    """A parent that is cancelled around the end of its child ends cancelled, unless the child had ended it before."""
    desk = Desk(*EVERY)
    desk.start(parent_of_waiter())
    child, cancel = event_of(go, 5, to="w/0"), CancelWorkflow("w")
    desk.two(*((child, cancel) if child_first else (cancel, child)), together=together)
    expected = WorkflowStatus.SUCCEEDED if child_first else WorkflowStatus.CANCELLED
    assert (desk.status(), desk.status("w/0")) == (expected, expected)

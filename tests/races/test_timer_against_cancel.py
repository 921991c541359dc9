"""A timer fires while its workflow is cancelled or terminated."""

from __future__ import annotations

import pytest

from durable import WorkflowStatus
from durable.engine.operations import CancelWorkflow, TerminateWorkflow, WakeWorkflow
from tests.engine.desk import Desk
from tests.engine.flows import EVERY, parent, sleeper
from tests.races.kit import TOGETHER

END = pytest.mark.parametrize("end", [CancelWorkflow("w", "why"), TerminateWorkflow("w", "why")])


def _desk() -> tuple[Desk, WakeWorkflow]:
    desk = Desk(*EVERY)
    desk.start(sleeper(60))
    desk.clock.advance(60)
    return desk, WakeWorkflow(desk.record().key)


@END
@TOGETHER
def test_cancel_before_the_timer(end: CancelWorkflow, together: bool) -> None:
    """A workflow that is cancelled when its timer comes due ends cancelled, and the timer does nothing."""
    desk, wake = _desk()
    assert desk.two(end, wake, together=together) == [True, None]
    assert desk.status() is WorkflowStatus.CANCELLED
    assert desk.record().cancel_reason == "why"


@END
@TOGETHER
def test_timer_before_the_cancel(end: CancelWorkflow, together: bool) -> None:
    """A workflow that its timer has ended cannot be cancelled, and the caller gets that answer."""
    desk, wake = _desk()
    assert desk.two(wake, end, together=together) == [None, False]
    assert desk.status() is WorkflowStatus.SUCCEEDED


@TOGETHER
@pytest.mark.parametrize("cancel_first", [True, False])
def test_timer_of_a_child_against_cancel_of_its_parent(together: bool, cancel_first: bool) -> None:
    """A child's timer and its parent's cancellation end both workflows in the same way, in either order."""
    desk = Desk(*EVERY)
    desk.start(parent(60))
    desk.clock.advance(60)
    wake = WakeWorkflow(desk.record("w/0").key)
    pair = (CancelWorkflow("w"), wake) if cancel_first else (wake, CancelWorkflow("w"))
    desk.two(*pair, together=together)
    expected = WorkflowStatus.CANCELLED if cancel_first else WorkflowStatus.SUCCEEDED
    assert (desk.status("w"), desk.status("w/0")) == (expected, expected)

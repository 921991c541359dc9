"""A timer fires while its workflow is cancelled or terminated."""

from __future__ import annotations

import pytest

from durable import WorkflowStatus
from durable.engine.operations import CancelWorkflow, TerminateWorkflow, WakeWorkflow
from tests.engine.direct import DirectEngine
from tests.engine.flows import EVERY, parent, sleeper
from tests.races.kit import TOGETHER

END = pytest.mark.parametrize("end", [CancelWorkflow("w", "why"), TerminateWorkflow("w", "why")])


def _engine() -> tuple[DirectEngine, WakeWorkflow]:
    engine = DirectEngine(*EVERY)
    engine.start(sleeper(60))
    engine.clock.advance(60)
    return engine, WakeWorkflow(engine.record().key)


@END
@TOGETHER
def test_cancel_before_the_timer(end: CancelWorkflow, together: bool) -> None:
    """A workflow that is cancelled when its timer comes due ends cancelled, and the timer does nothing."""
    engine, wake = _engine()
    assert engine.two(end, wake, together=together) == [True, None]
    assert engine.status() is WorkflowStatus.CANCELLED
    assert engine.record().cancel_reason == "why"


@END
@TOGETHER
def test_timer_before_the_cancel(end: CancelWorkflow, together: bool) -> None:
    """A workflow that its timer has ended cannot be cancelled, and the caller gets that answer."""
    engine, wake = _engine()
    assert engine.two(wake, end, together=together) == [None, False]
    assert engine.status() is WorkflowStatus.SUCCEEDED


@TOGETHER
@pytest.mark.parametrize("cancel_first", [True, False])
def test_timer_of_a_child_against_cancel_of_its_parent(together: bool, cancel_first: bool) -> None:
    """A child's timer and its parent's cancellation end both workflows in the same way, in either order."""
    engine = DirectEngine(*EVERY)
    engine.start(parent(60))
    engine.clock.advance(60)
    wake = WakeWorkflow(engine.record("w/0").key)
    pair = (CancelWorkflow("w"), wake) if cancel_first else (wake, CancelWorkflow("w"))
    engine.two(*pair, together=together)
    expected = WorkflowStatus.CANCELLED if cancel_first else WorkflowStatus.SUCCEEDED
    assert (engine.status("w"), engine.status("w/0")) == (expected, expected)

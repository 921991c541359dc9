"""A timer of a wait that is over comes due while the workflow is at its next wait."""

from __future__ import annotations

import pytest

from durable import WorkflowStatus
from durable.engine.operations import WakeWorkflow
from tests.engine.desk import Desk, event_of
from tests.engine.flows import EVERY, go, patient
from tests.races.kit import TOGETHER


@pytest.mark.parametrize("restarted", [True, False])
def test_stale_timer_fires_nothing(restarted: bool) -> None:
    """The deadline of a wait that is over does not affect the next wait."""
    desk = Desk(*EVERY)
    desk.start(patient(60))
    desk.send(go, 1, to="w")
    if restarted:
        desk.restart(*EVERY)
    assert desk.record().wake_at is None
    desk.advance(60)
    desk.do(WakeWorkflow(desk.record().key))
    assert desk.status() is WorkflowStatus.SUSPENDED
    desk.send(go, 2, to="w")
    assert desk.result() == [1, 2]


@TOGETHER
def test_wake_up_that_was_queued_before_the_event(together: bool) -> None:
    """A wake-up that was already on its way when the event ended the wait does nothing."""
    desk = Desk(*EVERY)
    desk.start(patient(60))
    desk.clock.advance(60)
    key = desk.record().key
    desk.two(event_of(go, 1, to="w"), WakeWorkflow(key), together=together)
    assert [entry.kind.value for entry in desk.history()] == ["event"]
    assert len(desk.waits()) == 1


def test_wake_up_of_an_unknown_workflow() -> None:
    """A wake-up for a workflow that is not stored, or that has ended, does nothing."""
    desk = Desk(*EVERY)
    desk.start(patient(60))
    key = desk.record().key
    desk.cancel()
    desk.do(WakeWorkflow(key))
    desk.do(WakeWorkflow(4711))
    assert desk.status() is WorkflowStatus.CANCELLED

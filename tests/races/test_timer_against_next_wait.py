"""A timer of a wait that is over comes due while the workflow is at its next wait."""

from __future__ import annotations

import pytest

from durable import WorkflowStatus
from durable.engine.operations import WakeWorkflow
from tests.engine.direct import DirectEngine, event_of
from tests.engine.flows import EVERY, go, patient
from tests.races.kit import TOGETHER


@pytest.mark.parametrize("restarted", [True, False])
def test_stale_timer_fires_nothing(restarted: bool) -> None:
    """The deadline of a wait that is over does not affect the next wait."""
    engine = DirectEngine(*EVERY)
    engine.start(patient(60))
    engine.send(go, 1, to="w")
    if restarted:
        engine.restart(*EVERY)
    assert engine.record().wake_at is None
    engine.advance(60)
    engine.do(WakeWorkflow(engine.record().key))
    assert engine.status() is WorkflowStatus.SUSPENDED
    engine.send(go, 2, to="w")
    assert engine.result() == [1, 2]


@TOGETHER
def test_wake_up_that_was_queued_before_the_event(together: bool) -> None:
    """A wake-up that was already on its way when the event ended the wait does nothing."""
    engine = DirectEngine(*EVERY)
    engine.start(patient(60))
    engine.clock.advance(60)
    key = engine.record().key
    engine.two(event_of(go, 1, to="w"), WakeWorkflow(key), together=together)
    assert [entry.kind.value for entry in engine.history()] == ["event"]
    assert len(engine.waits()) == 1


def test_wake_up_of_an_unknown_workflow() -> None:
    """A wake-up for a workflow that is not stored, or that has ended, does nothing."""
    engine = DirectEngine(*EVERY)
    engine.start(patient(60))
    key = engine.record().key
    engine.cancel()
    engine.do(WakeWorkflow(key))
    engine.do(WakeWorkflow(4711))
    assert engine.status() is WorkflowStatus.CANCELLED

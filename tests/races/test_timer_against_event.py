"""A deadline passes while the event it guards arrives."""

from __future__ import annotations

import pytest

from durable import Delivered, Queued, WorkflowStatus
from durable.engine.operations import WakeWorkflow
from tests.engine.direct import DirectEngine, event_of
from tests.engine.flows import EVERY, go, hesitant
from tests.races.kit import TO, TOGETHER


def _engine() -> tuple[DirectEngine, WakeWorkflow]:
    """A workflow whose deadline has passed, before the timer is fired."""
    engine = DirectEngine(*EVERY)
    engine.start(hesitant())
    engine.clock.advance(60)
    return engine, WakeWorkflow(engine.record().key)


@TO
@TOGETHER
def test_event_before_the_timer_wins(together: bool, to: str | None) -> None:
    """An event that arrives before the timer is fired wins, even after the deadline, and the timer does nothing."""
    engine, wake = _engine()
    replies = engine.two(event_of(go, 5, to=to), wake, together=together)
    assert replies == [Delivered(("w",)), None]
    assert [(entry.kind.value, entry.outcome) for entry in engine.history()] == [("event", "5")]
    assert len(engine.activities) == 1


@TO
@TOGETHER
def test_timer_before_the_event_wins(together: bool, to: str | None) -> None:
    """An event that arrives after the timer has fired stays queued, and the next wait takes it."""
    engine, wake = _engine()
    replies = engine.two(wake, event_of(go, 5, to=to), together=together)
    assert replies == [None, Queued()]
    assert engine.waits() == []
    engine.finish(engine.activities[0], 1)
    assert engine.pending("go") == 0
    engine.advance(1000)
    assert engine.result() == [-1, 5]


@TOGETHER
def test_timer_twice_fires_once(together: bool) -> None:
    """Two wake-ups for one deadline are one timer."""
    engine, wake = _engine()
    engine.two(wake, wake, together=together)
    assert len(engine.history()) == 1
    assert len(engine.activities) == 1


@pytest.mark.parametrize("clean", [True, False])
def test_restart_between_deadline_and_event(clean: bool) -> None:
    """A deadline that passed while no engine ran has fired before any event sent after the restart."""
    engine, _ = _engine()
    engine.restart(*EVERY, clean=clean)
    assert engine.status() is WorkflowStatus.RUNNING
    assert engine.send(go, 5, to="w") == Queued()
    assert [entry.kind.value for entry in engine.history()] == ["timer"]

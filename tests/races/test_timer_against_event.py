"""A deadline passes while the event it guards arrives."""

from __future__ import annotations

import pytest

from durable import Delivered, Queued, WorkflowStatus
from durable.engine.operations import WakeWorkflow
from tests.engine.desk import Desk, event_of
from tests.engine.flows import EVERY, go, hesitant
from tests.races.kit import TO, TOGETHER


def _desk() -> tuple[Desk, WakeWorkflow]:
    """A workflow whose deadline has passed, before the timer is fired."""
    desk = Desk(*EVERY)
    desk.start(hesitant())
    desk.clock.advance(60)
    return desk, WakeWorkflow(desk.record().key)


@TO
@TOGETHER
def test_event_before_the_timer_wins(together: bool, to: str | None) -> None:
    """An event that arrives before the timer is fired wins, also after its deadline, and the timer does nothing."""
    desk, wake = _desk()
    replies = desk.two(event_of(go, 5, to=to), wake, together=together)
    assert replies == [Delivered(("w",)), None]
    assert [(entry.kind.value, entry.outcome) for entry in desk.history()] == [("event", "5")]
    assert len(desk.activities) == 1


@TO
@TOGETHER
def test_timer_before_the_event_wins(together: bool, to: str | None) -> None:
    """An event that arrives after the timer has fired stays queued, and the next wait takes it."""
    desk, wake = _desk()
    replies = desk.two(wake, event_of(go, 5, to=to), together=together)
    assert replies == [None, Queued()]
    assert desk.waits() == []
    desk.finish(desk.activities[0], 1)
    assert desk.pending("go") == 0
    desk.advance(1000)
    assert desk.result() == [-1, 5]


@TOGETHER
def test_timer_twice_fires_once(together: bool) -> None:
    """Two wake-ups for one deadline are one timer."""
    desk, wake = _desk()
    desk.two(wake, wake, together=together)
    assert len(desk.history()) == 1
    assert len(desk.activities) == 1


@pytest.mark.parametrize("clean", [True, False])
def test_restart_between_deadline_and_event(clean: bool) -> None:
    """A deadline that passed while no engine ran has fired before any event sent after the restart."""
    desk, _ = _desk()
    desk.restart(*EVERY, clean=clean)
    assert desk.status() is WorkflowStatus.RUNNING
    assert desk.send(go, 5, to="w") == Queued()
    assert [entry.kind.value for entry in desk.history()] == ["timer"]

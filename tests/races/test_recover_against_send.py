"""Work arrives while a restarted engine still recovers."""

from __future__ import annotations

import pytest

from durable import Delivered, Queued, WorkflowStatus
from durable.engine.operations import CancelWorkflow, RecoverWorkflows
from tests.engine.desk import Desk, call_of, event_of
from tests.engine.flows import EVERY, go, late_waiter, steady, tidy, waiter
from tests.races.kit import TO, TOGETHER

CLEAN = pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
FIRST = pytest.mark.parametrize("recover_first", [True, False])


@CLEAN
@FIRST
@TO
@TOGETHER
def test_event_for_a_waiter(together: bool, to: str | None, recover_first: bool, clean: bool) -> None:
    """A waiter takes an event before, during and after the recovery alike."""
    desk = Desk(*EVERY)
    desk.start(waiter())
    desk.restart(*EVERY, clean=clean, recover=False)
    recover, send = RecoverWorkflows(), event_of(go, 5, to=to)
    replies = desk.two(*((recover, send) if recover_first else (send, recover)), together=together)
    assert Delivered(("w",)) in replies
    desk.settle()
    assert desk.result() == 5


@CLEAN
@FIRST
@TOGETHER
def test_event_for_one_that_runs(together: bool, recover_first: bool, clean: bool) -> None:
    """An event for a running workflow waits in its mailbox, and its activity is handed out once."""
    desk = Desk(*EVERY)
    desk.start(steady())
    desk.restart(*EVERY, clean=clean, recover=False)
    recover, send = RecoverWorkflows(), event_of(go, 5, to="w")
    replies = desk.two(*((recover, send) if recover_first else (send, recover)), together=together)
    assert Queued() in replies
    desk.settle()
    (effect,) = desk.activities
    desk.finish(effect, 1)
    desk.advance(1000)
    assert desk.result() == 5


@CLEAN
@FIRST
@TOGETHER
def test_cancel_during_recovery(together: bool, recover_first: bool, clean: bool) -> None:
    """A cancel during the recovery is a cancel like any other: the cleanup runs, once."""
    desk = Desk(*EVERY)
    desk.start(tidy())
    desk.restart(*EVERY, clean=clean, recover=False)
    recover, cancel = RecoverWorkflows(), CancelWorkflow("w")
    desk.two(*((recover, cancel) if recover_first else (cancel, recover)), together=together)
    desk.settle()
    (cleanup,) = desk.activities
    assert cleanup.definition.name == "desk.clean"
    desk.finish(cleanup)
    assert desk.status() is WorkflowStatus.CANCELLED


@FIRST
@TOGETHER
def test_start_during_recovery(together: bool, recover_first: bool) -> None:
    """The same start during the recovery finds the first one and runs nothing twice."""
    desk = Desk(*EVERY)
    desk.start(late_waiter())
    desk.restart(*EVERY, recover=False)
    recover, start = RecoverWorkflows(), call_of(late_waiter(), "w")
    desk.two(*((recover, start) if recover_first else (start, recover)), together=together)
    desk.settle()
    assert len(desk.activities) == 1


def test_recover_again_is_harmless() -> None:
    """Recovering again hands nothing out again and changes nothing."""
    desk = Desk(*EVERY)
    desk.start(late_waiter())
    desk.restart(*EVERY)
    effects = len(desk.effects)
    report = desk.recover()
    assert (report.resumed, report.parked, report.unparked, report.suspects) == (0, 0, 0, 0)
    assert len(desk.effects) == effects

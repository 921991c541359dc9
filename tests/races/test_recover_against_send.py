"""Work arrives while a restarted engine still recovers."""

from __future__ import annotations

import pytest

from durable import Delivered, Queued, WorkflowStatus
from durable.engine.operations import CancelWorkflow, RecoverWorkflows
from tests.engine.direct import DirectEngine, call_of, event_of
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
    engine = DirectEngine(*EVERY)
    engine.start(waiter())
    engine.restart(*EVERY, clean=clean, recover=False)
    recover, send = RecoverWorkflows(), event_of(go, 5, to=to)
    replies = engine.two(*((recover, send) if recover_first else (send, recover)), together=together)
    assert Delivered(("w",)) in replies
    engine.settle()
    assert engine.result() == 5


@CLEAN
@FIRST
@TOGETHER
def test_event_for_one_that_runs(together: bool, recover_first: bool, clean: bool) -> None:
    """An event for a running workflow waits in its mailbox, and its activity is handed out once."""
    engine = DirectEngine(*EVERY)
    engine.start(steady())
    engine.restart(*EVERY, clean=clean, recover=False)
    recover, send = RecoverWorkflows(), event_of(go, 5, to="w")
    replies = engine.two(*((recover, send) if recover_first else (send, recover)), together=together)
    assert Queued() in replies
    engine.settle()
    (effect,) = engine.activities
    engine.finish(effect, 1)
    engine.advance(1000)
    assert engine.result() == 5


@CLEAN
@FIRST
@TOGETHER
def test_cancel_during_recovery(together: bool, recover_first: bool, clean: bool) -> None:
    """A cancel during the recovery is a cancel like any other: the cleanup runs, once."""
    engine = DirectEngine(*EVERY)
    engine.start(tidy())
    engine.restart(*EVERY, clean=clean, recover=False)
    recover, cancel = RecoverWorkflows(), CancelWorkflow("w")
    engine.two(*((recover, cancel) if recover_first else (cancel, recover)), together=together)
    engine.settle()
    (cleanup,) = engine.activities
    assert cleanup.definition.name == "engine.clean"
    engine.finish(cleanup)
    assert engine.status() is WorkflowStatus.CANCELLED


@FIRST
@TOGETHER
def test_start_during_recovery(together: bool, recover_first: bool) -> None:
    """The same start during the recovery finds the first one and runs nothing twice."""
    engine = DirectEngine(*EVERY)
    engine.start(late_waiter())
    engine.restart(*EVERY, recover=False)
    recover, start = RecoverWorkflows(), call_of(late_waiter(), "w")
    engine.two(*((recover, start) if recover_first else (start, recover)), together=together)
    engine.settle()
    assert len(engine.activities) == 1


def test_recover_again_is_harmless() -> None:
    """Recovering again hands nothing out again and changes nothing."""
    engine = DirectEngine(*EVERY)
    engine.start(late_waiter())
    engine.restart(*EVERY)
    effects = len(engine.effects)
    report = engine.recover()
    assert (report.resumed, report.parked, report.unparked, report.suspects) == (0, 0, 0, 0)
    assert len(engine.effects) == effects

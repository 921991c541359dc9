"""Children when their parent ends: kept or cancelled, however it ends, even while it is parked."""

from __future__ import annotations

from typing import Any

import pytest

from durable import Durable, OnParentClose, WorkflowStatus, spawn, workflow
from durable.engine.operations import CancelWorkflow, ResumeWorkflow, TerminateWorkflow
from tests.engine.direct import DirectEngine
from tests.engine.flows import EVERY, waiter, work
from tests.engine.test_spawning import FLOWS, ask, forgetful

KEEP, CANCEL = OnParentClose.KEEP, OnParentClose.CANCEL


@pytest.mark.parametrize("close", ["keep", "cancel"])
@pytest.mark.parametrize("how", ["returns", "fails", "cancelled", "terminated", "terminated while parked"])
@pytest.mark.parametrize("is_evicted", [True, False])
def test_on_parent_close(how: str, close: str, is_evicted: bool) -> None:
    """However a parent ends, a kept child continues, and a tied one is cancelled in the same commit."""
    engine = DirectEngine(*FLOWS)
    engine.start(forgetful(close, how))
    if is_evicted:
        engine.restart(*FLOWS)
    if how == "terminated while parked":
        engine.restart(*EVERY)
        engine.send(ask, 1, to="w")
        assert engine.status() is WorkflowStatus.PARKED
    if how == "cancelled":
        engine.cancel()
    elif how.startswith("terminated"):
        engine.do(TerminateWorkflow("w"))
    assert engine.status().is_terminal
    expected = WorkflowStatus.SUSPENDED if close == "keep" else WorkflowStatus.CANCELLED
    assert engine.status("w/0") is expected
    if close == "cancel":
        assert engine.record("w/0").cancel_reason == "parent 'w' has ended"


@pytest.mark.parametrize("how", [TerminateWorkflow, CancelWorkflow])
@pytest.mark.parametrize("parked_before", [True, False])
def test_awaited_child_of_a_parked_parent(how: Any, parked_before: bool) -> None:
    """When a parked parent ends, the child that it awaits ends too. A cancel waits for the code."""

    @workflow(name="closing.awaits")
    def awaits() -> Durable[int]:
        return (yield from waiter())

    engine = DirectEngine(*EVERY, awaits)
    engine.start(awaits())
    engine.restart(*EVERY)
    if parked_before:
        engine.do(ResumeWorkflow(engine.record().key))
    engine.do(how("w"))
    if how is CancelWorkflow:
        assert engine.status("w/0") is WorkflowStatus.SUSPENDED
        engine.restart(*EVERY, awaits)
    assert (engine.status(), engine.status("w/0")) == (WorkflowStatus.CANCELLED, WorkflowStatus.CANCELLED)


def test_spawned_in_the_cleanup() -> None:
    """A child that is spawned during cleanup is kept or cancelled like any other."""

    @workflow(name="closing.careful")
    def careful(close: str) -> Durable[None]:
        try:
            yield from ask.wait()
        finally:
            yield from spawn(waiter(), on_parent_close=OnParentClose(close))
            yield from work(1)

    engine = DirectEngine(*FLOWS, careful)
    for close in ("keep", "cancel"):
        engine.start(careful(close), close)
        engine.cancel(close)
        assert engine.status(f"{close}/1") is WorkflowStatus.SUSPENDED
        engine.finish(engine.activities[0], 1)
    assert [engine.status(f"{close}/1").value for close in ("keep", "cancel")] == ["suspended", "cancelled"]

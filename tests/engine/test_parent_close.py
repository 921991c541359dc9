"""What becomes of children when their parent ends: kept or not, in whatever way it ends, also while it is parked."""

from __future__ import annotations

from typing import Any

import pytest

from durable import Durable, OnParentClose, WorkflowStatus, spawn, workflow
from durable.engine.operations import CancelWorkflow, ResumeWorkflow, TerminateWorkflow
from tests.engine.desk import Desk
from tests.engine.flows import EVERY, waiter, work
from tests.engine.test_spawning import FLOWS, ask, forgetful

KEEP, CANCEL = OnParentClose.KEEP, OnParentClose.CANCEL


@pytest.mark.parametrize("close", ["keep", "cancel"])
@pytest.mark.parametrize("how", ["returns", "fails", "cancelled", "terminated", "terminated while parked"])
@pytest.mark.parametrize("is_evicted", [True, False])
def test_on_parent_close(how: str, close: str, is_evicted: bool) -> None:
    """However a parent ends, a kept child goes on and another is cancelled with it, in the same commit."""
    desk = Desk(*FLOWS)
    desk.start(forgetful(close, how))
    if is_evicted:
        desk.restart(*FLOWS)
    if how == "terminated while parked":
        desk.restart(*EVERY)
        desk.send(ask, 1, to="w")
        assert desk.status() is WorkflowStatus.PARKED
    if how == "cancelled":
        desk.cancel()
    elif how.startswith("terminated"):
        desk.do(TerminateWorkflow("w"))
    assert desk.status().is_terminal
    expected = WorkflowStatus.SUSPENDED if close == "keep" else WorkflowStatus.CANCELLED
    assert desk.status("w/0") is expected
    if close == "cancel":
        assert desk.record("w/0").cancel_reason == "parent 'w' has ended"


@pytest.mark.parametrize("how", [TerminateWorkflow, CancelWorkflow])
@pytest.mark.parametrize("parked_before", [True, False])
def test_awaited_child_of_a_parked_parent(how: Any, parked_before: bool) -> None:
    """A parked parent takes the child with it that it waited for, when it ends: a cancel waits for its code."""

    @workflow(name="closing.awaits")
    def awaits() -> Durable[int]:
        return (yield from waiter())

    desk = Desk(*EVERY, awaits)
    desk.start(awaits())
    desk.restart(*EVERY)
    if parked_before:
        desk.do(ResumeWorkflow(desk.record().key))
    desk.do(how("w"))
    if how is CancelWorkflow:
        assert desk.status("w/0") is WorkflowStatus.SUSPENDED
        desk.restart(*EVERY, awaits)
    assert (desk.status(), desk.status("w/0")) == (WorkflowStatus.CANCELLED, WorkflowStatus.CANCELLED)


def test_spawned_in_the_cleanup() -> None:
    """A workflow that is cancelled may spawn while it cleans up; the child is kept or not like any other."""

    @workflow(name="closing.careful")
    def careful(close: str) -> Durable[None]:
        try:
            yield from ask.wait()
        finally:
            yield from spawn(waiter(), on_parent_close=OnParentClose(close))
            yield from work(1)

    desk = Desk(*FLOWS, careful)
    for close in ("keep", "cancel"):
        desk.start(careful(close), close)
        desk.cancel(close)
        assert desk.status(f"{close}/1") is WorkflowStatus.SUSPENDED
        desk.finish(desk.activities[0], 1)
    assert [desk.status(f"{close}/1").value for close in ("keep", "cancel")] == ["suspended", "cancelled"]

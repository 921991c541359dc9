"""A cancelled child finishes its cleanup even if its parent then ends."""

from __future__ import annotations

import pytest

from durable import Durable, OnParentClose, TimedOut, WorkflowStatus, spawn, workflow
from tests.engine.direct import DirectEngine
from tests.engine.flows import EVERY, clean, tidy


@workflow(name="once.parent")
def parent(how: str) -> Durable[None]:
    """Stops waiting for its child, or cancels a spawned one, and ends."""
    if how == "spawned":
        child = yield from spawn(tidy(), on_parent_close=OnParentClose.CANCEL)
        yield from child.cancel()
        return
    try:
        yield from tidy().within(5)
    except TimedOut:
        yield from spawn(tidy(), on_parent_close=OnParentClose.KEEP)


@pytest.mark.parametrize("how", ["awaited", "spawned"])
def test_the_end_of_a_parent_does_not_cancel_its_child_again(how: str) -> None:
    """The end of a parent does not interrupt the cleanup of a child that is already being cancelled."""
    engine = DirectEngine(parent, *EVERY)
    engine.start(parent(how))
    engine.advance(5)
    assert engine.status() is WorkflowStatus.SUCCEEDED
    child = "w/0" if how == "spawned" else "w/0.0.0"
    (cleanup,) = [effect for effect in engine.activities if effect.definition is clean]
    assert cleanup.workflow_id == child
    assert [entry.kind.value for entry in engine.history(child)] == ["cancel"]
    engine.finish(cleanup)
    assert engine.status(child) is WorkflowStatus.CANCELLED

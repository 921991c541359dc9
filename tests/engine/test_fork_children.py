"""Forks of workflows with children: what the copied part has spawned is shared, everything else is their own."""

from __future__ import annotations

import pytest

from durable import ChildHandle, Durable, Event, OnParentClose, WorkflowNotFound, WorkflowStatus, spawn, workflow
from tests.engine.direct import DirectEngine
from tests.engine.flows import EVERY, go, waiter, work
from tests.engine.mending import check_restart, fork, retry

ask = Event[int]("fork-ask")


@workflow(name="fork.spawning")
def spawning() -> Durable[int]:
    """Spawns, works, and asks for the result."""
    handle = yield from spawn(waiter(), on_parent_close=OnParentClose.CANCEL)
    step = yield from work(1)
    return step + (yield from handle.result())


@workflow(name="fork.stopping")
def stopping() -> Durable[bool | str]:
    """Spawns, works, and tells the child to end."""
    handle: ChildHandle[int] = yield from spawn(waiter())
    yield from work(1)
    try:
        return (yield from handle.cancel())
    except WorkflowNotFound as error:
        return error.workflow_id


FLOWS = (*EVERY, spawning, stopping)


@pytest.mark.parametrize("child_first", [True, False])
def test_result_of_a_child_that_was_spawned_before(child_first: bool) -> None:
    """A fork hears the end of the child that the copied part has spawned, like the first, over restarts."""
    engine = DirectEngine(*FLOWS)
    engine.start(spawning())
    engine.finish(engine.activities[0], 1)
    if child_first:
        engine.send(go, 10, to="w/0")
    fork(engine, "1")
    check_restart(engine, *FLOWS)
    engine.finish(engine.activities[0], 2)
    check_restart(engine, *FLOWS)
    if not child_first:
        engine.send(go, 10, to="w/0")
    assert (engine.result(), engine.result("f")) == (11, 12)


def test_child_that_was_spawned_before_is_not_its_own() -> None:
    """It ends with the first and not with the fork, which can neither cancel it nor have it begin anew."""
    engine = DirectEngine(*FLOWS)
    engine.start(spawning())
    engine.finish(engine.activities[0], 1)
    fork(engine, "1")
    engine.cancel("f")
    assert engine.status("w/0") is WorkflowStatus.SUSPENDED
    fork(engine, "1", new_id="g")
    engine.finish(engine.activities[0], 2)
    engine.cancel("w")
    assert [engine.status(id).value for id in ("w", "w/0", "g")] == ["cancelled", "cancelled", "failed"]
    retry(engine, "g")
    assert [engine.status(id).value for id in ("w/0", "g")] == ["cancelled", "failed"]


def test_cancel_of_a_child_that_was_spawned_before() -> None:
    """A fork does not stop what others wait for."""
    engine = DirectEngine(*FLOWS)
    engine.start(stopping())
    engine.finish(engine.activities[0], 1)
    assert engine.status("w/0") is WorkflowStatus.CANCELLED
    fork(engine, "1")
    engine.finish(engine.activities[0], 1)
    assert engine.result("f") == "w/0"


def test_spawned_anew_from_before() -> None:
    """From the step that spawns on it has a child of its own."""
    engine = DirectEngine(*FLOWS)
    engine.start(spawning())
    engine.finish(engine.activities[0], 1)
    fork(engine, "0")
    engine.finish(engine.activities[0], 2)
    engine.send(go, 20, to="f/0")
    assert engine.result("f") == 22
    assert engine.status() is WorkflowStatus.SUSPENDED


def test_purged_child() -> None:
    """If the child is gone the fork is told so."""
    engine = DirectEngine(*FLOWS)
    engine.start(spawning())
    engine.finish(engine.activities[0], 1)
    engine.send(go, 10, to="w/0")
    fork(engine, "1")
    for id in ("w", "w/0"):
        engine.state.batch.workflows_purged.add(engine.record(id).key)
    engine.finish(engine.activities[0], 2)
    assert isinstance(engine.error("f"), WorkflowNotFound)

"""Forks of workflows with children: children spawned in the copied part are shared, later ones are the fork's own."""

from __future__ import annotations

import pytest

from durable import ChildHandle, Durable, Event, OnParentClose, WorkflowNotFound, WorkflowStatus, spawn, workflow
from tests.engine.direct import DirectEngine
from tests.engine.flows import EVERY, go, waiter, work
from tests.engine.mending import check_restart, fork, retry

ask = Event[int]("fork-ask")


@workflow(name="fork.spawning")
def spawning() -> Durable[int]:
    """Spawns a child, does an activity, and waits for the child's result."""
    handle = yield from spawn(waiter(), on_parent_close=OnParentClose.CANCEL)
    step = yield from work(1)
    return step + (yield from handle.result())


@workflow(name="fork.stopping")
def stopping() -> Durable[bool | str]:
    """Spawns a child, does an activity, and cancels the child."""
    handle: ChildHandle[int] = yield from spawn(waiter())
    yield from work(1)
    try:
        return (yield from handle.cancel())
    except WorkflowNotFound as error:
        return error.workflow_id


FLOWS = (*EVERY, spawning, stopping)


@pytest.mark.parametrize("child_first", [True, False])
def test_result_of_a_child_that_was_spawned_before(child_first: bool) -> None:
    """A fork gets the result of a child spawned in the copied part, like its source, across restarts."""
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
    """A shared child ends with the source, not with the fork, which can neither cancel nor restart it."""
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
    """A fork cannot cancel a child that its source spawned."""
    engine = DirectEngine(*FLOWS)
    engine.start(stopping())
    engine.finish(engine.activities[0], 1)
    assert engine.status("w/0") is WorkflowStatus.CANCELLED
    fork(engine, "1")
    engine.finish(engine.activities[0], 1)
    assert engine.result("f") == "w/0"


def test_fork_before_the_spawn_has_its_own_child() -> None:
    """A fork from the step that spawns has its own child."""
    engine = DirectEngine(*FLOWS)
    engine.start(spawning())
    engine.finish(engine.activities[0], 1)
    fork(engine, "0")
    engine.finish(engine.activities[0], 2)
    engine.send(go, 20, to="f/0")
    assert engine.result("f") == 22
    assert engine.status() is WorkflowStatus.SUSPENDED


def test_purged_child() -> None:
    """If a shared child was purged, the fork fails with WorkflowNotFound."""
    engine = DirectEngine(*FLOWS)
    engine.start(spawning())
    engine.finish(engine.activities[0], 1)
    engine.send(go, 10, to="w/0")
    fork(engine, "1")
    for id in ("w", "w/0"):
        engine.state.batch.workflows_purged.add(engine.record(id).key)
    engine.finish(engine.activities[0], 2)
    assert isinstance(engine.error("f"), WorkflowNotFound)

"""Forks of workflows with children: what the copied part has spawned is shared, everything else is their own."""

from __future__ import annotations

import pytest

from durable import ChildHandle, Durable, Event, OnParentClose, WorkflowNotFound, WorkflowStatus, spawn, workflow
from tests.engine.desk import Desk
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
    desk = Desk(*FLOWS)
    desk.start(spawning())
    desk.finish(desk.activities[0], 1)
    if child_first:
        desk.send(go, 10, to="w/0")
    fork(desk, "1")
    check_restart(desk, *FLOWS)
    desk.finish(desk.activities[0], 2)
    check_restart(desk, *FLOWS)
    if not child_first:
        desk.send(go, 10, to="w/0")
    assert (desk.result(), desk.result("f")) == (11, 12)


def test_child_that_was_spawned_before_is_not_its_own() -> None:
    """It ends with the first and not with the fork, which can neither cancel it nor have it begin anew."""
    desk = Desk(*FLOWS)
    desk.start(spawning())
    desk.finish(desk.activities[0], 1)
    fork(desk, "1")
    desk.cancel("f")
    assert desk.status("w/0") is WorkflowStatus.SUSPENDED
    fork(desk, "1", new_id="g")
    desk.finish(desk.activities[0], 2)
    desk.cancel("w")
    assert [desk.status(id).value for id in ("w", "w/0", "g")] == ["cancelled", "cancelled", "failed"]
    retry(desk, "g")
    assert [desk.status(id).value for id in ("w/0", "g")] == ["cancelled", "failed"]


def test_cancel_of_a_child_that_was_spawned_before() -> None:
    """A fork does not stop what others wait for."""
    desk = Desk(*FLOWS)
    desk.start(stopping())
    desk.finish(desk.activities[0], 1)
    assert desk.status("w/0") is WorkflowStatus.CANCELLED
    fork(desk, "1")
    desk.finish(desk.activities[0], 1)
    assert desk.result("f") == "w/0"


def test_spawned_anew_from_before() -> None:
    """From the step that spawns on it has a child of its own."""
    desk = Desk(*FLOWS)
    desk.start(spawning())
    desk.finish(desk.activities[0], 1)
    fork(desk, "0")
    desk.finish(desk.activities[0], 2)
    desk.send(go, 20, to="f/0")
    assert desk.result("f") == 22
    assert desk.status() is WorkflowStatus.SUSPENDED


def test_purged_child() -> None:
    """If the child is gone the fork is told so."""
    desk = Desk(*FLOWS)
    desk.start(spawning())
    desk.finish(desk.activities[0], 1)
    desk.send(go, 10, to="w/0")
    fork(desk, "1")
    for id in ("w", "w/0"):
        desk.state.batch.workflows_purged.add(desk.record(id).key)
    desk.finish(desk.activities[0], 2)
    assert isinstance(desk.error("f"), WorkflowNotFound)

"""Who is blamed for an unclean stop in which a body ran: the workflow whose body it was."""

from __future__ import annotations

from typing import Any

import pytest

from durable import (
    Durable,
    EngineConfig,
    Event,
    ParkReason,
    WorkflowDef,
    WorkflowStatus,
    spawn,
    workflow,
)
from durable.engine.operations import RecoverWorkflows
from durable.engine.views import RecoveryReport
from durable.records import WorkflowRecord
from durable.runner.session import WorkflowSessionRunner
from durable.testing.faults import SimCrash
from tests.engine.desk import Desk
from tests.engine.flows import EVERY, nothing, waiter, worker

fuse = Event[int]("blamed.fuse")


@workflow(name="blamed.bomb")
def bomb() -> Durable[int]:
    """Waits for the event that kills it."""
    return (yield from fuse.wait())


@workflow(name="blamed.parent")
def parent(waits_first: bool = False) -> Durable[int]:
    """Waits for a child that does no harm."""
    if waits_first:
        yield from fuse.wait()
    return (yield from worker().with_id("child"))


@workflow(name="blamed.spawning")
def spawning() -> Durable[int]:
    """Starts a child beside it."""
    yield from fuse.wait()
    return (yield from (yield from spawn(worker(), id="child")).result())


@workflow(name="blamed.lighter")
def lighter(to: str) -> Durable[str]:
    """Passes an event on to another workflow."""
    yield from fuse.send((yield from fuse.wait()), to=to)
    return "sent"


FLOWS: tuple[WorkflowDef[Any, Any], ...] = (bomb, lighter, parent, spawning, *EVERY)


class Killer:
    """Ends the process when the body of a workflow runs."""

    def __init__(self, *ids: str) -> None:
        self.ids = ids

    def enter(self, record: WorkflowRecord, session: WorkflowSessionRunner) -> None:
        """The body is about to run."""
        if record.id in self.ids:
            raise SimCrash

    def leave(self) -> None:
        """It came back."""


def _start_and_recover(desk: Desk) -> None:
    """What a service does whose start was not answered."""
    desk.start(worker())
    desk.recover()


def _send_and_recover(desk: Desk) -> None:
    """What a service does whose event was not answered."""
    desk.send(fuse, 1, to="w")
    desk.recover()


def _parked(desk: Desk) -> list[str]:
    return [id for id in desk.ids() if desk.status(id) is WorkflowStatus.PARKED]


def _waiting(desk: Desk) -> list[str]:
    return [effect.workflow_id for effect in desk.activities]


def test_body_that_dies_of_an_event_is_parked_at_the_third_crash() -> None:
    """The event is sent again after each crash; the third crash parks the workflow, and the event stays sendable."""
    desk = Desk(*FLOWS)
    desk.start(bomb())
    for crashes in (1, 2, 3):
        desk.state.watch = Killer("w")
        with pytest.raises(SimCrash):
            desk.send(fuse, 1, to="w")
        assert desk.status() is WorkflowStatus.SUSPENDED
        desk.restart(*FLOWS, clean=False)
        assert desk.record().crashes == crashes if crashes < 3 else desk.record().park_reason is ParkReason.CRASHED
    assert "3 times in a row while its body ran" in (desk.record().park_detail or "")
    desk.send(fuse, 1, to="w")
    assert desk.restart(*FLOWS, clean=False) == RecoveryReport(parked=1)


def test_parent_that_dies_when_its_child_ends_takes_the_blame() -> None:
    """The child that did nothing but end is not blamed."""
    desk = Desk(*FLOWS)
    desk.start(parent())
    for _ in range(3):
        desk.state.watch = Killer("w")
        with pytest.raises(SimCrash):
            desk.finish(desk.activities[0], 1)
        desk.restart(*FLOWS, clean=False)
    assert (desk.record("w").park_reason, desk.record("child").park_reason) == (ParkReason.CRASHED, None)


def test_target_that_dies_of_an_event_takes_the_blame_and_not_its_sender() -> None:
    """The sender is told to send after each crash; when its target is parked, the event is kept for it."""
    desk = Desk(*FLOWS)
    desk.start(lighter("target"), "w")
    desk.start(bomb(), "target")
    for crashes in (1, 2, 3):
        desk.state.watch = Killer("target")
        with pytest.raises(SimCrash):
            desk.send(fuse, 1, to="w")
        desk.restart(*FLOWS, clean=False)
        assert (desk.record("target").crashes, desk.record("w").crashes) == (crashes, 0)
    assert (desk.record("target").park_reason, _parked(desk)) == (ParkReason.CRASHED, ["target"])
    desk.send(fuse, 1, to="w")
    assert (desk.result("w"), desk.pending("blamed.fuse")) == ("sent", 1)


def test_body_that_dies_when_it_is_rebuilt_is_parked() -> None:
    """A workflow that kills whoever loads it is parked at the third crash; the others run."""
    desk = Desk(*FLOWS)
    desk.start(worker(), "a")
    desk.start(worker(), "w")
    desk.restart(*FLOWS, clean=False, recover=False)
    for _ in range(3):
        desk.state.watch = Killer("w")
        with pytest.raises(SimCrash):
            desk.do(RecoverWorkflows())
        desk.restart(*FLOWS, clean=False, recover=False)
    assert desk.recover() == RecoveryReport(resumed=1, parked=1)
    assert _parked(desk) == ["w"]


def test_step_that_is_survived_clears_the_count() -> None:
    """A body that was only there when somebody else killed the process is acquitted by its next step."""
    desk = Desk(*FLOWS)
    desk.start(bomb())
    desk.state.mark[0] = desk.record().key
    desk.restart(*FLOWS, clean=False)
    assert desk.record().crashes == 1
    desk.send(fuse, 7, to="w")
    assert (desk.result(), desk.record().crashes) == (7, 0)


def test_life_without_code_does_not_clear_the_count() -> None:
    """Nobody could look at a body whose code was missing, so that says nothing about whether it kills."""
    desk = Desk(*FLOWS)
    desk.start(bomb())
    desk.state.mark[0] = desk.record().key
    desk.restart(clean=False)
    desk.send(fuse, 7)
    assert (desk.record().park_reason, desk.record().crashes) == (ParkReason.UNKNOWN_CODE, 1)
    desk.restart(*FLOWS)
    assert (desk.result(), desk.record().crashes) == (7, 0)


def test_start_that_kills_before_it_is_stored_is_parked() -> None:
    """The caller repeats the start after each crash. From the second on the workflow is stored before it runs."""
    desk = Desk(*FLOWS)
    for _ in range(4):
        desk.state.watch = Killer("w")
        with pytest.raises(SimCrash):
            _start_and_recover(desk)
        desk.restart(*FLOWS, clean=False, recover=False)
    assert desk.record().park_reason is ParkReason.CRASHED
    desk.start(worker(), "next")
    assert _waiting(desk) == ["next"]


@pytest.mark.parametrize("start", [parent, spawning], ids=["awaited", "spawned"])
def test_child_that_kills_before_it_is_stored_is_parked(start: WorkflowDef[..., int]) -> None:
    """The parent comes to the start of its child again and again; in the end the child is parked, and only that."""
    desk = Desk(*FLOWS)
    desk.start(start(True) if start is parent else start())
    for _ in range(4):
        desk.state.watch = Killer("child")
        with pytest.raises(SimCrash):
            _send_and_recover(desk)
        desk.restart(*FLOWS, clean=False, recover=False)
    assert _parked(desk) == ["child"]


@pytest.mark.parametrize("how", ["ended", "never stored", "set aside"])
def test_mark_of_a_body_that_cannot_be_blamed(how: str) -> None:
    """A body that has ended since, was never stored, or is parked for crashing already changes nothing."""
    desk = Desk(*FLOWS, config=EngineConfig(max_crashes=1))
    desk.start(nothing(4) if how == "ended" else waiter())
    key = desk.record().key + (1_000 if how == "never stored" else 0)
    for _ in range(2):
        before = desk.record() if how != "set aside" else None
        desk.state.mark[0] = key
        desk.restart(*FLOWS, clean=False)
        assert desk.record() == (before or desk.record())
    assert _parked(desk) == (["w"] if how == "set aside" else [])


def test_mark_after_a_clean_stop_counts_nothing() -> None:
    """Only an unclean stop is anybody's fault."""
    desk = Desk(*FLOWS)
    desk.start(waiter())
    desk.state.mark[0] = desk.record().key
    desk.restart(*FLOWS, clean=True)
    assert desk.record().crashes == 0

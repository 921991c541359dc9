"""Letters that arrive after a change: new code, damaged rows, parked workflows, postponed waits."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from durable import Durable, EngineConfig, Event, WorkflowStatus, gather, sleep, workflow
from durable.engine.decide.turn import home_of
from durable.engine.operations.messages import (
    CancelChild,
    EventOffered,
    EventReturned,
    LookAgain,
    Message,
    StartChild,
    WaitId,
    WaitRegistered,
)
from durable.errors import ChildWorkflowFailed, InvariantViolated, WorkflowNotFound
from durable.model.error_codec import error_summary
from durable.model.records import CancelCause, DeliveryMode, ParkReason, PendingEvent, Registration
from durable.runner.definitions import WorkflowDef
from tests.cluster.flows import EVERY, brief, caller, child, go, impatient, news, spawner, stopper, twice, waiter, work
from tests.cluster.kit import Cluster, id_at, key_at

W, OTHER, CHILD = id_at(0, 2), id_at(0, 2, "other"), id_at(1, 2, "child")
KEY = key_at("go", 1, 2)


class Opaque:
    """A type that cannot be stored."""


def _changed(awaited: Event[Any] | None) -> list[WorkflowDef[Any, Any]]:
    """All workflows. One of them now waits for another event, or for none."""

    @workflow(name="cluster.waiter")
    def changed(key: str, event: str = "go") -> Durable[Any]:
        if awaited is None:
            return (yield from sleep(100))
        return (yield from awaited.wait(key))

    return [changed, *(definition for definition in EVERY if definition.name != changed.name)]


def _offered(cluster: Cluster) -> None:
    """An event travels to a workflow whose shard is down."""
    cluster.start(waiter(KEY), W)
    cluster.settle()
    cluster.kill(0)
    cluster.send(go, 5, key=KEY)


@pytest.mark.parametrize("event", [None, Event[int](f"later{key_at('later', 1, 2)}"), Event[int]("later")], ids=str)
def test_offer_to_code_that_waits_for_something_else(event: Event[Any] | None) -> None:
    """An offer to code that now waits for something else returns, and the old wait leaves the queue."""
    cluster = Cluster(*EVERY)
    _offered(cluster)
    cluster.open(0, workflows=_changed(event))
    cluster.settle()
    assert cluster.pending() == 1
    assert cluster.status(W) in (WorkflowStatus.SUSPENDED, WorkflowStatus.PARKED)
    cluster.start(waiter(KEY), id_at(1, 2, "next"))
    cluster.settle()
    assert cluster.pending() == 0


def test_registered_wait_for_something_else_under_new_code() -> None:
    """If new code waits for another event, the registered wait is withdrawn and replaced."""
    cluster = Cluster(*EVERY)
    cluster.start(waiter(KEY), W)
    cluster.settle()
    cluster.open(0, workflows=_changed(Event[int]("go2")))
    cluster.cancel(W)
    cluster.settle()
    assert cluster.guests(1) == 0


def test_offer_whose_type_cannot_be_stored() -> None:
    """An offer to a wait whose type cannot be stored parks the workflow, and the event returns."""
    cluster = Cluster(*EVERY)
    _offered(cluster)
    cluster.open(0, workflows=_changed(Event[Opaque]("go")))
    cluster.settle()
    assert cluster.record(W).park_reason is ParkReason.UNREADABLE
    assert cluster.pending() == 1
    cluster.open(0)
    cluster.settle()
    assert cluster.result(W) == 5


def test_offer_to_a_postponed_wait() -> None:
    """An offer to a postponed wait returns and is offered again, because the mailbox comes first."""

    @workflow(name="cluster.busy")
    def busy() -> Durable[Any]:
        keys = ["a", "b", KEY]
        return list((yield from gather(work(1), *(go.wait(key) for key in keys))))

    cluster = Cluster(*EVERY, busy, config=EngineConfig(max_steps_per_decision=1))
    cluster.start(busy(), W)
    cluster.settle()
    cluster.kill(0)
    cluster.send(go, 5, key=KEY)
    cluster.open(0)
    cluster.work(0)
    assert EventReturned in {type(letter) for letter in cluster.letters(1)}
    cluster.settle()
    cluster.send(go, 6, to=W, key="a")
    cluster.send(go, 7, to=W, key="b")
    cluster.running[:-1] = []
    cluster.finish(W, 1)
    cluster.settle()
    assert cluster.result(W) == [1, 6, 7, 5]


def test_expired_offer_to_a_parked_workflow() -> None:
    """An offer that expires at a parked workflow is gone, and the wait queues again once the workflow runs."""
    cluster = Cluster(*EVERY)
    key = key_at("brief", 1, 2)
    cluster.start(waiter(key, "brief"), W)
    cluster.settle()
    cluster.open(0, workflows=())
    cluster.send(brief, 4, to=W, key=key)
    assert cluster.status(W) is WorkflowStatus.PARKED
    cluster.send(brief, 5, key=key)
    cluster.clock.advance(61)
    cluster.settle()
    assert cluster.guests(1) == 0
    cluster.open(0)
    cluster.settle()
    cluster.send(brief, 6, key=key)
    cluster.settle()
    assert cluster.result(W) == 6


def test_event_that_expires_before_the_wait_is_registered() -> None:
    """An event that expired before a wait is registered is dropped, and the wait is registered."""
    cluster = Cluster(*EVERY)
    key = key_at("brief", 1, 2)
    cluster.send(brief, 5, key=key)
    cluster.clock.advance(61)
    cluster.start(waiter(key, "brief"), W)
    cluster.settle()
    assert (cluster.pending(), cluster.guests(1)) == (0, 1)


def test_event_that_expires_on_its_way_back() -> None:
    """An event that expires on its way back is not kept, and nobody gets it."""
    cluster = Cluster(*EVERY)
    event = PendingEvent(serial=5, name="brief", event_key=key_at("brief", 1, 2), payload="5", sent_at=0, expires_at=1)
    cluster.deliver(1, EventReturned(event))
    assert cluster.pending() == 0


def test_broadcast_that_was_taken_is_not_taken_again() -> None:
    """An offer of a broadcast that was already taken registers the wait again, and feeds nothing."""
    cluster = Cluster(*EVERY)
    key = key_at("news", 1, 2)
    cluster.send(news, 1, key=key)
    cluster.start(twice(key), W)
    cluster.settle()
    (row,) = cluster.stores[0].waits[cluster.record(W).key].values()
    (event,) = cluster.stores[1].events.values()
    cluster.deliver(0, EventOffered(WaitId(row.workflow_key, row.position, row.serial), event, Registration(rank=9)))
    assert [type(letter) for letter in cluster.letters(1)] == [WaitRegistered]
    assert cluster.status(W) is WorkflowStatus.SUSPENDED


def test_late_broadcast_to_nobody_is_dropped() -> None:
    """The copy of a broadcast that finds no wait is dropped, because the broadcast is still at home."""
    cluster = Cluster(*EVERY)
    event = PendingEvent(serial=5, name="news", event_key=key_at("news", 1, 2), payload="5", sent_at=0, consume=False)
    cluster.deliver(0, EventOffered(WaitId(2, "0", 4), event, Registration(rank=9)))
    assert cluster.letters(1) == []


def test_broadcast_that_returns_skips_guests_with_a_later_cursor() -> None:
    """A broadcast that returns is not offered to a wait with a later cursor."""
    cluster = Cluster(*EVERY)
    key = key_at("news", 1, 2)
    wait = WaitId(2, "0", 4)
    cluster.deliver(1, WaitRegistered(wait, "news", key, DeliveryMode.ALL, Registration(), cursor=99))
    event = PendingEvent(serial=5, name="news", event_key=key, payload="5", sent_at=0, consume=False)
    cluster.deliver(1, EventReturned(event))
    assert cluster.letters(0) == []


def test_repeated_letter_is_a_bug() -> None:
    """Every letter is handled once, so a repeated one is a bug of ours."""
    start = StartChild(WaitId(3, "0", 5), id_at(0, 2, "child"), "0", "cluster.child", 1, "{}", None, 1)
    register = WaitRegistered(WaitId(2, "0", 4), "go", KEY, DeliveryMode.ALL, Registration(), 0)
    questions: tuple[Message, ...] = (start, register)
    for shard, message in enumerate(questions):
        cluster = Cluster(*EVERY)
        cluster.deliver(shard, message)
        with pytest.raises(InvariantViolated, match="twice"):
            cluster.deliver(shard, message)
    with pytest.raises(InvariantViolated, match="LookAgain"):
        home_of(LookAgain(1, "0"), 2)


# --- children ---------------------------------------------------------------------------------------------------------


def _damage(cluster: Cluster, id: str, **changes: Any) -> None:
    store = cluster.stores[1]
    key = store.keys[id]
    store.workflows[key] = attrs.evolve(store.workflows[key], **changes)


def test_child_whose_row_is_damaged() -> None:
    """The parent of a child with a damaged row gets an error and fails. A cancel that nobody awaits is ignored."""
    cluster = Cluster(*EVERY)
    cluster.start(child(), CHILD)
    _damage(cluster, CHILD, is_damaged=True)
    cluster.open(1)
    cluster.start(caller(CHILD), W)
    cluster.start(impatient(CHILD), OTHER)
    cluster.settle()
    assert cluster.status(W) is cluster.status(OTHER) is WorkflowStatus.FAILED
    cluster.deliver(1, CancelChild(CHILD, 2, "w", "0", CancelCause.NOT_AWAITED))
    assert cluster.record(CHILD).is_damaged


@pytest.mark.parametrize("changes", [{"is_damaged": True}, {"parent_key": 77}], ids=str)
@pytest.mark.parametrize("call", [stopper, spawner], ids=["cancel", "result"])
def test_spawned_child_that_is_gone(call: Any, changes: dict[str, Any]) -> None:
    """A parent that reads or cancels a spawned child that is gone gets an error."""
    cluster = Cluster(*EVERY)
    cluster.start(call(CHILD), W)
    cluster.settle()
    _damage(cluster, CHILD, **changes)
    cluster.open(1)
    cluster.advance(6)
    assert cluster.status(W) is WorkflowStatus.FAILED
    if "parent_key" in changes:
        assert error_summary(cluster.record(W).error or "")[0] == f"durable.{WorkflowNotFound.__name__}"


def test_child_whose_error_is_damaged() -> None:
    """A parent whose child has a damaged error gets the reason, instead of waiting forever."""
    cluster = Cluster(*EVERY)
    cluster.start(spawner(CHILD), W)
    cluster.settle()
    cluster.fail(CHILD)
    _damage(cluster, CHILD, error="no JSON")
    cluster.open(1)
    cluster.advance(6)
    assert error_summary(cluster.record(W).error or "")[0] != f"durable.{ChildWorkflowFailed.__name__}"

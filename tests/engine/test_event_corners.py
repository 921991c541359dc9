"""Corners of events: what is sent, taken, removed and moved in one batch, and types that nobody can read."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from durable import (
    DeadLetterPolicy,
    DeadLetterReason,
    Durable,
    Event,
    EventNotFound,
    EventTypeMismatch,
    ParkReason,
    WorkflowStatus,
    workflow,
)
from durable.engine.config import EngineConfig
from durable.engine.operations import CheckWaits, ForkWorkflow, Queued, RemoveEvent, SendEvent
from durable.engine.operations.messages import LookAgain
from durable.model.registry import Registry
from durable.runner.definitions import WorkflowDef
from tests.engine.desk import Desk, event_of, refusal
from tests.engine.flows import EVERY, go, news, reader, sleeper, waiter


class Opaque:
    """A type that cannot be stored."""


def test_event_is_removed_in_the_batch_in_which_it_was_sent() -> None:
    """An event that the store has not seen yet can be removed, once."""
    desk = Desk(*EVERY)
    serial = desk.state.serial + 1
    replies = desk.batch(event_of(go, 1), RemoveEvent(serial), RemoveEvent(serial))
    assert refusal(replies[2]) == (EventNotFound, serial)
    assert desk.pending("go") == 0


def test_fork_in_the_batch_of_a_broadcast() -> None:
    """A fork from behind a broadcast that was taken a moment ago does not take it again."""
    desk = Desk(*EVERY)
    desk.start(reader(2))
    desk.send(news, 1)
    desk.batch(event_of(news, 2), ForkWorkflow("w", "1", "fork"))
    desk.settle()
    assert (desk.result(), desk.result("fork")) == ([1, 2], [1, 2])


def test_type_of_a_waiter_that_is_not_in_memory_is_unknown() -> None:
    """An event of another type is accepted if a waiter is not in memory, and is a dead letter once it is."""
    desk = Desk(*EVERY, config=EngineConfig(max_loaded_workflows=1))
    desk.start(waiter())
    desk.start(sleeper(), "elsewhere")
    desk.do(SendEvent(name="go", payload='"text"', payload_type=str))
    assert [letter.reason for letter in desk.letters()] == [DeadLetterReason.UNREADABLE]


def test_refused_types_are_shown_in_words() -> None:
    """A type that is no class, and a class of a module, are shown whole."""
    desk = Desk(*EVERY)
    desk.start(waiter())
    replies = desk.batch(
        SendEvent(name="go", payload="[1]", payload_type=list[int]),
        SendEvent(name="go", payload="[1]", payload_type=ParkReason),
    )
    assert [refusal(reply)[:3] for reply in replies] == [
        (EventTypeMismatch, "go", "list[int]"), (EventTypeMismatch, "go", "durable.model.records.ParkReason"),
    ]  # fmt: skip


def test_wait_for_a_type_that_cannot_be_stored_parks() -> None:
    """A workflow that waits for a type that nothing can be read as is parked, and the pending event stays."""

    @workflow(name="corners.unstorable")
    def unstorable() -> Durable[Opaque]:
        return (yield from Event[Opaque]("unstorable").wait())

    desk = Desk(unstorable)
    desk.do(SendEvent(name="unstorable", payload="1"))
    desk.start(unstorable())
    assert (desk.status(), desk.pending("unstorable"), desk.letters()) == (WorkflowStatus.PARKED, 1, [])


def test_moved_mail_that_cannot_be_read_is_a_letter() -> None:
    """Mail that has lost its target and that no waiter can read becomes a dead letter."""
    desk = Desk(*EVERY, config=EngineConfig(dead_letter_policy=DeadLetterPolicy.MOVE_TO_BROADCAST))
    desk.start(waiter(), "taker")
    desk.start(sleeper())
    desk.do(SendEvent(name="go", payload='"text"', to="w"))
    desk.advance(60)
    assert [(letter.workflow_id, letter.reason) for letter in desk.letters()] == [
        ("taker", DeadLetterReason.UNREADABLE)
    ]
    assert (desk.status("taker"), desk.pending("go")) == (WorkflowStatus.SUSPENDED, 0)


def _typed(kind: type) -> WorkflowDef[..., object]:
    event = Event[Any]("corners.typed")

    @workflow(name="corners.child")
    def child() -> Durable[object]:
        return (yield from event.wait())

    child.fn.__annotations__["return"] = Durable[kind]  # type: ignore[valid-type]
    return child


def test_result_of_a_child_that_cannot_be_read_parks_its_parent() -> None:
    """A parent whose code no longer fits the result of its child is parked until it does."""
    texts, numbers = _typed(str), _typed(int)
    children = [texts]

    @workflow(name="corners.parent")
    def parent() -> Durable[object]:
        return (yield from children[-1]())

    desk = Desk(parent, texts)
    desk.start(parent())
    desk.restart(texts)
    desk.do(SendEvent(name="corners.typed", payload='"text"', to="w/0"))
    assert desk.record().park_reason is ParkReason.UNKNOWN_CODE
    children.append(numbers)
    desk.restart(parent, numbers)
    assert desk.record().park_reason is ParkReason.UNREADABLE
    children.append(texts)
    desk.restart(parent, texts)
    assert desk.result() == "text"


@pytest.mark.parametrize("is_known", [True, False])
def test_waits_of_a_workflow_that_cannot_run(is_known: bool) -> None:
    """Waits that were put off are looked at only if the body can be rebuilt, and only once."""
    desk = Desk(*EVERY, checks=False)
    record = desk.start(waiter())
    desk.state.unload(record.key)
    desk.state.put_off[record.key] = deque([LookAgain(record.key, "0")])
    if not is_known:
        desk.state.registry = Registry(())
    desk.do(CheckWaits(record.key))
    desk.do(CheckWaits(record.key))
    assert desk.status() is (WorkflowStatus.SUSPENDED if is_known else WorkflowStatus.PARKED)


def test_wait_whose_own_type_cannot_be_stored_blames_no_sender() -> None:
    """Whoever sends the event has made no mistake: it is kept, and the workflow is parked with what is wrong."""

    @workflow(name="corners.unstorable_too")
    def unstorable() -> Durable[Any]:
        return (yield from Event[Opaque]("corners.unstorable").wait())

    desk = Desk(unstorable)
    desk.start(unstorable())
    assert desk.do(SendEvent(name="corners.unstorable", payload="5", payload_type=int, to="w")) == Queued()
    assert desk.record().park_reason is ParkReason.UNREADABLE
    assert "is not a type that can be stored" in (desk.record().park_detail or "")


@pytest.mark.parametrize("is_broadcast", [True, False])
@pytest.mark.parametrize("to", ["w", None])
@pytest.mark.parametrize("by_body", [True, False])
def test_event_without_any_time_is_for_those_who_wait_now(by_body: bool, to: str | None, is_broadcast: bool) -> None:
    """With `expire_after=0` a current waiter gets it; nobody who begins to wait at that instant or later does."""
    flash = Event[int]("corners.flash", consume_on_read=not is_broadcast, expire_after=0)

    @workflow(name="corners.flash_waiter")
    def flashed() -> Durable[int]:
        return (yield from flash.wait().within(1).or_default(-1))

    @workflow(name="corners.flash_sender")
    def flashing() -> Durable[None]:
        yield from flash.send(7, to=to)

    desk = Desk(flashed, flashing, checks=False)
    desk.start(flashed())
    desk.start(flashing(), "sender") if by_body else desk.send(flash, 7, to=to)
    assert desk.result() == 7
    if to is None:
        desk.start(flashing(), "again") if by_body else desk.send(flash, 8)
        desk.start(flashed(), "late")
        desk.advance(1)
        assert desk.result("late") == -1

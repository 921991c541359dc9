"""The types of events and results: what a mismatch means for the sender, the waiter, the event and the parent."""

from __future__ import annotations

from typing import Any

from durable import (
    DeadLetterPolicy,
    DeadLetterReason,
    Durable,
    Event,
    EventTypeMismatch,
    ParkReason,
    WorkflowStatus,
    gather,
    workflow,
)
from durable.engine import operations as ops
from durable.engine.config import EngineConfig
from durable.engine.operations import Queued, SendEvent
from durable.runner.definitions import WorkflowDef
from tests.engine.direct import DirectEngine, refusal
from tests.engine.flows import EVERY, sleeper, waiter


class Opaque:
    """A type that cannot be stored."""


def test_type_of_a_waiter_that_is_not_in_memory_is_unknown() -> None:
    """An event of the wrong type is accepted while its waiter is not in memory, and becomes a dead letter on load."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_loaded_workflows=1))
    engine.start(waiter())
    engine.start(sleeper(), "elsewhere")
    engine.do(SendEvent(name="go", payload='"text"', payload_type=str))
    assert [letter.reason for letter in engine.letters()] == [DeadLetterReason.UNREADABLE]


def test_refused_types_are_shown_in_words() -> None:
    """The refusal shows the full name of a type, whether it is a class or not."""
    engine = DirectEngine(*EVERY)
    engine.start(waiter())
    replies = engine.batch(
        SendEvent(name="go", payload="[1]", payload_type=list[int]),
        SendEvent(name="go", payload="[1]", payload_type=ParkReason),
    )
    assert [refusal(reply)[:3] for reply in replies] == [
        (EventTypeMismatch, "go", "list[int]"), (EventTypeMismatch, "go", "durable.model.records.ParkReason"),
    ]  # fmt: skip


def test_wait_for_a_type_that_cannot_be_stored_parks() -> None:
    """A workflow that waits for a type that cannot be stored is parked, and the pending event stays."""

    @workflow(name="event-types.unstorable")
    def unstorable() -> Durable[Opaque]:
        return (yield from Event[Opaque]("unstorable").wait())

    engine = DirectEngine(unstorable)
    engine.do(SendEvent(name="unstorable", payload="1"))
    engine.start(unstorable())
    assert (engine.status(), engine.pending("unstorable"), engine.letters()) == (WorkflowStatus.PARKED, 1, [])


def test_moved_mail_that_cannot_be_read_is_a_letter() -> None:
    """An event that lost its target and that no waiter can read becomes a dead letter."""
    engine = DirectEngine(*EVERY, config=EngineConfig(dead_letter_policy=DeadLetterPolicy.MOVE_TO_BROADCAST))
    engine.start(waiter(), "taker")
    engine.start(sleeper())
    engine.do(SendEvent(name="go", payload='"text"', to="w"))
    engine.advance(60)
    assert [(letter.workflow_id, letter.reason) for letter in engine.letters()] == [
        ("taker", DeadLetterReason.UNREADABLE)
    ]
    assert (engine.status("taker"), engine.pending("go")) == (WorkflowStatus.SUSPENDED, 0)


def _typed(kind: type) -> WorkflowDef[..., object]:
    event = Event[Any]("event-types.typed")

    @workflow(name="event-types.child")
    def child() -> Durable[object]:
        return (yield from event.wait())

    child.fn.__annotations__["return"] = Durable[kind]  # type: ignore[valid-type]
    return child


def test_result_of_a_child_that_cannot_be_read_parks_its_parent() -> None:
    """A parent whose code cannot read the result of its child is parked until it can."""
    texts, numbers = _typed(str), _typed(int)
    children = [texts]

    @workflow(name="event-types.parent")
    def parent() -> Durable[object]:
        return (yield from children[-1]())

    engine = DirectEngine(parent, texts)
    engine.start(parent())
    engine.restart(texts)
    engine.do(SendEvent(name="event-types.typed", payload='"text"', to="w/0"))
    assert engine.record().park_reason is ParkReason.UNKNOWN_CODE
    children.append(numbers)
    engine.restart(parent, numbers)
    assert engine.record().park_reason is ParkReason.UNREADABLE
    children.append(texts)
    engine.restart(parent, texts)
    assert engine.result() == "text"


def test_wait_whose_own_type_cannot_be_stored_blames_no_sender() -> None:
    """If the waiter's type cannot be stored, the sender's event is kept, and the workflow is parked with the reason."""

    @workflow(name="event-types.unstorable_too")
    def unstorable() -> Durable[Any]:
        return (yield from Event[Opaque]("event-types.unstorable").wait())

    engine = DirectEngine(unstorable)
    engine.start(unstorable())
    assert engine.do(SendEvent(name="event-types.unstorable", payload="5", payload_type=int, to="w")) == Queued()
    assert engine.record().park_reason is ParkReason.UNREADABLE
    assert "is not a type that can be stored" in (engine.record().park_detail or "")


def _waits_for(event: Event[Any]) -> WorkflowDef[..., Any]:
    @workflow(name="event-types.changing")
    def changing() -> Durable[Any]:
        return (yield from event.wait())

    return changing


def test_broadcast_that_a_waiter_cannot_read_is_not_lost() -> None:
    """A broadcast that a waiter cannot read becomes a dead letter for it, and stays for waiters that can."""
    texts = Event[str]("news", consume_on_read=False)
    numbers = Event[int]("news", consume_on_read=False)
    engine = DirectEngine(_waits_for(numbers))
    engine.start(_waits_for(numbers)())
    engine.send(texts, "text")
    assert engine.status() is WorkflowStatus.SUSPENDED
    assert [letter.is_broadcast for letter in engine.letters()] == [True]
    engine.restart(_waits_for(texts))
    engine.start(_waits_for(texts)(), "other")
    assert engine.result("other") == "text"


@workflow(name="event-types.two_types")
def two_types() -> Durable[Any]:
    yield from gather(Event[int]("e").wait(), Event[str]("e").wait())


def test_event_goes_to_the_wait_that_can_read_it() -> None:
    """An event that one wait of a workflow cannot read is taken by another wait that can."""
    engine = DirectEngine(two_types)
    engine.start(two_types())
    engine.do(ops.SendEvent(name="e", payload='"text"', to="w"))
    assert [entry.position for entry in engine.history()] == ["0.1.0"]
    assert engine.letters() == []

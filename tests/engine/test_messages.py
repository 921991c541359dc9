"""Messages: what a decision leaves to handle, and in which order."""

from __future__ import annotations

import typing

import pytest

from durable.engine.coordinator import decisions
from durable.engine.decide.turn import Messages
from durable.engine.operations.messages import ORDER, CancelChild, EventMoved, FireTimers, LookAgain, Message
from durable.model.records import CancelCause, PendingEvent

EVENT = PendingEvent(serial=1, name="go", payload="1", sent_at=0)
LOOK, OTHER_LOOK, FIRE = LookAgain(1, "0"), LookAgain(2, "0"), FireTimers(1)
CANCEL, MOVED = CancelChild("w/0", 1, "w", "0", CancelCause.NOT_AWAITED), EventMoved(EVENT)


def _all(messages: Messages) -> list[Message]:
    handled = []
    while messages.waiting:
        handled.append(messages.next())
    return handled


def test_order_is_by_kind_and_then_by_sending() -> None:
    """Pending events come first, then timers, cancelled children, and events without a target."""
    messages = Messages()
    for message in (MOVED, CANCEL, FIRE, LOOK, OTHER_LOOK):
        messages.send(message)
    assert _all(messages) == [LOOK, OTHER_LOOK, FIRE, CANCEL, MOVED]


def test_message_sent_meanwhile_comes_in_its_turn() -> None:
    """What a handler sends is handled before later kinds."""
    messages = Messages()
    messages.send(CANCEL)
    messages.send(MOVED)
    assert messages.next() == CANCEL
    messages.send(LOOK)
    assert _all(messages) == [LOOK, MOVED]


def test_messages_of_a_kind_can_be_taken_out() -> None:
    """A long decision leaves its unchecked waits to the next batch, and handles the other messages."""
    messages = Messages()
    for message in (LOOK, CANCEL, OTHER_LOOK):
        messages.send(message)
    assert messages.take(LookAgain) == [LOOK, OTHER_LOOK]
    assert messages.take(FireTimers) == []
    assert not messages.has(LookAgain)
    assert _all(messages) == [CANCEL]


def test_nothing_waits_at_first() -> None:
    """A new queue of messages is empty."""
    messages = Messages()
    assert not messages.waiting
    with pytest.raises(LookupError):
        messages.next()


def test_every_kind_has_a_place_and_a_handler() -> None:
    """Every kind of message has a place in the order and a handler; otherwise it would never be handled."""
    kinds = set(typing.get_args(Message))
    assert set(ORDER) == kinds
    assert set(decisions._HANDLERS) == kinds

"""How many events may be pending: per mailbox and per untargeted name; a broadcast that was taken does not count."""

from __future__ import annotations

import pytest

from durable import Delivered, Event, PendingEventsFull, Queued
from durable.engine.config import EngineConfig
from durable.engine.operations import SendEvent
from tests.engine.desk import Desk, event_of, refusal
from tests.engine.flows import EVERY, go, news, other, reader, sleeper, waiter

TWO = EngineConfig(max_pending_events=2)


@pytest.mark.parametrize("is_started", [True, False])
def test_full_mailbox_is_one_mailbox(is_started: bool) -> None:
    """A full mailbox refuses whatever its name, says whose it is, and leaves room for everybody else."""
    desk = Desk(*EVERY, config=TWO)
    if is_started:
        desk.start(sleeper(), "a")
        desk.start(sleeper(), "b")
    desk.send(go, 1, to="a", allow_unstarted=True)
    desk.send(other, 2, to="a", allow_unstarted=True)
    refused = desk.batch(event_of(go, 3, to="a", allow_unstarted=True))[0]
    assert refusal(refused) == (PendingEventsFull, "go", 2, "a")
    assert "for workflow 'a'" in str(refused)
    assert desk.send(go, 4, to="b", allow_unstarted=True) == Queued()
    assert desk.send(go, 5) == Queued()


def test_full_name_is_not_a_mailbox() -> None:
    """Untargeted events of a name fill only that name, with all its keys."""
    desk = Desk(*EVERY, config=TWO)
    desk.start(sleeper())
    desk.send(go, 1)
    desk.send(go, 2, key="k")
    refused = desk.batch(event_of(go, 3))[0]
    assert refusal(refused) == (PendingEventsFull, "go", 2, None)
    assert "events named 'go'" in str(refused)
    assert desk.send(go, 4, to="w") == Queued()
    assert desk.send(other, 5) == Queued()


def test_mailbox_has_room_again() -> None:
    """A mailbox that was emptied takes events again, also after the mail was adopted from an id not started."""
    desk = Desk(*EVERY, config=TWO)
    for number in range(2):
        desk.send(go, number, to="w", allow_unstarted=True)
    desk.start(waiter(), delay=10)
    assert refusal(desk.batch(event_of(go, 3, to="w"))[0])[0] is PendingEventsFull
    desk.advance(10)
    desk.start(waiter(), "again", delay=10)
    assert desk.send(go, 4, to="again") == Queued()


def test_broadcasts_that_are_taken_never_fill_a_name() -> None:
    """A subscriber that takes every broadcast keeps room for the next, also across a restart."""
    desk = Desk(*EVERY, config=TWO)
    desk.start(reader(6))
    for number in range(5):
        assert desk.send(news, number) == Delivered(("w",))
    desk.restart(*EVERY)
    assert desk.send(news, 5) == Delivered(("w",))
    assert desk.pending("news") == 6


def test_broadcast_that_is_taken_later_gives_room() -> None:
    """Broadcasts that nobody has taken yet count; once a newcomer has taken one there is room for another."""
    desk = Desk(*EVERY, config=TWO)
    desk.send(news, 1)
    desk.send(news, 2)
    assert refusal(desk.batch(event_of(news, 3))[0]) == (PendingEventsFull, "news", 2, None)
    desk.start(reader(1))
    assert desk.send(news, 4) == Queued()
    assert refusal(desk.batch(event_of(news, 5))[0])[0] is PendingEventsFull


def test_newcomers_take_broadcasts_in_order() -> None:
    """Two newcomers in one batch both get both broadcasts, the first one first."""
    desk = Desk(*EVERY)
    desk.send(news, 1)
    desk.send(news, 2)
    for id in ("a", "b"):
        desk.start(reader(2), id)
    assert [desk.result("a"), desk.result("b")] == [[1, 2], [1, 2]]


def test_event_of_both_kinds_is_taken_in_order() -> None:
    """Broadcasts and events that one workflow takes may share a name; they are taken in the order of sending."""
    desk = Desk(*EVERY)
    once = Event[int]("news")
    desk.send(news, 1)
    desk.send(once, 2)
    desk.do(SendEvent(name="news", payload="3", consume=False))
    desk.start(reader(3))
    assert desk.result() == [1, 2, 3]
    desk.start(reader(2), "late")
    assert desk.result("late") == [1, 3]

"""How many events may be pending: per mailbox, and per untargeted name. A broadcast that was taken does not count."""

from __future__ import annotations

import pytest

from durable import Delivered, Event, PendingEventsFull, Queued
from durable.engine.config import EngineConfig
from durable.engine.operations import SendEvent
from tests.engine.direct import DirectEngine, event_of, refusal
from tests.engine.flows import EVERY, go, news, other, reader, sleeper, waiter

TWO = EngineConfig(max_pending_events=2)


@pytest.mark.parametrize("is_started", [True, False])
def test_full_mailbox_is_one_mailbox(is_started: bool) -> None:
    """A full mailbox refuses events of every name, names its workflow, and leaves room for all others."""
    engine = DirectEngine(*EVERY, config=TWO)
    if is_started:
        engine.start(sleeper(), "a")
        engine.start(sleeper(), "b")
    engine.send(go, 1, to="a", allow_unstarted=True)
    engine.send(other, 2, to="a", allow_unstarted=True)
    refused = engine.batch(event_of(go, 3, to="a", allow_unstarted=True))[0]
    assert refusal(refused) == (PendingEventsFull, "go", 2, "a")
    assert "for workflow 'a'" in str(refused)
    assert engine.send(go, 4, to="b", allow_unstarted=True) == Queued()
    assert engine.send(go, 5) == Queued()


def test_full_name_is_not_a_mailbox() -> None:
    """Untargeted events of a name fill only that name, across all its keys."""
    engine = DirectEngine(*EVERY, config=TWO)
    engine.start(sleeper())
    engine.send(go, 1)
    engine.send(go, 2, key="k")
    refused = engine.batch(event_of(go, 3))[0]
    assert refusal(refused) == (PendingEventsFull, "go", 2, None)
    assert "events named 'go'" in str(refused)
    assert engine.send(go, 4, to="w") == Queued()
    assert engine.send(other, 5) == Queued()


def test_mailbox_has_room_again() -> None:
    """A mailbox that was emptied takes events again, even if its events were sent before the start."""
    engine = DirectEngine(*EVERY, config=TWO)
    for number in range(2):
        engine.send(go, number, to="w", allow_unstarted=True)
    engine.start(waiter(), delay=10)
    assert refusal(engine.batch(event_of(go, 3, to="w"))[0])[0] is PendingEventsFull
    engine.advance(10)
    engine.start(waiter(), "again", delay=10)
    assert engine.send(go, 4, to="again") == Queued()


def test_broadcasts_that_are_taken_never_fill_a_name() -> None:
    """A subscriber that takes every broadcast keeps room for the next, even across a restart."""
    engine = DirectEngine(*EVERY, config=TWO)
    engine.start(reader(6))
    for number in range(5):
        assert engine.send(news, number) == Delivered(("w",))
    engine.restart(*EVERY)
    assert engine.send(news, 5) == Delivered(("w",))
    assert engine.pending("news") == 6


def test_broadcast_that_is_taken_later_gives_room() -> None:
    """A broadcast counts until a workflow takes it; then there is room for another."""
    engine = DirectEngine(*EVERY, config=TWO)
    engine.send(news, 1)
    engine.send(news, 2)
    assert refusal(engine.batch(event_of(news, 3))[0]) == (PendingEventsFull, "news", 2, None)
    engine.start(reader(1))
    assert engine.send(news, 4) == Queued()
    assert refusal(engine.batch(event_of(news, 5))[0])[0] is PendingEventsFull


def test_newcomers_take_broadcasts_in_order() -> None:
    """Two newcomers in one batch both get both broadcasts, in order."""
    engine = DirectEngine(*EVERY)
    engine.send(news, 1)
    engine.send(news, 2)
    for id in ("a", "b"):
        engine.start(reader(2), id)
    assert [engine.result("a"), engine.result("b")] == [[1, 2], [1, 2]]


def test_broadcasts_and_events_of_one_name_are_taken_in_order() -> None:
    """Broadcasts and events for one taker may share a name. They are taken in the order of sending."""
    engine = DirectEngine(*EVERY)
    once = Event[int]("news")
    engine.send(news, 1)
    engine.send(once, 2)
    engine.do(SendEvent(name="news", payload="3", consume=False))
    engine.start(reader(3))
    assert engine.result() == [1, 2, 3]
    engine.start(reader(2), "late")
    assert engine.result("late") == [1, 3]

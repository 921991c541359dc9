"""How long events and dead letters are kept: an accepted event never disappears silently, unless it expires."""

from __future__ import annotations

import logging

import pytest

from durable import DeadLetterPolicy, DeadLetterReason, Event, WorkflowStatus
from durable.engine.config import EngineConfig
from durable.engine.operations import ReplayLetter, SendEvent, SweepEvents, TerminateWorkflow
from tests.engine.direct import DirectEngine
from tests.engine.flows import EVERY, go, news, other, reader, sleeper, waiter

DAY = 86_400
short = Event[int]("go", expire_after=100)


@pytest.mark.parametrize("to", ["later", None])
def test_event_that_nobody_takes_becomes_a_letter(to: str | None) -> None:
    """After the retention, an untargeted event or one for an id that is not started becomes a dead letter."""
    engine = DirectEngine(*EVERY)
    engine.send(go, 1, to=to, allow_unstarted=True)
    engine.clock.advance(7 * DAY)
    assert engine.do(SweepEvents()) == 0
    engine.clock.advance(1)
    assert engine.do(SweepEvents()) == 1
    assert engine.pending("go") == 0
    (letter,) = engine.letters()
    assert (letter.payload, letter.workflow_id, letter.status) == (1, to, None)
    assert (letter.reason, letter.died_at_us) == (DeadLetterReason.RETENTION_OVER, engine.clock.now())


@pytest.mark.parametrize("how", ["in time", "later"])
def test_broadcast_that_was_taken_leaves_no_letter(how: str) -> None:
    """A broadcast that a workflow took, at once or later, leaves no letter at the end of its retention."""
    engine = DirectEngine(*EVERY)
    if how == "in time":
        engine.start(reader())
    engine.send(news, 1)
    if how == "later":
        engine.start(reader())
    engine.clock.advance(8 * DAY)
    assert engine.do(SweepEvents()) == 1
    assert (engine.pending(news.name), engine.letters()) == (0, [])


def test_broadcast_that_nobody_took_is_a_letter() -> None:
    """A broadcast that nobody took within its retention becomes a dead letter, and can be sent to all again."""
    engine = DirectEngine(*EVERY)
    engine.send(news, 1)
    engine.clock.advance(8 * DAY)
    assert engine.do(SweepEvents()) == 1
    (letter,) = engine.letters()
    assert (letter.reason, letter.is_broadcast) == (DeadLetterReason.RETENTION_OVER, True)


def test_broadcast_that_nobody_can_read_is_one_letter() -> None:
    """A broadcast that nobody could read leaves one letter, which says why, even after its retention."""
    engine = DirectEngine(*EVERY)
    engine.start(reader())
    engine.send(Event[str](news.name, consume_on_read=False), "unreadable")
    (letter,) = engine.letters()
    engine.clock.advance(8 * DAY)
    assert engine.do(SweepEvents()) == 1
    assert (letter.reason, engine.letters()) == (DeadLetterReason.UNREADABLE, [letter])


def test_expired_event_leaves_no_letter() -> None:
    """An event that expires leaves no letter."""
    engine = DirectEngine(*EVERY)
    engine.send(short, 1)
    engine.clock.advance(8 * DAY)
    assert engine.do(SweepEvents()) == 1
    assert (engine.pending(short.name), engine.letters()) == (0, [])


def test_retention_of_moved_mail_begins_with_the_move() -> None:
    """An event that loses its target after years in a mailbox is kept for a whole retention from then on."""
    engine = DirectEngine(*EVERY, config=EngineConfig(dead_letter_policy=DeadLetterPolicy.MOVE_TO_BROADCAST))
    engine.start(sleeper(365 * DAY))
    engine.send(go, 1, to="w")
    engine.advance(365 * DAY)
    engine.do(SweepEvents())
    engine.clock.advance(6 * DAY)
    engine.do(SweepEvents())
    engine.start(waiter(), "taker")
    assert engine.result("taker") == 1


@pytest.mark.parametrize("seconds", [99, 100])
def test_mail_before_the_start_expires(seconds: int) -> None:
    """An event that was sent before its workflow started expires when its sender said."""
    engine = DirectEngine(*EVERY)
    engine.send(short, 1, to="w", allow_unstarted=True)
    engine.start(sleeper(seconds))
    engine.advance(seconds)
    engine.do(SweepEvents())
    assert [letter.payload for letter in engine.letters()] == [1]
    engine = DirectEngine(*EVERY)
    engine.send(short, 1, to="w", allow_unstarted=True)
    engine.clock.advance(seconds)
    engine.start(waiter())
    assert engine.status() is (WorkflowStatus.SUCCEEDED if seconds < 100 else WorkflowStatus.SUSPENDED)


def test_adopted_mail_keeps_its_expiry() -> None:
    """An event that was sent before the start is not delivered after its expiry."""
    engine = DirectEngine(*EVERY)
    engine.send(short, 1, to="w", allow_unstarted=True)
    engine.start(waiter(), delay=200)
    engine.advance(200)
    assert (engine.status(), engine.pending("go")) == (WorkflowStatus.SUSPENDED, 0)


def test_moved_mail_keeps_its_expiry() -> None:
    """An event that lost its target is not delivered after its expiry."""
    engine = DirectEngine(*EVERY, config=EngineConfig(dead_letter_policy=DeadLetterPolicy.MOVE_TO_BROADCAST))
    engine.start(sleeper(50))
    engine.send(short, 1, to="w")
    engine.advance(50)
    assert engine.pending("go") == 1
    engine.clock.advance(50)
    engine.start(waiter(), "taker")
    assert (engine.status("taker"), engine.pending("go")) == (WorkflowStatus.SUSPENDED, 0)


@pytest.mark.parametrize("retention", [None, 10 * DAY])
def test_letters_are_kept_as_long_as_the_option_says(retention: float | None) -> None:
    """Dead letters stay until they are removed, or for `dead_letter_retention`."""
    engine = DirectEngine(*EVERY, config=EngineConfig(dead_letter_retention=retention))
    engine.start(sleeper(60))
    engine.send(go, 1, to="w")
    engine.advance(60)
    engine.clock.advance(10 * DAY)
    assert engine.do(SweepEvents()) == 0
    engine.clock.advance(1)
    assert engine.do(SweepEvents()) == (0 if retention is None else 1)
    assert len(engine.letters()) == (1 if retention is None else 0)


def test_letter_shows_how_its_workflow_ended() -> None:
    """A dead letter has the final status of the workflow that did not take it."""
    engine = DirectEngine(*EVERY)
    engine.start(sleeper())
    engine.send(go, 1, to="w")
    engine.do(TerminateWorkflow("w"))
    (letter,) = engine.letters()
    assert (letter.reason, letter.status) == (DeadLetterReason.WORKFLOW_ENDED, WorkflowStatus.CANCELLED)


def test_letters_of_one_end_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """A workflow that ends with many untaken events causes one warning with the names of the events."""
    engine = DirectEngine(*EVERY)
    engine.start(sleeper())
    for number in range(3):
        engine.send(go, number, to="w")
    for number in range(6):
        engine.send(Event[int](f"e{number}"), number, to="w")
    with caplog.at_level(logging.WARNING, "durable"):
        engine.advance(60)
    (line,) = caplog.records
    assert (line.workflow_id, line.workflow_name) == ("w", "engine.sleeper")  # type: ignore[attr-defined]
    assert "left 9 events" in line.getMessage()
    assert "go (3)" in line.getMessage()
    assert "2 other names" in line.getMessage()


def test_events_kept_for_too_long_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """A sweep that makes dead letters logs one warning with their number."""
    engine = DirectEngine(*EVERY)
    engine.send(go, 1)
    engine.send(other, 2)
    engine.clock.advance(8 * DAY)
    with caplog.at_level(logging.WARNING, "durable"):
        engine.do(SweepEvents())
    assert [record.getMessage() for record in caplog.records] == [
        "2 events were not taken within event_retention and are dead letters now: go (1), other (1)"
    ]


def test_long_sweep_of_letters_continues_in_the_next_batch() -> None:
    """Old dead letters are removed a page at a time."""
    engine = DirectEngine(*EVERY, config=EngineConfig(dead_letter_retention=DAY))
    engine.start(sleeper())
    for number in range(3):
        engine.send(go, number, to="w")
    engine.advance(60)
    engine.clock.advance(2 * DAY)
    assert engine.do(SweepEvents(limit=2)) == 2
    assert len(engine.letters()) == 1
    engine.settle()
    assert engine.letters() == []


def test_replayed_letter_of_a_broadcast_is_a_broadcast() -> None:
    """A broadcast that a workflow could not read goes to all again when its letter is replayed."""
    engine = DirectEngine(*EVERY)
    for id in ("a", "b"):
        engine.start(reader(1), id)
    engine.do(SendEvent(name="news", payload='"text"', consume=False))
    (letter,) = engine.letters()
    engine.do(ReplayLetter(letter.id))
    (again,) = engine.letters()
    assert (again.payload, again.is_broadcast, engine.pending("news")) == ("text", True, 2)

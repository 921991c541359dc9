"""How long events and dead letters are kept: nothing that was accepted goes without a trace, but what may expire."""

from __future__ import annotations

import logging

import pytest

from durable import DeadLetterPolicy, DeadLetterReason, Event, WorkflowStatus
from durable.engine.config import EngineConfig
from durable.engine.operations import ReplayLetter, SendEvent, SweepEvents, TerminateWorkflow
from tests.engine.desk import Desk
from tests.engine.flows import EVERY, go, news, other, reader, sleeper, waiter

DAY = 86_400
short = Event[int]("go", expire_after=100)


@pytest.mark.parametrize("to", ["later", None])
def test_event_that_nobody_takes_becomes_a_letter(to: str | None) -> None:
    """After the retention an untargeted event, or one for an id that is not started, is a dead letter."""
    desk = Desk(*EVERY)
    desk.send(go, 1, to=to, allow_unstarted=True)
    desk.clock.advance(7 * DAY)
    assert desk.do(SweepEvents()) == 0
    desk.clock.advance(1)
    assert desk.do(SweepEvents()) == 1
    assert desk.pending("go") == 0
    (letter,) = desk.letters()
    assert (letter.payload, letter.workflow_id, letter.status) == (1, to, None)
    assert (letter.reason, letter.died_at_us) == (DeadLetterReason.RETENTION_OVER, desk.clock.now())


@pytest.mark.parametrize("how", ["in time", "later"])
def test_broadcast_that_was_taken_goes_silently(how: str) -> None:
    """A broadcast that somebody took, at once or later, leaves no letter at the end of its retention."""
    desk = Desk(*EVERY)
    if how == "in time":
        desk.start(reader())
    desk.send(news, 1)
    if how == "later":
        desk.start(reader())
    desk.clock.advance(8 * DAY)
    assert desk.do(SweepEvents()) == 1
    assert (desk.pending(news.name), desk.letters()) == (0, [])


def test_broadcast_that_nobody_took_is_a_letter() -> None:
    """A broadcast that came to nobody within its retention is a dead letter, and can be sent to all once more."""
    desk = Desk(*EVERY)
    desk.send(news, 1)
    desk.clock.advance(8 * DAY)
    assert desk.do(SweepEvents()) == 1
    (letter,) = desk.letters()
    assert (letter.reason, letter.is_broadcast) == (DeadLetterReason.RETENTION_OVER, True)


def test_broadcast_that_nobody_can_read_is_one_letter() -> None:
    """The letter that says why a broadcast could not be read stays, also when its retention is over."""
    desk = Desk(*EVERY)
    desk.start(reader())
    desk.send(Event[str](news.name, consume_on_read=False), "unreadable")
    (letter,) = desk.letters()
    desk.clock.advance(8 * DAY)
    assert desk.do(SweepEvents()) == 1
    assert (letter.reason, desk.letters()) == (DeadLetterReason.UNREADABLE, [letter])


def test_expired_event_goes_silently() -> None:
    """What expires as its sender said leaves no letter."""
    desk = Desk(*EVERY)
    desk.send(short, 1)
    desk.clock.advance(8 * DAY)
    assert desk.do(SweepEvents()) == 1
    assert (desk.pending(short.name), desk.letters()) == (0, [])


def test_retention_of_moved_mail_begins_with_the_move() -> None:
    """Mail that was years in a mailbox and becomes untargeted is kept for the whole retention from then on."""
    desk = Desk(*EVERY, config=EngineConfig(dead_letter_policy=DeadLetterPolicy.MOVE_TO_BROADCAST))
    desk.start(sleeper(365 * DAY))
    desk.send(go, 1, to="w")
    desk.advance(365 * DAY)
    desk.do(SweepEvents())
    desk.clock.advance(6 * DAY)
    desk.do(SweepEvents())
    desk.start(waiter(), "taker")
    assert desk.result("taker") == 1


@pytest.mark.parametrize("seconds", [99, 100])
def test_mail_before_the_start_expires(seconds: int) -> None:
    """An event that was sent before its workflow was started expires when its sender said."""
    desk = Desk(*EVERY)
    desk.send(short, 1, to="w", allow_unstarted=True)
    desk.start(sleeper(seconds))
    desk.advance(seconds)
    desk.do(SweepEvents())
    assert [letter.payload for letter in desk.letters()] == [1]
    desk = Desk(*EVERY)
    desk.send(short, 1, to="w", allow_unstarted=True)
    desk.clock.advance(seconds)
    desk.start(waiter())
    assert desk.status() is (WorkflowStatus.SUCCEEDED if seconds < 100 else WorkflowStatus.SUSPENDED)


def test_adopted_mail_keeps_its_expiry() -> None:
    """Mail that has become a mailbox is not delivered after it has expired."""
    desk = Desk(*EVERY)
    desk.send(short, 1, to="w", allow_unstarted=True)
    desk.start(waiter(), delay=200)
    desk.advance(200)
    assert (desk.status(), desk.pending("go")) == (WorkflowStatus.SUSPENDED, 0)


def test_moved_mail_keeps_its_expiry() -> None:
    """Mail that has become untargeted is not delivered after it has expired."""
    desk = Desk(*EVERY, config=EngineConfig(dead_letter_policy=DeadLetterPolicy.MOVE_TO_BROADCAST))
    desk.start(sleeper(50))
    desk.send(short, 1, to="w")
    desk.advance(50)
    assert desk.pending("go") == 1
    desk.clock.advance(50)
    desk.start(waiter(), "taker")
    assert (desk.status("taker"), desk.pending("go")) == (WorkflowStatus.SUSPENDED, 0)


@pytest.mark.parametrize("retention", [None, 10 * DAY])
def test_letters_are_kept_as_long_as_the_option_says(retention: float | None) -> None:
    """Dead letters stay until somebody removes them, or for as long as `dead_letter_retention` says."""
    desk = Desk(*EVERY, config=EngineConfig(dead_letter_retention=retention))
    desk.start(sleeper(60))
    desk.send(go, 1, to="w")
    desk.advance(60)
    desk.clock.advance(10 * DAY)
    assert desk.do(SweepEvents()) == 0
    desk.clock.advance(1)
    assert desk.do(SweepEvents()) == (0 if retention is None else 1)
    assert len(desk.letters()) == (1 if retention is None else 0)


def test_letter_says_how_its_workflow_ended() -> None:
    """A dead letter has the final status of the workflow that did not take it."""
    desk = Desk(*EVERY)
    desk.start(sleeper())
    desk.send(go, 1, to="w")
    desk.do(TerminateWorkflow("w"))
    (letter,) = desk.letters()
    assert (letter.reason, letter.status) == (DeadLetterReason.WORKFLOW_ENDED, WorkflowStatus.CANCELLED)


def test_letters_of_one_end_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """A workflow that ends with many events is told of in one warning, with the names of the events."""
    desk = Desk(*EVERY)
    desk.start(sleeper())
    for number in range(3):
        desk.send(go, number, to="w")
    for number in range(6):
        desk.send(Event[int](f"e{number}"), number, to="w")
    with caplog.at_level(logging.WARNING, "durable"):
        desk.advance(60)
    (line,) = caplog.records
    assert (line.workflow_id, line.workflow_name) == ("w", "desk.sleeper")  # type: ignore[attr-defined]
    assert "left 9 events" in line.getMessage()
    assert "go (3)" in line.getMessage()
    assert "2 other names" in line.getMessage()


def test_events_kept_for_too_long_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """A sweep that makes dead letters says how many, in one warning."""
    desk = Desk(*EVERY)
    desk.send(go, 1)
    desk.send(other, 2)
    desk.clock.advance(8 * DAY)
    with caplog.at_level(logging.WARNING, "durable"):
        desk.do(SweepEvents())
    assert [record.getMessage() for record in caplog.records] == [
        "2 events were not taken within event_retention and are dead letters now: go (1), other (1)"
    ]


def test_great_sweep_of_letters_goes_on_in_the_next_batch() -> None:
    """Old dead letters go a page at a time."""
    desk = Desk(*EVERY, config=EngineConfig(dead_letter_retention=DAY))
    desk.start(sleeper())
    for number in range(3):
        desk.send(go, number, to="w")
    desk.advance(60)
    desk.clock.advance(2 * DAY)
    assert desk.do(SweepEvents(limit=2)) == 2
    assert len(desk.letters()) == 1
    desk.settle()
    assert desk.letters() == []


def test_replayed_letter_of_a_broadcast_is_a_broadcast() -> None:
    """A broadcast that somebody could not read goes to all again when its letter is replayed."""
    desk = Desk(*EVERY)
    for id in ("a", "b"):
        desk.start(reader(1), id)
    desk.do(SendEvent(name="news", payload='"text"', consume=False))
    (letter,) = desk.letters()
    desk.do(ReplayLetter(letter.id))
    (again,) = desk.letters()
    assert (again.payload, again.is_broadcast, desk.pending("news")) == ("text", True, 2)

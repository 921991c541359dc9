"""What limits events: expiry, retention, room, and event ids."""

from __future__ import annotations

import pytest

from durable import (
    Delivered,
    Durable,
    Event,
    EventConflict,
    PendingEventsFull,
    Queued,
    WorkflowStatus,
    WorkflowTerminated,
    workflow,
)
from durable.engine import operations as ops
from durable.engine.config import EngineConfig
from durable.engine.operations import SendEvent, SweepEvents
from tests.engine.direct import DirectEngine, call_of, event_of, refusal
from tests.engine.flows import EVERY, collector, go, late_waiter, news, other, reader, sleeper, steady, waiter

short = Event[int]("go", expire_after=10)
DAY = 86400


@pytest.mark.parametrize("to", ["w", None])
@pytest.mark.parametrize("restart", [True, False])
def test_expired_event_is_not_delivered(to: str | None, restart: bool) -> None:
    """An expired event is not given to a new wait, neither live nor after a restart."""
    engine = DirectEngine(*EVERY)
    engine.start(late_waiter())
    engine.send(short, 1, to=to)
    engine.clock.advance(10)
    if restart:
        engine.restart(*EVERY)
    engine.finish(engine.activities[0], 1)
    assert engine.status() is WorkflowStatus.SUSPENDED
    assert engine.pending("go") == 0


@pytest.mark.parametrize("to", ["w", None])
def test_event_is_delivered_until_it_expires(to: str | None) -> None:
    """An event is delivered until just before its expiry."""
    engine = DirectEngine(*EVERY)
    engine.start(steady())
    engine.send(short, 7, to=to)
    engine.clock.advance(9.999999)
    engine.finish(engine.activities[0], 1)
    engine.advance(1000)
    assert engine.result() == 7


def test_expired_event_does_not_hide_the_next() -> None:
    """A wait skips an expired event and takes the next one."""
    engine = DirectEngine(*EVERY)
    engine.send(short, 1)
    engine.send(go, 2)
    engine.clock.advance(10)
    engine.start(waiter())
    assert engine.result() == 2
    assert engine.pending("go") == 0


def test_sweep_removes_what_is_too_old() -> None:
    """The sweep removes expired events and untargeted ones past their retention. It leaves mailboxes alone."""
    engine = DirectEngine(*EVERY)
    engine.start(sleeper(100 * DAY))
    engine.send(go, 1)
    engine.send(news, 2)
    engine.send(go, 3, to="w")
    engine.send(short, 4, to="w")
    engine.send(other, 5, to="nobody yet", allow_unstarted=True)
    engine.clock.advance(8 * DAY)
    engine.send(go, 6)
    assert engine.do(SweepEvents()) == 4
    assert [engine.pending(name) for name in ("go", "news", "other")] == [2, 0, 0]
    assert engine.do(SweepEvents()) == 0


def test_sweep_is_bounded() -> None:
    """A sweep removes no more than its limit; the rest is removed in later batches."""
    engine = DirectEngine(*EVERY)
    for number in range(5):
        engine.send(go, number)
    engine.clock.advance(8 * DAY)
    assert engine.do(SweepEvents(limit=2)) == 2
    assert engine.pending("go") == 3
    engine.settle()
    assert engine.pending("go") == 0


def test_sweep_and_taker_in_one_batch() -> None:
    """An old event that is taken in the batch of the sweep is counted once."""
    engine = DirectEngine(*EVERY)
    engine.send(go, 1)
    engine.send(go, 2)
    engine.clock.advance(8 * DAY)
    engine.batch(call_of(waiter(), "w"), SweepEvents())
    assert engine.result() == 1
    assert engine.pending("go") == 0


def test_retention_of_event_ids() -> None:
    """An event id is remembered for the retention. After that, the same id is a new event."""
    engine = DirectEngine(*EVERY, config=EngineConfig(event_retention=100))
    engine.send(go, 1, event_id="x")
    engine.clock.advance(100)
    assert engine.do(SweepEvents()) == 0
    engine.clock.advance(1)
    replies = engine.batch(SweepEvents(), event_of(go, 1, event_id="x"))
    assert replies == [2, Queued()]
    assert engine.pending("go") == 1


def test_room_per_name() -> None:
    """An event over the limit is refused. Other names still have room, and taking an event makes room again."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_pending_events=2))
    engine.send(go, 1)
    engine.send(go, 2, key="k")
    assert refusal(engine.batch(event_of(go, 3))[0]) == (PendingEventsFull, "go", 2, None)
    assert engine.send(other, 1) == Queued()
    engine.start(waiter(), "taker")
    assert engine.send(go, 4) == Queued()


def test_full_queue_still_delivers() -> None:
    """An event that a workflow waits for needs no room."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_pending_events=1))
    engine.send(go, 1, key="elsewhere")
    engine.start(waiter())
    assert engine.send(go, 2) == Delivered(("w",))


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("to", ["w", None])
def test_same_event_id_gets_the_first_answer(together: bool, to: str | None) -> None:
    """An event that is sent twice with one id is one event, and both senders get the same answer."""
    engine = DirectEngine(*EVERY)
    engine.start(waiter(), "w")
    engine.start(waiter(), "v")
    send = event_of(go, 1, to=to, event_id="x")
    assert engine.two(send, send, together=together) == [Delivered(("w",)), Delivered(("w",))]
    engine.restart(*EVERY)
    assert engine.do(send) == Delivered(("w",))
    assert engine.status("v") is WorkflowStatus.SUSPENDED


def test_same_event_id_of_a_queued_event() -> None:
    """A queued event that is sent again with its id is queued once."""
    engine = DirectEngine(*EVERY)
    assert [engine.send(go, 1, event_id="x"), engine.send(go, 1, event_id="x")] == [Queued(), Queued()]
    assert engine.pending("go") == 1


def test_same_event_id_of_a_broadcast() -> None:
    """The first answer of a broadcast names all receivers, in order."""
    engine = DirectEngine(*EVERY)
    engine.start(reader(), "a")
    engine.start(reader(), "b")
    assert engine.send(news, 1, event_id="x") == Delivered(("a", "b"))
    assert engine.send(news, 1, event_id="x") == Delivered(("a", "b"))


@pytest.mark.parametrize(
    "other_send",
    [
        event_of(go, 2, event_id="x"),
        event_of(other, 1, event_id="x"),
        event_of(go, 1, key="k", event_id="x"),
        event_of(go, 1, to="w", event_id="x"),
    ],
)
def test_same_event_id_for_another_event(other_send: SendEvent) -> None:
    """A used id with another payload, name, key or target is refused, and nothing is stored."""
    engine = DirectEngine(*EVERY)
    engine.start(sleeper())
    engine.send(go, 1, event_id="x")
    assert refusal(engine.batch(other_send)[0]) == (EventConflict, "x")
    assert (engine.pending("go"), engine.pending("other")) == (1, 0)


def test_refused_event_does_not_use_up_its_id() -> None:
    """The id of a refused event can be used again."""
    engine = DirectEngine(*EVERY)
    engine.start(waiter())
    engine.cancel()
    send = event_of(go, 1, to="w", event_id="x")
    assert [refusal(engine.batch(send)[0])[0] for _ in range(2)] == [WorkflowTerminated, WorkflowTerminated]
    assert engine.send(go, 2, event_id="x") == Queued()


@pytest.mark.parametrize("is_broadcast", [True, False])
@pytest.mark.parametrize("to", ["w", None])
@pytest.mark.parametrize("by_body", [True, False])
def test_event_that_expires_at_once_reaches_current_waiters_only(
    by_body: bool, to: str | None, is_broadcast: bool
) -> None:
    """With `expire_after=0`, only current waiters get the event; a wait that begins at that instant does not."""
    flash = Event[int]("event-limits.flash", consume_on_read=not is_broadcast, expire_after=0)

    @workflow(name="event-limits.flash_waiter")
    def flashed() -> Durable[int]:
        return (yield from flash.wait().within(1).or_default(-1))

    @workflow(name="event-limits.flash_sender")
    def flashing() -> Durable[None]:
        yield from flash.send(7, to=to)

    engine = DirectEngine(flashed, flashing, checks=False)
    engine.start(flashed())
    engine.start(flashing(), "sender") if by_body else engine.send(flash, 7, to=to)
    assert engine.result() == 7
    if to is None:
        engine.start(flashing(), "again") if by_body else engine.send(flash, 8)
        engine.start(flashed(), "late")
        engine.advance(1)
        assert engine.result("late") == -1


def test_sweep_leaves_adopted_mail_alone() -> None:
    """A sweep in the batch in which old mail is adopted does not remove it, and pending events are counted right."""
    engine = DirectEngine(*EVERY)
    engine.send(go, 1, to="w", allow_unstarted=True)
    engine.send(go, 2, to="later", allow_unstarted=True)
    engine.clock.advance(8 * 86400)
    engine.send(go, 3, to="fresh", allow_unstarted=True)
    engine.batch(call_of(sleeper(), "w"), ops.SweepEvents())
    engine.start(collector(1), "fresh")
    assert engine.result("fresh") == [3]


def test_newline_in_an_id_is_part_of_the_first_answer() -> None:
    """The first answer of an event id is returned unchanged, even for a workflow id with a line break."""
    engine = DirectEngine(*EVERY)
    engine.start(waiter(), "a\nb")
    first = engine.send(go, 1, to="a\nb", event_id="x")
    assert engine.send(go, 1, to="a\nb", event_id="x") == first

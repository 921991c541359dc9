"""Events that one waiter takes: mailboxes, the untargeted queue, keys, delivery modes and payloads."""

from __future__ import annotations

from typing import Any

import pytest

from durable import (
    DeadLetterReason,
    Delivered,
    DeliveryMode,
    Durable,
    Event,
    EventNotFound,
    PayloadTooLarge,
    Queued,
    WorkflowNotFound,
    WorkflowStatus,
    WorkflowTerminated,
    gather,
    sleep,
    workflow,
)
from durable.engine.config import EngineConfig
from durable.engine.operations import RemoveEvent, ReplayLetter, SendEvent
from durable.runner.definitions import WorkflowDef
from tests.engine.direct import DirectEngine, call_of, event_of, refusal
from tests.engine.flows import EVERY, both, collector, go, nothing, other, sleeper, steady, waiter, waits_for, work

ROOM = pytest.mark.parametrize("room", [1, 1000], ids=["evicted", "loaded"])


@workflow(name="events.slow_collector")
def slow_collector(count: int) -> Durable[list[int]]:
    """Does an activity, takes some events, then sleeps."""
    yield from work(1)
    taken = []
    for _ in range(count):
        taken.append((yield from go.wait()))
    yield from sleep(1000)
    return taken


def test_unknown_target_is_refused() -> None:
    """An event to an unknown id is refused and not stored. An event to an ended workflow is refused with its status."""
    engine = DirectEngine(*EVERY)
    engine.start(nothing())
    assert refusal(engine.batch(SendEvent(name="go", payload="1", to="x"))[0]) == (WorkflowNotFound, "x")
    assert refusal(engine.batch(SendEvent(name="go", payload="1", to="w"))[0]) == (WorkflowTerminated, "w", "succeeded")
    assert engine.pending("go") == 0


@ROOM
def test_mailbox_is_first_in_first_out(room: int) -> None:
    """Events to a workflow are taken in the order in which they were sent, by that workflow only."""
    engine = DirectEngine(slow_collector, *EVERY, config=EngineConfig(max_loaded_workflows=room))
    engine.start(slow_collector(3))
    for number in (1, 2, 3):
        assert engine.send(go, number, to="w") == Queued()
    engine.start(waiter(), "other")
    assert engine.status("other") is WorkflowStatus.SUSPENDED
    engine.finish(engine.activities[0], 1)
    engine.advance(1000)
    assert engine.result() == [1, 2, 3]


@ROOM
def test_mailbox_comes_before_the_queue(room: int) -> None:
    """A wait takes events sent to its workflow before untargeted ones."""
    engine = DirectEngine(slow_collector, *EVERY, config=EngineConfig(max_loaded_workflows=room))
    engine.start(slow_collector(3))
    engine.send(go, 1)
    engine.send(go, 2, to="w")
    engine.send(go, 3)
    engine.start(sleeper(), "elsewhere")
    engine.finish(engine.activities[0], 1)
    engine.advance(1000)
    assert engine.result() == [2, 1, 3]


def test_queue_is_first_in_first_out() -> None:
    """Untargeted events that nobody waits for are kept, and taken in the order in which they were sent."""
    engine = DirectEngine(*EVERY)
    for number in (1, 2, 3):
        assert engine.send(go, number) == Queued()
    engine.start(collector(2))
    assert engine.result() == [1, 2]
    assert engine.pending("go") == 1


def test_longest_wait_gets_the_event() -> None:
    """An untargeted event goes to exactly one waiter: the longest wait."""
    engine = DirectEngine(*EVERY)
    for id in "abc":
        engine.start(waiter(), id)
    assert engine.send(go, 1) == Delivered(("a",))
    engine.restart(*EVERY)
    assert engine.send(go, 2) == Delivered(("b",))
    assert engine.status("c") is WorkflowStatus.SUSPENDED


def test_order_of_waits_within_one_batch() -> None:
    """Waits that began in the batch of the event are served after those stored before."""
    engine = DirectEngine(*EVERY)
    engine.start(waiter(), "stored")
    replies = engine.batch(call_of(waiter(), "fresh"), event_of(go, 1), event_of(go, 2))
    assert replies[1:] == [Delivered(("stored",)), Delivered(("fresh",))]


def test_more_waiters_than_one_page() -> None:
    """Hundreds of waiters are served one by one, the longest wait first."""
    engine = DirectEngine(*EVERY, checks=False)
    for number in range(205):
        engine.start(waiter(), f"w{number}")
    for number in range(205):
        assert engine.send(go, number) == Delivered((f"w{number}",))


def test_more_events_than_one_page() -> None:
    """Hundreds of pending events are taken in order."""
    engine = DirectEngine(*EVERY, checks=False)
    for number in range(205):
        engine.send(go, number)
    engine.start(collector(205))
    assert engine.result() == [*range(205)]


def test_keys_are_apart() -> None:
    """An event with a key reaches only waits with that key, and an event without one only waits without."""
    engine = DirectEngine(*EVERY)
    engine.start(collector(1, "k"), "keyed")
    engine.start(collector(1), "plain")
    assert engine.send(go, 1, key="other") == Queued()
    assert engine.send(go, 2, key="k") == Delivered(("keyed",))
    assert engine.send(go, 3, to="plain", key="k") == Queued()
    assert engine.send(go, 4, to="plain") == Delivered(("plain",))
    assert (engine.result("keyed"), engine.result("plain")) == ([2], [4])


def test_two_waits_of_one_workflow() -> None:
    """Of two waits of one workflow for the same event, the older gets the first event."""

    @workflow(name="events.pair")
    def pair() -> Durable[tuple[int, int]]:
        return (yield from gather(go.wait(), go.wait()))

    engine = DirectEngine(pair)
    engine.start(pair())
    for number in (1, 2):
        engine.send(go, number, to="w")
    assert engine.result() == [1, 2]


def test_two_names_in_any_order() -> None:
    """Waits for several events are served in whatever order the events arrive."""
    engine = DirectEngine(*EVERY)
    engine.start(both())
    engine.send(other, 2, to="w")
    engine.send(go, 1)
    assert engine.result() == [1, 2]


def test_mail_for_an_id_that_is_not_started() -> None:
    """With allow_unstarted, an event is kept for an id, and the workflow that gets the id finds it in its mailbox."""
    engine = DirectEngine(slow_collector, *EVERY)
    for number in (1, 2):
        assert engine.send(go, number, to="w", allow_unstarted=True) == Queued()
    engine.send(go, 3, to="x", allow_unstarted=True)
    engine.start(waiter(), "not me")
    assert engine.status("not me") is WorkflowStatus.SUSPENDED
    engine.restart(slow_collector, *EVERY)
    engine.start(slow_collector(3))
    assert engine.send(go, 4, to="w", allow_unstarted=True) == Queued()
    engine.finish(engine.activities[0], 1)
    engine.advance(1000)
    assert engine.result() == [1, 2, 4]
    assert engine.pending("go") == 1


def test_mail_for_an_id_started_in_the_same_batch() -> None:
    """Mail for an id meets the start of that id in the same batch."""
    engine = DirectEngine(slow_collector)
    engine.batch(event_of(go, 1, to="w", allow_unstarted=True), call_of(slow_collector(1), "w"))
    engine.finish(engine.activities[0], 1)
    engine.advance(1000)
    assert engine.result() == [1]


@pytest.mark.parametrize(
    ("mode", "taken"),
    [(DeliveryMode.ALL, 1), (DeliveryMode.AFTER_CREATE, 2), (DeliveryMode.AFTER_WAIT, 3)],
)
@pytest.mark.parametrize("restart", [True, False])
def test_delivery_modes(mode: DeliveryMode, taken: int, restart: bool) -> None:
    """A wait sees all events, those since its workflow's creation, or those since it began, as its mode says."""
    event = Event[int]("modal")
    definition = waits_for("modal", mode)
    engine = DirectEngine(definition)
    engine.send(event, 1)
    engine.start(definition())
    engine.send(event, 2)
    engine.finish(engine.activities[0], 1)
    if restart:
        engine.restart(definition)
    if mode is DeliveryMode.AFTER_WAIT:
        assert engine.status() is WorkflowStatus.SUSPENDED
        assert engine.send(event, 3) == Delivered(("w",))
    assert engine.result() == taken
    assert engine.pending("modal") == (1 if taken < 3 else 2)


def test_large_payload_is_refused() -> None:
    """A payload over the limit is refused before anything is stored."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_payload_bytes=4))
    (reply,) = engine.batch(SendEvent(name="go", payload="12345"))
    assert refusal(reply) == (PayloadTooLarge, "event go: payload", 5, 4)
    assert engine.pending("go") == 0


def test_none_is_a_payload() -> None:
    """None is a payload like any other."""
    nothing_event = Event[None]("nothing")

    @workflow(name="events.none")
    def waits() -> Durable[str]:
        taken = yield from gather(nothing_event.wait())
        return f"got {taken}"

    engine = DirectEngine(waits)
    engine.start(waits())
    assert engine.send(nothing_event, None) == Delivered(("w",))
    assert engine.result() == "got (None,)"


def _typed(kind: Any) -> WorkflowDef[[], Any]:
    @workflow(name="events.typed")
    def typed() -> Durable[Any]:
        taken = yield from Event[kind]("typed").wait()
        yield from sleep(60)
        return taken

    return typed


@pytest.mark.parametrize("to", ["w", None])
@pytest.mark.parametrize("sent_first", [True, False])
def test_unreadable_payload_becomes_a_letter(to: str | None, sent_first: bool) -> None:
    """A payload that its waiter cannot read becomes a dead letter. Newer code that can read it gets it by a replay."""
    engine = DirectEngine(_typed(int))
    send = SendEvent(name="typed", payload='"text"', to=to, allow_unstarted=True)
    if sent_first:
        engine.do(send)
        engine.start(_typed(int)())
    else:
        engine.start(_typed(int)())
        assert engine.do(send) == Queued()
    assert engine.status() is WorkflowStatus.SUSPENDED
    assert (engine.history(), engine.pending("typed")) == ([], 0)
    (letter,) = engine.letters()
    assert (letter.payload, letter.workflow_id, letter.reason) == ("text", "w", DeadLetterReason.UNREADABLE)
    engine.restart(_typed(str))
    engine.do(ReplayLetter(letter.id, "w"))
    engine.advance(60)
    assert engine.result() == "text"


def test_unreadable_payload_goes_to_the_next_waiter() -> None:
    """An untargeted event that the first waiter cannot read goes to the next waiter that can."""
    engine = DirectEngine(_typed(int), steady, waiter)

    @workflow(name="events.texts")
    def texts() -> Durable[str]:
        return (yield from Event[str]("typed").wait())

    engine.start(_typed(int)(), "numbers")
    engine.start(texts(), "texts")
    assert engine.do(SendEvent(name="typed", payload='"text"')) == Delivered(("texts",))
    assert engine.status("numbers") is WorkflowStatus.SUSPENDED
    assert engine.letters() == []


def test_event_is_removed_in_the_batch_in_which_it_was_sent() -> None:
    """An event that is not stored yet can be removed, once."""
    engine = DirectEngine(*EVERY)
    serial = engine.state.serial + 1
    replies = engine.batch(event_of(go, 1), RemoveEvent(serial), RemoveEvent(serial))
    assert refusal(replies[2]) == (EventNotFound, serial)
    assert engine.pending("go") == 0


def test_event_taken_in_this_batch_is_not_offered_again() -> None:
    """An event that this batch has taken is not offered again, even if an older one stays in the queue."""
    engine = DirectEngine(*EVERY)
    for payload in (1, 2):
        engine.send(go, payload)
    first, second = engine.state.post.events_for(go.name, "", None)
    engine.state.post.drop_event(second)
    assert list(engine.state.post.events_for(go.name, "", None)) == [first]

"""An event from a workflow is accepted, refused and ordered like one from a client."""

from __future__ import annotations

from typing import Any

import pytest

from durable import (
    DeliveryMode,
    Durable,
    EngineConfig,
    Event,
    ParkReason,
    PendingEventsFull,
    activity,
    gather,
    race,
    workflow,
)
from durable.runner.definitions import WorkflowDef
from tests.engine.direct import DirectEngine
from tests.engine.test_event_types import Opaque

ping, junk = Event[int]("ping"), Event[int]("junk")
news = Event[int]("news", consume_on_read=False)
fresh = Event[int]("fresh", delivery_mode=DeliveryMode.AFTER_WAIT)
brief = Event[int]("brief", expire_after=5)
FIVE = EngineConfig(max_pending_events=5)


@activity
async def slow() -> int:
    """Answered by hand."""
    return 0


@workflow(name="sending_limits.sender")
def sender(name: str, count: int, to: str | None = None, *, at_once: bool = False) -> Durable[int]:
    """Sends until it is refused. Returns how many events it sent."""
    event = {"ping": ping, "news": news, "fresh": fresh}[name]
    sent = 0

    def send(number: int) -> Durable[int]:
        try:
            yield from event.send(number, to=to)
        except PendingEventsFull:
            return 0
        return 1

    if at_once:
        return sum((yield from gather(*(send(number) for number in range(count)))))
    for number in range(count):
        if not (yield from send(number)):
            break
        sent += 1
    return sent


@workflow(name="sending_limits.taker")
def taker(name: str, count: int) -> Durable[list[int]]:
    """Takes this many events."""
    event = {"ping": ping, "news": news, "fresh": fresh}[name]
    taken = []
    for _ in range(count):
        taken.append((yield from event.wait()))
    return taken


@workflow(name="sending_limits.idle")
def idle() -> Durable[int]:
    """Takes nothing."""
    return (yield from slow())


@workflow(name="sending_limits.forgetful")
def forgetful(rounds: int) -> Durable[str]:
    """Waits for its own event, and withdraws the wait as soon as the event is sent, again and again."""
    try:
        for number in range(rounds):
            yield from race(take=ping.wait(), send=ping.send(number, to="w"))
    except PendingEventsFull:
        return "full"
    return "done"


@workflow(name="sending_limits.child")
def child(parent: str) -> Durable[str]:
    """Sends an event to its parent, and ends."""
    yield from ping.send(1, to=parent)
    return "ended"


@workflow(name="sending_limits.parent")
def parent() -> Durable[str]:
    """Races an event from its child against the child's end."""
    return str((yield from race(message=ping.wait(), end=child("w"))).key)


@workflow(name="sending_limits.both")
def both() -> Durable[list[Any]]:
    """Begins to wait for an event and sends it in the same step."""
    yield from slow()
    return list((yield from gather(ping.wait(), ping.send(1, to="w"))))


@workflow(name="sending_limits.late_taker")
def late_taker() -> Durable[list[int]]:
    """Looks for an event after an activity has ended."""
    yield from slow()
    return [(yield from brief.wait().within(0).or_default(-1))]


@workflow(name="sending_limits.brief_sender")
def brief_sender(to: str | None) -> Durable[None]:
    """Sends an event that expires soon."""
    yield from brief.send(7, to=to)


FLOWS = (sender, taker, idle, forgetful, child, parent, both, late_taker, brief_sender)


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize(("name", "to"), [("ping", "t"), ("ping", None), ("news", None)])
def test_limit_holds_for_what_one_body_sends(name: str, to: str | None, at_once: bool) -> None:
    """Events that a body sends in one step count towards the limit."""
    engine = DirectEngine(*FLOWS, config=FIVE)
    engine.start(idle(), "t")
    engine.start(sender(name, 50, to, at_once=at_once))
    assert (engine.result(), engine.pending(name)) == (5, 5)


@pytest.mark.parametrize("to", ["t", None])
def test_limit_holds_though_a_parked_workflow_waits(to: str | None) -> None:
    """The wait of a parked workflow makes no room."""
    engine = DirectEngine(*FLOWS, config=FIVE)
    engine.start(taker("ping", 1), "t")
    engine.restart(sender)
    engine.start(sender("ping", 20, to))
    assert (engine.result(), engine.pending("ping")) == (5, 5)


def test_limit_holds_for_a_wait_that_is_given_up() -> None:
    """A body cannot overfill its mailbox with events for a wait that it then withdraws."""
    engine = DirectEngine(*FLOWS, config=FIVE)
    engine.start(forgetful(50))
    assert (engine.result(), engine.pending("ping"), len(engine.letters())) == ("done", 0, 0)


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 1000])
def test_full_mailbox_of_other_mail_refuses_nothing_that_is_taken(steps: int) -> None:
    """If the target waits again in the same commit, its full mailbox does not matter, even across batches."""
    engine = DirectEngine(*FLOWS, config=EngineConfig(max_pending_events=2, max_steps_per_decision=steps), checks=False)
    engine.start(taker("ping", 20), "t")
    engine.settle()
    for number in range(2):
        engine.send(junk, number, to="t")
    engine.start(sender("ping", 20, "t"))
    engine.settle()
    assert (engine.result(), engine.result("t")) == (20, [*range(20)])


def test_wait_that_began_in_the_same_commit_is_seen() -> None:
    """A send finds a wait that is not stored yet."""
    engine = DirectEngine(*FLOWS, config=FIVE)
    engine.start(both())
    for number in range(5):
        engine.send(junk, number, to="w")
    engine.finish(engine.activities[0], 0)
    assert engine.result() == [1, None]


@pytest.mark.parametrize("steps", [1, 2, 3, 1000])
def test_wait_that_is_open_sees_what_is_sent_after_it(steps: int) -> None:
    """An event counts as sent after every wait that its target opened before."""
    engine = DirectEngine(*FLOWS, config=EngineConfig(max_steps_per_decision=steps), checks=False)
    engine.start(taker("fresh", 3), "t")
    engine.start(sender("fresh", 3, "t"))
    engine.settle()
    assert engine.result("t") == [0, 1, 2]


@pytest.mark.parametrize(("seconds", "result"), [(4, [7]), (6, [-1])])
@pytest.mark.parametrize("to", ["t", None])
def test_event_of_a_body_expires(to: str | None, seconds: float, result: list[int]) -> None:
    """An event from a body expires like one from a client."""
    engine = DirectEngine(*FLOWS)
    engine.start(late_taker(), "t")
    engine.start(brief_sender(to))
    engine.clock.advance(seconds)
    engine.finish(engine.activities[0], 0)
    engine.settle()
    assert engine.result("t") == result


def test_event_arrives_before_the_end_of_its_sender() -> None:
    """An event from a child arrives before the child's end."""
    engine = DirectEngine(*FLOWS)
    engine.start(parent())
    assert engine.result() == "message"


def test_sender_with_a_wait_that_cannot_be_stored_is_parked_before_it_sends() -> None:
    """A workflow that is parked before it sends sends its event once when its code is fixed."""

    def code(kind: Any) -> WorkflowDef[..., Any]:
        @workflow(name="sending_limits.unstorable")
        def unstorable() -> Durable[Any]:
            return list((yield from gather(Event[kind]("ping").wait(), ping.send(7))))

        return unstorable

    engine = DirectEngine(code(Opaque))
    engine.start(code(Opaque)())
    assert (engine.record().park_reason, engine.pending("ping")) == (ParkReason.UNREADABLE, 0)
    engine.restart(code(int))
    assert (engine.result(), engine.pending("ping")) == ([7, None], 0)


def test_full_mailbox_does_not_matter_if_its_owner_is_about_to_wait() -> None:
    """A full mailbox does not matter while the check of its owner's next wait is postponed to the next batch."""

    @workflow(name="sending_limits.sleepy")
    def sleepy() -> Durable[list[int]]:
        yield from slow()
        return [(yield from ping.wait()), (yield from ping.wait())]

    engine = DirectEngine(
        *FLOWS, sleepy, config=EngineConfig(max_pending_events=2, max_steps_per_decision=1), checks=False
    )
    engine.start(sleepy(), "t")
    engine.send(ping, 1, to="t")
    engine.finish(engine.activities[0], 0)
    for number in range(2):
        engine.send(junk, number, to="t")
    engine.start(sender("ping", 1, "t"))
    engine.settle()
    assert (engine.result(), engine.result("t")) == (1, [1, 0])

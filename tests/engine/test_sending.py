"""Events that a workflow sends: once, in the commit of their step, and in the order of the body."""

from __future__ import annotations

from typing import Any

import pytest

from durable import (
    DeadLetterPolicy,
    Durable,
    EngineConfig,
    Event,
    WorkflowDef,
    WorkflowNotFound,
    WorkflowStatus,
    WorkflowTerminated,
    activity,
    gather,
    race,
    removed,
    spawn,
    workflow,
)
from durable.model.records import EntryKind
from tests.engine.direct import DirectEngine

ping, text = Event[int]("ping"), Event[str]("ping")
news = Event[str]("news", consume_on_read=False)


@activity
async def slow() -> int:
    """Answered by hand."""
    return 0


@workflow(name="sending.sender")
def sender(values: list[int], to: str | None = None, key: str | None = None) -> Durable[int]:
    """Sends all values, then returns their number."""
    for value in values:
        yield from ping.send(value, to=to, key=key)
    yield from slow()
    return len(values)


@workflow(name="sending.taker")
def taker(count: int, key: str | None = None) -> Durable[list[int]]:
    """Takes this many events."""
    taken = []
    for _ in range(count):
        taken.append((yield from ping.wait(key)))
    return taken


@workflow(name="sending.player")
def player(rounds: int, partner: str) -> Durable[int]:
    """One of two players: each sends back what it got, plus one."""
    ball = 0
    while ball < rounds:
        ball = yield from ping.wait()
        try:
            yield from ping.send(ball + 1, to=partner)
        except (WorkflowNotFound, WorkflowTerminated):
            break
    return ball


@workflow(name="sending.alone")
def alone(count: int) -> Durable[list[Any]]:
    """One branch takes what another branch of the same workflow sends."""

    def send() -> Durable[str]:
        for n in range(count):
            yield from ping.send(n, to="w")
        return "sent"

    return list((yield from gather(taking(count), send())))


def taking(count: int) -> Durable[list[int]]:
    """A branch that takes this many events."""
    taken = []
    for _ in range(count):
        taken.append((yield from ping.wait()))
    return taken


@workflow(name="sending.last_words")
def last_words() -> Durable[str]:
    """Sends to itself and ends."""
    yield from ping.send(1, to="w")
    return "ended"


@workflow(name="sending.careful")
def careful(to: str, value: str) -> Durable[str]:
    """Returns the name of the error if it cannot send."""
    event: Event[Any] = ping if value in ("1", "one") else text
    try:
        yield from event.send({"1": 1, "long": "x" * 2000}.get(value, value), to=to)
    except Exception as error:
        return type(error).__name__
    return "sent"


@workflow(name="sending.heir")
def heir() -> Durable[None]:
    """Takes every event."""
    while True:
        yield from ping.wait()


@workflow(name="sending.parent")
def parent() -> Durable[bool]:
    """Sends to its child, then cancels it at once."""
    child = yield from spawn(heir(), "heir")
    yield from ping.send(1, to=child.id)
    yield from ping.send(2, to=child.id)
    return (yield from child.cancel())


@workflow(name="sending.crier")
def crier() -> Durable[None]:
    """Sends a broadcast."""
    yield from news.send("fire")


@workflow(name="sending.listener")
def listener() -> Durable[str]:
    """Waits for the broadcast."""
    return (yield from news.wait())


@workflow(name="sending.racer")
def racer() -> Durable[str]:
    """One branch sends the event that ends the race."""

    def take() -> Durable[str]:
        value = yield from ping.wait()
        return f"got {value}"

    def send() -> Durable[str]:
        yield from ping.send(1, to="w")
        yield from slow()
        return "sent"

    return (yield from race(take=take(), send=send())).value


def quiet() -> WorkflowDef[..., int]:
    """A version of the sender that no longer sends."""

    @workflow(name="sending.sender")
    def sender(values: list[int], to: str | None = None, key: str | None = None) -> Durable[int]:
        yield from removed("ping")
        return (yield from slow())

    return sender


FLOWS = (sender, taker, player, alone, last_words, careful, heir, parent, crier, listener)


def test_target_gets_the_event_in_the_commit_of_the_sender() -> None:
    """The target takes the event in the commit of the step that sends it."""
    engine = DirectEngine(*FLOWS)
    engine.start(taker(2), "t")
    engine.start(sender([7, 8], "t"))
    assert engine.result("t") == [7, 8]
    assert [(entry.kind, entry.name, entry.outcome) for entry in engine.history()] == [
        (EntryKind.SEND, "ping", "null")
    ] * 2


@pytest.mark.parametrize("clean", [True, False])
def test_replay_sends_nothing_again(clean: bool) -> None:
    """A rebuilt sender does not send again."""
    engine = DirectEngine(*FLOWS)
    engine.start(taker(3), "t")
    engine.start(sender([1, 2], "t"))
    engine.restart(*FLOWS, clean=clean)
    (running,) = engine.activities
    engine.finish(running, 0)
    assert (engine.result(), engine.status("t"), engine.pending("ping")) == (2, WorkflowStatus.SUSPENDED, 0)


@pytest.mark.parametrize("key", [None, "eu"])
def test_untargeted_event_is_kept_until_a_workflow_waits(key: str | None) -> None:
    """Untargeted events that nobody waits for are pending, in the order in which they were sent."""
    engine = DirectEngine(*FLOWS)
    engine.start(sender([1, 2, 3], key=key))
    assert engine.pending("ping") == 3
    engine.start(taker(3, key), "t")
    assert engine.result("t") == [1, 2, 3]


def test_broadcast_reaches_current_and_later_waiters() -> None:
    """A broadcast from a body reaches current and later waiters, like one from a client."""
    engine = DirectEngine(*FLOWS)
    for id in ("a", "b"):
        engine.start(listener(), id)
    engine.start(crier())
    engine.start(listener(), "c")
    assert [engine.result(id) for id in "abc"] == ["fire"] * 3


@pytest.mark.parametrize("steps", [1, 2, 5, 1000])
def test_long_exchange_is_spread_over_batches(steps: int) -> None:
    """A long exchange between two workflows is spread over batches, and nothing is lost or overtaken."""
    engine = DirectEngine(*FLOWS, config=EngineConfig(max_steps_per_decision=steps), checks=False)
    engine.start(player(100, "b"), "a")
    engine.start(player(100, "a"), "b")
    engine.send(ping, 1, to="a")
    engine.settle()
    assert {engine.result("a"), engine.result("b")} == {100, 101}


@pytest.mark.parametrize("steps", [1, 2, 3, 1000])
def test_workflow_can_send_to_itself(steps: int) -> None:
    """An event that a workflow sends to itself is taken by another branch."""
    engine = DirectEngine(*FLOWS, config=EngineConfig(max_steps_per_decision=steps), checks=False)
    engine.start(alone(5))
    engine.settle()
    assert engine.result() == [[0, 1, 2, 3, 4], "sent"]


@pytest.mark.parametrize(("policy", "letters", "pending"), [
    (DeadLetterPolicy.MOVE_TO_DEAD_LETTER, 1, 0), (DeadLetterPolicy.MOVE_TO_BROADCAST, 0, 1),
    (DeadLetterPolicy.DISCARD, 0, 0),
])  # fmt: skip
def test_what_arrives_after_the_end_follows_the_policy(policy: DeadLetterPolicy, letters: int, pending: int) -> None:
    """An event whose target ends in the same decision follows the dead letter policy."""
    engine = DirectEngine(*FLOWS, config=EngineConfig(dead_letter_policy=policy))
    engine.start(last_words())
    assert (engine.result(), len(engine.letters()), engine.pending("ping")) == ("ended", letters, pending)


def test_child_takes_its_events_before_it_is_cancelled() -> None:
    """If a body sends to its child and then cancels it, both arrive in this order."""
    engine = DirectEngine(*FLOWS)
    engine.start(parent())
    engine.settle()
    assert engine.result() is True
    assert [entry.kind.value for entry in engine.history("heir")] == ["event", "event", "cancel"]


@pytest.mark.parametrize(("to", "value", "error"), [
    ("nobody", "1", "WorkflowNotFound"), ("gone", "1", "WorkflowTerminated"), ("full", "1", "PendingEventsFull"),
    ("waits", "long", "PayloadTooLarge"), ("waits", "text", "EventTypeMismatch"), ("waits", "one", "CodecError"),
    ("", "1", "InvalidValue"),
])  # fmt: skip
def test_body_is_told_why_it_cannot_send(to: str, value: str, error: str) -> None:
    """A body gets the same error as a client would. Nothing is sent, and a replay gets the same error."""
    engine = DirectEngine(*FLOWS, config=EngineConfig(max_pending_events=1, max_payload_bytes=1000))
    engine.start(last_words(), "gone")
    engine.start(listener(), "full")
    engine.send(ping, 1, to="full")
    engine.start(taker(1), "waits")
    engine.start(careful(to, value))
    engine.restart(*FLOWS)
    assert (engine.result(), engine.pending("ping"), engine.status("waits")) == (error, 1, WorkflowStatus.SUSPENDED)


def test_event_with_a_waiter_needs_no_room() -> None:
    """An event that a workflow waits for needs no room."""
    engine = DirectEngine(*FLOWS, config=EngineConfig(max_pending_events=1))
    engine.start(sender([1]), "first")
    engine.start(taker(1, "eu"), "t")
    engine.start(sender([2], key="eu"), "second")
    assert (engine.result("t"), engine.pending("ping")) == ([2], 1)


def test_branch_that_loses_by_its_own_event_sends_once() -> None:
    """An event that ends the branch that sent it is not sent again."""
    engine = DirectEngine(*FLOWS, racer)
    engine.start(racer())
    engine.restart(*FLOWS, racer)
    assert (engine.result(), engine.pending("ping"), len(engine.letters())) == ("got 1", 0, 0)


def test_parked_target_keeps_the_event() -> None:
    """A parked target keeps an event from a body, like one from a client."""
    engine = DirectEngine(*FLOWS)
    engine.start(taker(1), "t")
    engine.restart(sender)
    engine.start(sender([5], "t"))
    assert (engine.status("t"), engine.pending("ping")) == (WorkflowStatus.PARKED, 1)
    engine.restart(*FLOWS)
    assert engine.result("t") == [5]


def test_removed_send_is_skipped() -> None:
    """`removed` skips a send by the name of its event."""
    engine = DirectEngine(*FLOWS)
    engine.start(taker(2), "t")
    engine.start(sender([1], "t"))
    engine.restart(*FLOWS[1:], quiet())
    (running,) = engine.activities
    engine.finish(running, 9)
    assert (engine.result(), len(engine.waits("t"))) == (9, 1)


@pytest.mark.parametrize("ends", [True, False])
def test_send_that_loses_to_a_pending_event_is_never_made(ends: bool) -> None:
    """A pending event is taken before a send, even by a later branch. If that decides the race, nothing is sent."""

    @workflow(name="sending.outrun")
    def outrun() -> Durable[str]:
        won = yield from race(send=ping.send(1), take=news.wait())
        if not ends:
            yield from slow()
        return str(won.key)

    engine = DirectEngine(*FLOWS, outrun)
    engine.send(news, "fire")
    engine.start(outrun())
    for running in engine.activities:
        engine.finish(running, 0)
    assert (engine.result(), engine.pending("ping")) == ("take", 0)

"""Events that a workflow sends itself: once, in its own commit, and in the order in which it said so."""

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
    """Sends all, and says how many."""
    for value in values:
        yield from ping.send(value, to=to, key=key)
    yield from slow()
    return len(values)


@workflow(name="sending.taker")
def taker(count: int, key: str | None = None) -> Durable[list[int]]:
    """Takes so many."""
    taken = []
    for _ in range(count):
        taken.append((yield from ping.wait(key)))
    return taken


@workflow(name="sending.player")
def player(rounds: int, other: str) -> Durable[int]:
    """Two of these play: each sends what it got, and one more."""
    ball = 0
    while ball < rounds:
        ball = yield from ping.wait()
        try:
            yield from ping.send(ball + 1, to=other)
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
    """A branch that takes so many."""
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
    """Says what it was told when it could not send."""
    event: Event[Any] = ping if value in ("1", "one") else text
    try:
        yield from event.send({"1": 1, "long": "x" * 2000}.get(value, value), to=to)
    except Exception as error:
        return type(error).__name__
    return "sent"


@workflow(name="sending.heir")
def heir() -> Durable[None]:
    """Takes whatever comes."""
    while True:
        yield from ping.wait()


@workflow(name="sending.parent")
def parent() -> Durable[bool]:
    """Sends, and tells its child to stop right behind."""
    child = yield from spawn(heir(), "heir")
    yield from ping.send(1, to=child.id)
    yield from ping.send(2, to=child.id)
    return (yield from child.cancel())


@workflow(name="sending.crier")
def crier() -> Durable[None]:
    """Tells everybody."""
    yield from news.send("fire")


@workflow(name="sending.listener")
def listener() -> Durable[str]:
    """Hears it."""
    return (yield from news.wait())


@workflow(name="sending.racer")
def racer() -> Durable[str]:
    """One branch sends what ends the race."""

    def take() -> Durable[str]:
        value = yield from ping.wait()
        return f"got {value}"

    def send() -> Durable[str]:
        yield from ping.send(1, to="w")
        yield from slow()
        return "sent"

    return (yield from race(take=take(), send=send())).value


def quiet() -> WorkflowDef[..., int]:
    """A sender that was changed and sends no more."""

    @workflow(name="sending.sender")
    def sender(values: list[int], to: str | None = None, key: str | None = None) -> Durable[int]:
        yield from removed("ping")
        return (yield from slow())

    return sender


FLOWS = (sender, taker, player, alone, last_words, careful, heir, parent, crier, listener)


def test_target_gets_it_in_the_commit_of_the_sender() -> None:
    """Nothing is between the step of the sender and what its target learns."""
    engine = DirectEngine(*FLOWS)
    engine.start(taker(2), "t")
    engine.start(sender([7, 8], "t"))
    assert engine.result("t") == [7, 8]
    assert [(entry.kind, entry.name, entry.outcome) for entry in engine.history()] == [
        (EntryKind.SEND, "ping", "null")
    ] * 2


@pytest.mark.parametrize("clean", [True, False])
def test_replay_sends_nothing_again(clean: bool) -> None:
    """A sender that is rebuilt has sent already."""
    engine = DirectEngine(*FLOWS)
    engine.start(taker(3), "t")
    engine.start(sender([1, 2], "t"))
    engine.restart(*FLOWS, clean=clean)
    (running,) = engine.activities
    engine.finish(running, 0)
    assert (engine.result(), engine.status("t"), engine.pending("ping")) == (2, WorkflowStatus.SUSPENDED, 0)


@pytest.mark.parametrize("key", [None, "eu"])
def test_untargeted_is_kept_until_somebody_waits(key: str | None) -> None:
    """What nobody waits for is pending, in the order in which it was sent."""
    engine = DirectEngine(*FLOWS)
    engine.start(sender([1, 2, 3], key=key))
    assert engine.pending("ping") == 3
    engine.start(taker(3, key), "t")
    assert engine.result("t") == [1, 2, 3]


def test_broadcast_reaches_all_who_wait_and_who_come_later() -> None:
    """As one that a client sends."""
    engine = DirectEngine(*FLOWS)
    for id in ("a", "b"):
        engine.start(listener(), id)
    engine.start(crier())
    engine.start(listener(), "c")
    assert [engine.result(id) for id in "abc"] == ["fire"] * 3


@pytest.mark.parametrize("steps", [1, 2, 5, 1000])
def test_two_that_answer_each_other_hold_up_nobody(steps: int) -> None:
    """A long exchange is spread over batches, and nothing of it is lost or overtaken."""
    engine = DirectEngine(*FLOWS, config=EngineConfig(max_steps_per_decision=steps), checks=False)
    engine.start(player(100, "b"), "a")
    engine.start(player(100, "a"), "b")
    engine.send(ping, 1, to="a")
    engine.settle()
    assert {engine.result("a"), engine.result("b")} == {100, 101}


@pytest.mark.parametrize("steps", [1, 2, 3, 1000])
def test_other_branch_of_the_same_workflow_takes_it(steps: int) -> None:
    """A workflow may send to itself."""
    engine = DirectEngine(*FLOWS, config=EngineConfig(max_steps_per_decision=steps), checks=False)
    engine.start(alone(5))
    engine.settle()
    assert engine.result() == [[0, 1, 2, 3, 4], "sent"]


@pytest.mark.parametrize(("policy", "letters", "pending"), [
    (DeadLetterPolicy.MOVE_TO_DEAD_LETTER, 1, 0), (DeadLetterPolicy.MOVE_TO_BROADCAST, 0, 1),
    (DeadLetterPolicy.DISCARD, 0, 0),
])  # fmt: skip
def test_what_arrives_after_the_end_follows_the_policy(policy: DeadLetterPolicy, letters: int, pending: int) -> None:
    """It was accepted, and its target has ended in the same decision."""
    engine = DirectEngine(*FLOWS, config=EngineConfig(dead_letter_policy=policy))
    engine.start(last_words())
    assert (engine.result(), len(engine.letters()), engine.pending("ping")) == ("ended", letters, pending)


def test_child_hears_before_it_is_told_to_stop() -> None:
    """What a body sends and then cancels arrives in this order."""
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
    """As a client is. Nothing is sent, and replay is told the same."""
    engine = DirectEngine(*FLOWS, config=EngineConfig(max_pending_events=1, max_payload_bytes=1000))
    engine.start(last_words(), "gone")
    engine.start(listener(), "full")
    engine.send(ping, 1, to="full")
    engine.start(taker(1), "waits")
    engine.start(careful(to, value))
    engine.restart(*FLOWS)
    assert (engine.result(), engine.pending("ping"), engine.status("waits")) == (error, 1, WorkflowStatus.SUSPENDED)


def test_somebody_waits_so_a_full_mailbox_does_not_matter() -> None:
    """Only what must be kept needs room."""
    engine = DirectEngine(*FLOWS, config=EngineConfig(max_pending_events=1))
    engine.start(sender([1]), "first")
    engine.start(taker(1, "eu"), "t")
    engine.start(sender([2], key="eu"), "second")
    assert (engine.result("t"), engine.pending("ping")) == ([2], 1)


def test_branch_that_is_raced_past_has_sent_once() -> None:
    """The event ends the very branch that sent it: it is not sent again."""
    engine = DirectEngine(*FLOWS, racer)
    engine.start(racer())
    engine.restart(*FLOWS, racer)
    assert (engine.result(), engine.pending("ping"), len(engine.letters())) == ("got 1", 0, 0)


def test_parked_target_keeps_it() -> None:
    """As mail of a client is kept."""
    engine = DirectEngine(*FLOWS)
    engine.start(taker(1), "t")
    engine.restart(sender)
    engine.start(sender([5], "t"))
    assert (engine.status("t"), engine.pending("ping")) == (WorkflowStatus.PARKED, 1)
    engine.restart(*FLOWS)
    assert engine.result("t") == [5]


def test_removed_step_is_passed_over() -> None:
    """The name of the step is that of the event."""
    engine = DirectEngine(*FLOWS)
    engine.start(taker(2), "t")
    engine.start(sender([1], "t"))
    engine.restart(*FLOWS[1:], quiet())
    (running,) = engine.activities
    engine.finish(running, 9)
    assert (engine.result(), len(engine.waits("t"))) == (9, 1)


@pytest.mark.parametrize("ends", [True, False])
def test_send_that_loses_to_a_pending_event_is_never_made(ends: bool) -> None:
    """What is pending is taken first, also by a later branch. If that decides a race, nothing is sent."""

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

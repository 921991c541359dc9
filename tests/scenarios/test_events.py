"""Events through the engine: which waits receive them, and what the sender gets back."""

from __future__ import annotations

from datetime import timedelta

import pytest

from durable import (
    DeadLetterPolicy,
    Delivered,
    DeliveryMode,
    Durable,
    EngineConfig,
    Event,
    EventConflict,
    PendingEventsFull,
    Queued,
    TimedOut,
    WorkflowEngine,
    WorkflowNotFound,
    WorkflowStatus,
    WorkflowTerminated,
    race,
    sleep,
    workflow,
)
from durable.testing.clock import ManualClock
from tests.scenarios.kit import SOON, Store, move, waiting

pytestmark = pytest.mark.anyio
word = Event[str]("events-word")
later_word = Event[str]("events-word", delivery_mode=DeliveryMode.AFTER_WAIT)
own_word = Event[str]("events-word", delivery_mode=DeliveryMode.AFTER_CREATE)
news = Event[str]("events-news", consume_on_read=False)
milk = Event[str]("events-milk", expire_after=timedelta(hours=1))
maybe = Event[int | None]("events-maybe")
start_over = Event[None]("events-start-over")


@workflow(name="events-listen")
def listen(count: int, key: str | None = None) -> Durable[list[str]]:
    """Take this many words."""
    heard = []
    for _ in range(count):
        heard.append((yield from word.wait(key)))
    return heard


@workflow(name="events-narrow")
def narrow(mode: str) -> Durable[str]:
    """Wait for a nod, then for a word, then for another nod."""
    yield from start_over.wait()
    heard = yield from (later_word if mode == "wait" else own_word).wait()
    yield from start_over.wait()
    return heard


async def test_targeted_events_arrive_in_order_also_before_the_wait(store: Store) -> None:
    """A mailbox is first in, first out; the sender learns which workflow took the event, or that it is kept."""
    async with WorkflowEngine(store) as engine:
        handle = await engine.start(listen(3), id="a")
        assert await engine.send_event(word, "one", to="a") == Delivered(("a",))
        assert await engine.send_event(word, "two", to="a") == Delivered(("a",))
        assert await engine.send_event(word, "three", to="a") == Delivered(("a",))
        assert await handle.result(timeout=SOON) == ["one", "two", "three"]
        early = await engine.start(narrow("create"), id="b")
        assert await engine.send_event(word, "first", to="b") == Queued()
        assert await engine.send_event(word, "second", to="b") == Queued()
        for _ in range(2):
            assert await engine.send_event(start_over, None, to="b") == Delivered(("b",))
        assert await early.result(timeout=SOON) == "first"


async def test_event_to_an_unknown_id_is_refused(store: Store) -> None:
    """An unknown id is `WorkflowNotFound`, an ended workflow `WorkflowTerminated` with its status; nothing is kept."""
    async with WorkflowEngine(store) as engine:
        with pytest.raises(WorkflowNotFound):
            await engine.send_event(word, "x", to="a")
        await engine.start(listen(0), id="a")
        with pytest.raises(WorkflowTerminated) as caught:
            await engine.send_event(word, "x", to="a")
        assert caught.value.status is WorkflowStatus.SUCCEEDED
        handle = await engine.start(listen(1), id="b")
        assert await engine.send_event(word, "y") == Delivered(("b",))
        assert await handle.result(timeout=SOON) == ["y"]


async def test_event_may_wait_for_its_workflow(store: Store) -> None:
    """With `allow_unstarted` events are kept for an id that starts later, in another engine, in order."""
    async with WorkflowEngine(store) as engine:
        for text in ("one", "two"):
            assert await engine.send_event(word, text, to="a", allow_unstarted=True) == Queued()
    async with WorkflowEngine(store) as engine:
        assert await (await engine.start(listen(2), id="a")).result(timeout=SOON) == ["one", "two"]


async def test_untargeted_event_goes_to_the_longest_wait(store: Store) -> None:
    """Exactly one waiter gets it, the one that has waited longest; without a waiter it is kept over a restart."""
    async with WorkflowEngine(store) as engine:
        for id in ("a", "b"):
            await engine.start(listen(1), id=id)
        assert await engine.send_event(word, "one") == Delivered(("a",))
        assert await engine.send_event(word, "two") == Delivered(("b",))
        assert await engine.send_event(word, "three") == Queued()
    async with WorkflowEngine(store) as engine:
        assert await (await engine.start(listen(1), id="c")).result(timeout=SOON) == ["three"]
        assert await engine.handle("a").result() == ["one"]
        assert await engine.handle("b").result() == ["two"]


async def test_keys_do_not_mix(store: Store) -> None:
    """An event with a key goes only to a wait with that key, an event without a key only to a wait without."""
    async with WorkflowEngine(store) as engine:
        await engine.start(listen(1, "red"), id="red")
        await engine.start(listen(1), id="plain")
        assert await engine.send_event(word, "b", key="blue") == Queued()
        assert await engine.send_event(word, "r", key="red") == Delivered(("red",))
        assert await engine.send_event(word, "p", to="plain") == Delivered(("plain",))


async def test_broadcast_reaches_all_waiters_and_later_ones(store: Store) -> None:
    """Every current waiter gets it once, and so does a waiter that begins in the next engine; nobody gets it twice."""

    @workflow(name="reader")
    def reader() -> Durable[list[str]]:
        first = yield from news.wait()
        second = yield from news.wait().within(60).or_default("nothing")
        return [first, second]

    clock = ManualClock()
    async with WorkflowEngine(store, workflows=[reader], clock=clock) as engine:
        for id in ("a", "b"):
            await engine.start(reader(), id=id)
        assert await engine.send_event(news, "hot") == Delivered(("a", "b"))
    async with WorkflowEngine(store, workflows=[reader], clock=clock) as engine:
        await engine.start(reader(), id="c")
        await move(engine, clock, 60)
        for id in ("a", "b", "c"):
            assert await engine.handle(id).result(timeout=SOON) == ["hot", "nothing"]


async def test_delivery_modes_narrow_what_a_wait_sees(store: Store) -> None:
    """`AFTER_CREATE` skips what was sent before the workflow, `AFTER_WAIT` also what came before the wait."""
    async with WorkflowEngine(store) as engine:
        await engine.send_event(word, "before all")
        created = await engine.start(narrow("create"), id="created")
        waited = await engine.start(narrow("wait"), id="waited")
        await engine.send_event(word, "for created", to="created")
        await engine.send_event(word, "too early", to="waited")
        for id in ("created", "waited"):
            await engine.send_event(start_over, None, to=id)
        assert await engine.send_event(word, "now", to="waited") == Delivered(("waited",))
        for id in ("created", "waited"):
            await engine.send_event(start_over, None, to=id)
        assert await created.result(timeout=SOON) == "for created"
        assert await waited.result(timeout=SOON) == "now"
        assert await (await engine.start(listen(1))).result(timeout=SOON) == ["before all"]


async def test_event_id_makes_a_send_repeatable(store: Store) -> None:
    """The same id and payload again gets the first answer, also in another engine; another payload is a conflict."""
    async with WorkflowEngine(store) as engine:
        handle = await engine.start(listen(2), id="a")
        assert await engine.send_event(word, "one", to="a", event_id="e1") == Delivered(("a",))
        assert await engine.send_event(word, "one", to="a", event_id="e1") == Delivered(("a",))
        assert await engine.send_event(word, "kept", event_id="e2", key="k") == Queued()
    async with WorkflowEngine(store) as engine:
        assert await engine.send_event(word, "one", to="a", event_id="e1") == Delivered(("a",))
        assert await engine.send_event(word, "kept", event_id="e2", key="k") == Queued()
        with pytest.raises(EventConflict):
            await engine.send_event(word, "other", to="a", event_id="e1")
        await engine.send_event(word, "two", to="a", event_id="e3")
        handle = engine.handle("a")
        assert await handle.result(timeout=SOON) == ["one", "two"]


async def test_event_that_is_too_old_is_never_delivered(store: Store) -> None:
    """After `expire_after` an event is gone, both for a later wait and after a restart."""
    clock = ManualClock()

    @workflow(name="drinks")
    def drinks() -> Durable[str]:
        return (yield from milk.wait().within(1).or_default("water"))

    async with WorkflowEngine(store, workflows=[drinks], clock=clock) as engine:
        await engine.send_event(milk, "fresh")
        await engine.send_event(milk, "sour")
        await move(engine, clock, timedelta(minutes=59))
        assert await (await engine.start(drinks(), id="a")).result(timeout=SOON) == "fresh"
    clock.advance(timedelta(minutes=1))
    async with WorkflowEngine(store, workflows=[drinks], clock=clock) as engine:
        handle = await engine.start(drinks(), id="b")
        await move(engine, clock, 1)
        assert await handle.result(timeout=SOON) == "water"


async def test_pending_events_are_bounded(store: Store) -> None:
    """A sender beyond `max_pending_events` gets an error, nothing is dropped, and a wait makes room again."""
    async with WorkflowEngine(store, config=EngineConfig(max_pending_events=2)) as engine:
        for text in ("one", "two"):
            assert await engine.send_event(word, text) == Queued()
        with pytest.raises(PendingEventsFull):
            await engine.send_event(word, "three")
        assert await (await engine.start(listen(1))).result(timeout=SOON) == ["one"]
        assert await engine.send_event(word, "four") == Queued()
        assert await (await engine.start(listen(2))).result(timeout=SOON) == ["two", "four"]


async def test_none_is_a_payload_and_an_event_that_lost_stays(store: Store) -> None:
    """`None` wakes a wait like any value; an event for the branch that lost a race is kept for the next wait."""

    @workflow(name="loser")
    def loser() -> Durable[list[object]]:
        won = yield from race(maybe=maybe.wait(), word=word.wait())
        return [won.key, won.value, (yield from word.wait())]

    async with WorkflowEngine(store) as engine:
        handle = await engine.start(loser(), id="a")
        assert await engine.send_event(maybe, None, to="a") == Delivered(("a",))
        assert await engine.send_event(word, "kept", to="a") == Delivered(("a",))
        assert await handle.result(timeout=SOON) == ["maybe", None, "kept"]


async def test_wait_within_a_limit_times_out_and_goes_on(store: Store) -> None:
    """`within` raises `TimedOut` in the body, the wait is withdrawn, and a later event is only queued."""
    clock = ManualClock()

    @workflow(name="impatient")
    def impatient() -> Durable[str]:
        try:
            return (yield from word.wait().within(5))
        except TimedOut:
            yield from sleep(5)
        return "gave up"

    async with WorkflowEngine(store, clock=clock) as engine:
        handle = await engine.start(impatient(), id="a")
        await move(engine, clock, 5)
        await waiting(engine, "a", "timer")
        assert await engine.send_event(word, "late", to="a") == Queued()
        await move(engine, clock, 5)
        assert await handle.result(timeout=SOON) == "gave up"


@pytest.mark.parametrize("policy", list(DeadLetterPolicy))
async def test_undelivered_events_follow_the_policy(store: Store, policy: DeadLetterPolicy) -> None:
    """Events that a workflow never took become dead letters or untargeted events, or are dropped, as configured."""
    async with WorkflowEngine(store, config=EngineConfig(dead_letter_policy=policy)) as engine:
        other = await engine.start(listen(1, "k"), id="other")
        handle = await engine.start(narrow("create"), id="a")
        await engine.send_event(word, "left over", to="a", key="k")
        await engine.terminate("a")
        assert await handle.status() is not None
        letters = [letter.payload for letter in await engine.dead_letters.list()]
        assert letters == (["left over"] if policy is DeadLetterPolicy.MOVE_TO_DEAD_LETTER else [])
        if policy is DeadLetterPolicy.MOVE_TO_BROADCAST:
            assert await other.result(timeout=SOON) == ["left over"]
        else:
            await engine.terminate("other")


# --- an event that ends the workflow which takes it out of its mailbox -----------------------------------------------


@workflow(name="events-nod-then-word")
def nod_then_word() -> Durable[str]:
    """The word waits in the mailbox when the wait for it begins, and ends the workflow."""
    yield from start_over.wait()
    return (yield from word.wait())


async def test_event_that_ends_its_workflow_is_no_dead_letter(store: Store) -> None:
    """An event that was taken is gone: it does not become a dead letter, even if taking it ended the workflow."""
    async with WorkflowEngine(store) as engine:
        handle = await engine.start(nod_then_word(), id="a")
        assert await engine.send_event(word, "hello", to="a") == Queued()
        await engine.send_event(start_over, None, to="a")
        assert await handle.result(timeout=SOON) == "hello"
        assert await engine.dead_letters.list() == []


async def test_event_that_ends_its_workflow_is_not_broadcast(store: Store) -> None:
    """With MOVE_TO_BROADCAST it is not delivered a second time, to another workflow."""
    config = EngineConfig(dead_letter_policy=DeadLetterPolicy.MOVE_TO_BROADCAST)
    async with WorkflowEngine(store, config=config) as engine:
        handle = await engine.start(nod_then_word(), id="a")
        await engine.send_event(word, "hello", to="a")
        other = await engine.start(listen(1), id="b")
        await engine.send_event(start_over, None, to="a")
        assert await handle.result(timeout=SOON) == "hello"
        with pytest.raises(TimeoutError):
            await other.result(timeout=0.1)


async def test_events_are_still_found_after_one_that_ended_its_workflow(store: Store) -> None:
    """The count of pending events stays right, so that the next wait finds what is pending."""
    async with WorkflowEngine(store) as engine:
        await engine.send_event(word, "kept", to="later", allow_unstarted=True)
        handle = await engine.start(nod_then_word(), id="a")
        await engine.send_event(word, "hello", to="a")
        await engine.send_event(start_over, None, to="a")
        assert await handle.result(timeout=SOON) == "hello"
        assert await (await engine.start(listen(1), id="later")).result(timeout=2) == ["kept"]

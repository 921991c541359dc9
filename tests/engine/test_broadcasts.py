"""Events that every waiter gets: `consume_on_read=False`."""

from __future__ import annotations

import pytest

from durable import Delivered, Durable, Event, PendingEventsFull, Queued, WorkflowStatus, gather, sleep, workflow
from durable.engine.config import EngineConfig
from durable.engine.operations import ForkWorkflow
from tests.engine.direct import DirectEngine, event_of, refusal
from tests.engine.flows import EVERY, go, news, reader, work

ROOM = pytest.mark.parametrize("room", [1, 1000], ids=["evicted", "loaded"])


@workflow(name="broadcasts.rounds")
def reading_rounds(left: int, so_far: int = 0) -> Durable[int]:
    """Reads one broadcast per round."""
    if left == 0:
        return so_far
    raise reading_rounds.continue_as(left - 1, so_far * 10 + (yield from news.wait()))


@ROOM
def test_every_waiter_gets_it_once(room: int) -> None:
    """A broadcast reaches every waiter, and no workflow gets it twice."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_loaded_workflows=room))
    for id in "abc":
        engine.start(reader(2), id)
    assert engine.send(news, 1) == Delivered(("a", "b", "c"))
    assert {engine.status(id) for id in "abc"} == {WorkflowStatus.SUSPENDED}
    engine.send(news, 2)
    assert [engine.result(id) for id in "abc"] == [[1, 2]] * 3


@ROOM
def test_later_waiters_get_it_too(room: int) -> None:
    """A broadcast is kept: a later waiter gets all that are stored, in order and once each."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_loaded_workflows=room))
    for number in (1, 2, 3):
        assert engine.send(news, number) == Queued()
    engine.start(reader(4))
    assert [entry.outcome for entry in engine.history()] == ["1", "2", "3"]
    engine.restart(*EVERY)
    assert engine.status() is WorkflowStatus.SUSPENDED
    engine.send(news, 4)
    assert engine.result() == [1, 2, 3, 4]
    assert engine.pending("news") == 4


def test_continue_as_does_not_read_it_again() -> None:
    """A round does not get a broadcast that an earlier round has read."""
    engine = DirectEngine(reading_rounds)
    engine.start(reading_rounds(3))
    engine.send(news, 1)
    engine.settle()
    assert engine.record().round == 1
    engine.send(news, 2)
    engine.settle()
    engine.send(news, 3)
    engine.settle()
    assert engine.result() == 123


def test_two_waits_of_one_workflow() -> None:
    """A workflow gets a broadcast once, even if two of its waits could take it."""

    @workflow(name="broadcasts.pair")
    def pair() -> Durable[tuple[int, int]]:
        return (yield from gather(news.wait(), news.wait()))

    engine = DirectEngine(pair)
    engine.start(pair())
    engine.send(news, 1)
    assert engine.status() is WorkflowStatus.SUSPENDED
    engine.send(news, 2)
    assert engine.result() == [1, 2]


def test_keys_have_their_own_cursors() -> None:
    """Reading a broadcast under one key does not hide those under another."""

    @workflow(name="broadcasts.keys")
    def keys() -> Durable[list[int]]:
        taken = []
        for key in ("a", "b", "a"):
            taken.append((yield from news.wait(key)))
        return taken

    engine = DirectEngine(keys)
    for number, key in enumerate("aba"):
        engine.send(news, number, key=key)
    engine.start(keys())
    assert engine.result() == [0, 1, 2]


def test_expired_broadcast_is_not_read() -> None:
    """An expired broadcast is not given to later waiters. The first that finds it deletes it."""
    short = Event[int]("news", consume_on_read=False, expire_after=10)
    engine = DirectEngine(*EVERY)
    engine.send(short, 1)
    engine.clock.advance(10)
    engine.start(reader(1))
    assert engine.status() is WorkflowStatus.SUSPENDED
    assert engine.pending("news") == 0


def test_full_queue_refuses_before_anybody_gets_it() -> None:
    """If there is no room for a broadcast, it is refused and no waiter gets it."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_pending_events=1))
    engine.start(reader(2))
    engine.send(news, 1, key="nobody waits for this key")
    assert refusal(engine.batch(event_of(news, 2))[0]) == (PendingEventsFull, "news", 1, None)
    assert engine.history() == []


def test_broadcast_that_ends_its_readers() -> None:
    """A broadcast that ends some workflows and moves others on to other waits does both in one commit."""

    @workflow(name="broadcasts.goes_on")
    def goes_on() -> Durable[int]:
        yield from news.wait()
        taken = yield from go.wait()
        yield from sleep(10)
        return taken

    engine = DirectEngine(goes_on, *EVERY)
    engine.send(go, 5)
    engine.start(goes_on(), "a")
    engine.start(reader(1), "b")
    assert engine.send(news, 1) == Delivered(("a", "b"))
    engine.advance(10)
    assert (engine.result("a"), engine.result("b")) == (5, [1])


def test_targeted_broadcast_is_taken_once() -> None:
    """An event sent to one workflow is removed from its mailbox when it is taken, even if it is a broadcast."""

    @workflow(name="broadcasts.late")
    def late() -> Durable[int]:
        yield from work(1)
        taken = yield from news.wait()
        yield from news.wait()
        return taken

    engine = DirectEngine(late)
    engine.start(late())
    engine.send(news, 1, to="w")
    engine.finish(engine.activities[0], 1)
    assert engine.pending("news") == 0
    assert engine.status() is WorkflowStatus.SUSPENDED


def test_fork_in_the_batch_of_a_broadcast() -> None:
    """A fork of a workflow that has just taken a broadcast does not take it again."""
    engine = DirectEngine(*EVERY)
    engine.start(reader(2))
    engine.send(news, 1)
    engine.batch(event_of(news, 2), ForkWorkflow("w", "1", "fork"))
    engine.settle()
    assert (engine.result(), engine.result("fork")) == ([1, 2], [1, 2])

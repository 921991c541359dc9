"""Events that everybody gets: `consume_on_read=False`."""

from __future__ import annotations

import pytest

from durable import Delivered, Durable, Event, PendingEventsFull, Queued, WorkflowStatus, gather, sleep, workflow
from durable.engine.config import EngineConfig
from durable.engine.operations import ForkWorkflow
from tests.engine.desk import Desk, event_of, refusal
from tests.engine.flows import EVERY, go, news, reader, work

ROOM = pytest.mark.parametrize("room", [1, 1000], ids=["evicted", "loaded"])


@workflow(name="broadcasts.rounds")
def reading_rounds(left: int, so_far: int = 0) -> Durable[int]:
    """Reads one broadcast in each round."""
    if left == 0:
        return so_far
    raise reading_rounds.continue_as(left - 1, so_far * 10 + (yield from news.wait()))


@ROOM
def test_every_waiter_gets_it_once(room: int) -> None:
    """A broadcast reaches everybody who waits, and a waiter that waits on does not get the same one again."""
    desk = Desk(*EVERY, config=EngineConfig(max_loaded_workflows=room))
    for id in "abc":
        desk.start(reader(2), id)
    assert desk.send(news, 1) == Delivered(("a", "b", "c"))
    assert {desk.status(id) for id in "abc"} == {WorkflowStatus.SUSPENDED}
    desk.send(news, 2)
    assert [desk.result(id) for id in "abc"] == [[1, 2]] * 3


@ROOM
def test_later_waiters_get_it_too(room: int) -> None:
    """A broadcast stays: one that comes later gets all that are there, in order and once each."""
    desk = Desk(*EVERY, config=EngineConfig(max_loaded_workflows=room))
    for number in (1, 2, 3):
        assert desk.send(news, number) == Queued()
    desk.start(reader(4))
    assert [entry.outcome for entry in desk.history()] == ["1", "2", "3"]
    desk.restart(*EVERY)
    assert desk.status() is WorkflowStatus.SUSPENDED
    desk.send(news, 4)
    assert desk.result() == [1, 2, 3, 4]
    assert desk.pending("news") == 4


def test_continue_as_does_not_read_it_again() -> None:
    """What one round has read the next round does not get again."""
    desk = Desk(reading_rounds)
    desk.start(reading_rounds(3))
    desk.send(news, 1)
    desk.settle()
    assert desk.record().round == 1
    desk.send(news, 2)
    desk.settle()
    desk.send(news, 3)
    desk.settle()
    assert desk.result() == 123


def test_two_waits_of_one_workflow() -> None:
    """A workflow gets a broadcast once, also if two of its waits could take it."""

    @workflow(name="broadcasts.pair")
    def pair() -> Durable[tuple[int, int]]:
        return (yield from gather(news.wait(), news.wait()))

    desk = Desk(pair)
    desk.start(pair())
    desk.send(news, 1)
    assert desk.status() is WorkflowStatus.SUSPENDED
    desk.send(news, 2)
    assert desk.result() == [1, 2]


def test_keys_have_their_own_cursors() -> None:
    """What was read under one key does not hide what was sent under another."""

    @workflow(name="broadcasts.keys")
    def keys() -> Durable[list[int]]:
        taken = []
        for key in ("a", "b", "a"):
            taken.append((yield from news.wait(key)))
        return taken

    desk = Desk(keys)
    for number, key in enumerate("aba"):
        desk.send(news, number, key=key)
    desk.start(keys())
    assert desk.result() == [0, 1, 2]


def test_expired_broadcast_is_not_read() -> None:
    """A broadcast that has expired is not given to later waiters, and goes when one of them finds it."""
    short = Event[int]("news", consume_on_read=False, expire_after=10)
    desk = Desk(*EVERY)
    desk.send(short, 1)
    desk.clock.advance(10)
    desk.start(reader(1))
    assert desk.status() is WorkflowStatus.SUSPENDED
    assert desk.pending("news") == 0


def test_full_queue_refuses_before_anybody_gets_it() -> None:
    """A broadcast that there is no room for is refused, and no waiter has got it."""
    desk = Desk(*EVERY, config=EngineConfig(max_pending_events=1))
    desk.start(reader(2))
    desk.send(news, 1, key="nobody waits for this key")
    assert refusal(desk.batch(event_of(news, 2))[0]) == (PendingEventsFull, "news", 1, None)
    assert desk.history() == []


def test_broadcast_that_ends_its_readers() -> None:
    """A broadcast that ends some workflows and lets others go on to other things does both in one commit."""

    @workflow(name="broadcasts.goes_on")
    def goes_on() -> Durable[int]:
        yield from news.wait()
        taken = yield from go.wait()
        yield from sleep(10)
        return taken

    desk = Desk(goes_on, *EVERY)
    desk.send(go, 5)
    desk.start(goes_on(), "a")
    desk.start(reader(1), "b")
    assert desk.send(news, 1) == Delivered(("a", "b"))
    desk.advance(10)
    assert (desk.result("a"), desk.result("b")) == (5, [1])


def test_targeted_broadcast_is_taken_once() -> None:
    """An event that is sent to one workflow is taken out of its mailbox, whatever its kind."""

    @workflow(name="broadcasts.late")
    def late() -> Durable[int]:
        yield from work(1)
        taken = yield from news.wait()
        yield from news.wait()
        return taken

    desk = Desk(late)
    desk.start(late())
    desk.send(news, 1, to="w")
    desk.finish(desk.activities[0], 1)
    assert desk.pending("news") == 0
    assert desk.status() is WorkflowStatus.SUSPENDED


def test_fork_in_the_batch_of_a_broadcast() -> None:
    """A fork from behind a broadcast that was taken a moment ago does not take it again."""
    desk = Desk(*EVERY)
    desk.start(reader(2))
    desk.send(news, 1)
    desk.batch(event_of(news, 2), ForkWorkflow("w", "1", "fork"))
    desk.settle()
    assert (desk.result(), desk.result("fork")) == ([1, 2], [1, 2])

"""The cost of a broadcast does not depend on how many are kept, nor on how many its subscribers have taken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from durable import DeliveryMode, Durable, Event, workflow
from durable.engine.operations import SendEvent
from tests.growth.counted import Counted, Work

news = Event[int]("growth.news", consume_on_read=False)
fresh = Event[int]("growth.news", consume_on_read=False, delivery_mode=DeliveryMode.AFTER_WAIT)
SUBSCRIBERS = 10


@workflow(name="growth.subscriber")
def subscriber(only_new: bool = False) -> Durable[None]:
    """Takes every broadcast."""
    while True:
        yield from (fresh if only_new else news).wait()


@workflow(name="growth.rounds")
def rounds(number: int, key: str = "") -> Durable[None]:
    """Takes one broadcast in each round, perhaps each under its own key."""
    yield from news.wait(key=f"{key}{number}" if key else None)
    raise rounds.continue_as(number + 1, key)


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Counted]:
    """An engine on a file."""
    made = Counted(tmp_path / "store.db")
    made.open()
    yield made
    made.close()


def _broadcast(counted: Counted, key: str = "") -> Work:
    return counted.do(SendEvent(name=news.name, event_key=key, payload="1", consume=False))


def _assert_same(small: Work, great: Work) -> None:
    assert great.statements == small.statements
    assert great.vm_steps <= 1.3 * small.vm_steps + 100


@pytest.mark.parametrize("only_new", [False, True])
def test_broadcast_does_not_read_what_is_kept(counted: Counted, only_new: bool) -> None:
    """Subscribers that have passed hundreds of broadcasts find the next one without reading those before it."""
    counted.start(subscriber(only_new) for _ in range(SUBSCRIBERS))
    _broadcast(counted)
    small = _broadcast(counted)
    for _ in range(300):
        _broadcast(counted)
    _assert_same(small, _broadcast(counted))


def test_newcomer_of_new_events_does_not_read_what_is_kept(counted: Counted) -> None:
    """A wait for events that are sent after it began does not read those before it."""
    counted.start([subscriber(True)], "a")
    small = counted.start([subscriber(True)], "b")
    for _ in range(300):
        _broadcast(counted)
    great = counted.start([subscriber(True)], "c")
    assert great.vm_steps <= 1.3 * small.vm_steps + 300


@pytest.mark.parametrize("key", ["", "k"])
def test_rounds_do_not_grow(counted: Counted, key: str) -> None:
    """A workflow that takes a broadcast in every round is as small and as fast after hundreds of rounds."""
    counted.start([rounds(0, key)])
    works = [_broadcast(counted, f"{key}{number}" if key else "") for number in range(300)]
    _assert_same(works[2], works[-1])
    record = counted.backend.workflow("w0")
    assert record is not None
    assert (record.round, record.cursors) == (300, ())

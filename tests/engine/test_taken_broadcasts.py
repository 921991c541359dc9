"""The store remembers which broadcasts a workflow took for as long as they are kept, and no longer."""

from __future__ import annotations

import logging

import pytest

from durable import Durable, Event, WorkflowStatus, workflow
from durable.backends.base import Taken
from durable.backends.memory import MemoryBackend, MemoryStore
from durable.engine.operations import ForkWorkflow, ListEvents, RemoveEvent, SendEvent, SweepEvents
from tests.engine.direct import DirectEngine
from tests.engine.flows import EVERY, news, reader

DAY = 86_400


@workflow(name="taken.keyed")
def keyed() -> Durable[list[int]]:
    """Takes two broadcasts with a key."""
    first = yield from news.wait(key="k")
    return [first, (yield from news.wait(key="k"))]


def _rows(engine: DirectEngine, id: str = "w") -> list[int]:
    return [taken.serial for taken in engine.backend.find(Taken(workflow_key=engine.record(id).key))]


@pytest.mark.parametrize("how", ["sweep", "remove", "expiry"])
def test_rows_are_deleted_with_their_broadcasts(how: str) -> None:
    """When the last broadcast of a name and key is gone, the rows of its takers go too, and none is taken twice."""
    engine = DirectEngine(*EVERY)
    engine.start(reader(3))
    engine.send(Event[int]("news", consume_on_read=False, expire_after=DAY if how == "expiry" else None), 1)
    assert len(_rows(engine)) == 1
    if how == "remove":
        (event,) = engine.do(ListEvents(after=0, limit=9))
        engine.do(RemoveEvent(event.id))
    else:
        engine.clock.advance(8 * DAY)
        engine.do(SweepEvents()) if how == "sweep" else engine.start(reader(1), "late")
    assert _rows(engine) == []
    for number in (2, 3):
        engine.send(news, number)
    assert engine.result() == [1, 2, 3]


def test_rows_stay_for_the_remaining_broadcasts() -> None:
    """While an older broadcast is kept, its takers are remembered, even if a later one is gone."""
    engine = DirectEngine(*EVERY)
    engine.start(reader(3))
    engine.send(news, 1)
    engine.send(Event[int]("news", consume_on_read=False, expire_after=10), 2)
    engine.clock.advance(10)
    engine.do(SweepEvents())
    engine.restart(*EVERY)
    engine.send(news, 3)
    assert engine.result() == [1, 2, 3]


def test_cursors_of_older_stores_are_moved() -> None:
    """A cursor that an older version stored in the workflow's row still counts, and the next broadcast moves it."""
    store = MemoryStore()
    engine = DirectEngine(*EVERY, make=lambda: MemoryBackend(store))
    engine.start(reader(2))
    engine.send(news, 1)
    record = engine.record()
    store.workflows[record.key] = record.with_status(record.status, cursors=(("news", "", _rows(engine)[0]),))
    store.taken.clear()
    # Restart to drop what is in memory.
    engine.checks = False
    engine.restart(*EVERY)
    engine.checks = True
    engine.start(reader(1), "other")
    engine.send(news, 2)
    assert engine.result() == [1, 2]
    assert (engine.record().cursors, len(_rows(engine))) == ((), 1)


@pytest.mark.parametrize("position", ["0", "1"])
def test_fork_takes_keyed_broadcasts_once(position: str) -> None:
    """A fork before a keyed broadcast takes it again, and one after it does not."""
    engine = DirectEngine(keyed)
    engine.start(keyed())
    for number in (1, 2):
        engine.send(news, number, key="k")
    assert engine.do(ForkWorkflow("w", position, "fork")) is None
    engine.settle()
    assert engine.result("fork") == [1, 2]


def test_unreadable_event_is_tried_with_few_waiters(caplog: pytest.LogCaptureFixture) -> None:
    """An untargeted event that nobody can read is tried with a limited number of waiters, and logged once."""
    engine = DirectEngine(*EVERY, checks=False)
    for number in range(120):
        engine.start(reader(1), f"r{number}")
    with caplog.at_level(logging.WARNING, "durable"):
        engine.do(SendEvent(name="news", payload='"text"'))
    assert (len(engine.letters()), len(caplog.records)) == (1, 1)
    assert engine.status("r119") is WorkflowStatus.SUSPENDED

"""A race of an event and a due timer: a pending event wins, and old histories keep their winner."""

from __future__ import annotations

from typing import Any

import pytest

from durable import Durable, Event, WorkflowStatus, first_success, gather, race, settle, sleep, workflow
from durable.model.records import EntryKind, EntryStatus, HistoryEntry
from durable.runner.definitions import WorkflowDef
from tests.engine.direct import DirectEngine
from tests.engine.flows import EVERY, go, other, work


def _helper() -> Durable[int]:
    return (yield from go.wait())


def _step() -> Durable[int]:
    return (yield from work(1))


@workflow(name="due.branches")
def branches(kind: str) -> Durable[Any]:
    """Races an event against a due timer, in many forms, then sleeps for an hour."""
    if kind == "event first":
        won = yield from race(event=go.wait(), timer=sleep(0))
    elif kind == "timer first":
        won = yield from race(timer=sleep(0), event=go.wait())
    elif kind == "with a limit":
        won = yield from race(timer=sleep(0), event=go.wait().within(60).or_default(-1))
    elif kind == "first success":
        won = yield from first_success(timer=sleep(0), event=go.wait())
    elif kind == "nested":
        won = yield from race(timer=sleep(0), event=race(go.wait(), other.wait()))
    elif kind == "gather":
        won = yield from race(timer=sleep(0), event=gather(go.wait(), go.wait()))
    elif kind == "settle":
        won = yield from race(event=settle(go.wait()), timer=sleep(0))
    elif kind == "timer with a default":
        won = yield from race(timer=sleep(0).or_default(None), event=go.wait())
    elif kind == "helper":
        won = yield from race(event=_helper(), timer=sleep(0))
    else:
        won = yield from race(event=go.wait(), timer=sleep(0), work=_step(), more=work(2))
    yield from sleep(3600)
    return won.key


KINDS = [
    "event first", "timer first", "with a limit", "first success", "nested", "gather", "settle", "timer with a default",
    "helper", "with work",
]  # fmt: skip


@pytest.mark.parametrize("to", ["w", None])
@pytest.mark.parametrize("kind", KINDS)
def test_pending_event_beats_a_timer_that_is_due(kind: str, to: str | None) -> None:
    """A pending event wins over a timer that is due at once, and a rebuilt body remembers it."""
    engine = DirectEngine(branches)
    for number in range(2):
        engine.send(go, number, to=to, allow_unstarted=True)
    engine.start(branches(kind))
    engine.restart(branches)
    engine.advance(3600)
    assert engine.result() == "event"
    assert engine.activities == []


@pytest.mark.parametrize("kind", KINDS)
def test_due_timer_wins_if_nothing_is_pending(kind: str) -> None:
    """Without a pending event the due timer wins, later branches never begin, and a rebuild agrees."""
    engine = DirectEngine(branches)
    engine.start(branches(kind))
    engine.settle()
    assert engine.waits() == []
    assert engine.send(go, 7, to="w") is not None
    engine.restart(branches)
    engine.advance(3600)
    assert (engine.result(), engine.activities) == ("timer", [])


def test_due_timer_alone_records_nothing() -> None:
    """A due timer that races no event resolves at once, without an entry."""

    @workflow(name="due.alone")
    def alone() -> Durable[Any]:
        yield from sleep(0)
        yield from gather(sleep(0), go.wait().within(0).or_default(0))
        won = yield from race(sleep(60), sleep(0), work(1))
        return won.key

    engine = DirectEngine(alone)
    engine.start(alone())
    engine.settle()
    assert engine.result() == 1
    assert [entry.position for entry in engine.history()] == ["1.1.0.1.0"]


def _history_of(definition: WorkflowDef[Any, Any], *entries: HistoryEntry) -> DirectEngine:
    """A workflow as an older durable stored it: the timer won, and the race was not recorded."""
    engine = DirectEngine(definition)
    record = engine.start(definition("event first"), delay=10)
    batch = engine.state.batch
    batch.workflows_changed[record.key] = record.with_status(
        WorkflowStatus.SUSPENDED, wake_at=engine.clock.now() + 3_610_000_000
    )
    for entry in entries:
        batch.history.add(record.key, entry)
    engine.checks = False
    engine.restart(definition)
    engine.checks = True
    return engine


@pytest.mark.parametrize("is_over", [True, False])
def test_old_history_keeps_its_winner(is_over: bool) -> None:
    """If an older durable let the timer win over a pending event, it still wins, whatever was recorded since."""
    entry = HistoryEntry(1, "1", EntryKind.TIMER, "timer", EntryStatus.OK, "null", 0)
    engine = _history_of(branches, *([entry] if is_over else []))
    engine.send(go, 7, to="w")
    engine.advance(3610)
    assert engine.result() == "timer"


def test_cancel_of_a_race_with_a_due_timer() -> None:
    """A workflow that is cancelled before its due timer fires ends, although some branches never began."""
    engine = DirectEngine(branches, *EVERY)
    engine.start(branches("with work"))
    engine.cancel()
    assert engine.status() is WorkflowStatus.CANCELLED


def test_event_behind_a_timer_is_taken_once_only() -> None:
    """An event that arrives in the same instant, after the race was decided, is left for the next wait."""

    @workflow(name="due.twice")
    def twice() -> Durable[list[Any]]:
        won = yield from race(timer=sleep(0), event=Event[int]("go").wait())
        return [won.key, (yield from go.wait())]

    engine = DirectEngine(twice)
    engine.start(twice())
    engine.settle()
    engine.send(go, 3)
    assert engine.result() == ["timer", 3]

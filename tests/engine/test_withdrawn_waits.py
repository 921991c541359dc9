"""Waits that lose before they begin, or in the step that opened them: nothing is started, taken or cancelled."""

from __future__ import annotations

from typing import Any

import pytest

from durable import Durable, WorkflowStatus, race, sleep, workflow
from durable.engine.coordinator.decisions import WAIT_KINDS
from durable.engine.decide.kept_events import check_events
from durable.engine.decide.turn import Turn
from tests.engine.direct import DirectEngine, call_of, event_of
from tests.engine.flows import EVERY, go, news, other, waiter, work


def _instant() -> Durable[str]:
    """A branch that ends at once."""
    yield from sleep(0)
    return "instant"


@workflow(name="withdrawn.instant")
def instant(which: str) -> Durable[str]:
    """Races a wait against a branch that ends at once, then sleeps."""
    if which == "activity":
        yield from race(work(1), _instant())
    elif which == "event":
        yield from race(go.wait(), _instant())
    else:
        yield from race(waiter(), _instant())
    yield from sleep(60)
    return which


@pytest.mark.parametrize("which", ["activity", "event", "child"])
def test_wait_that_is_withdrawn_in_the_step_that_opened_it(which: str) -> None:
    """A wait that is opened and withdrawn in the same step never begins: no activity, no event wait, no child."""
    engine = DirectEngine(instant, *EVERY)
    engine.start(instant(which))
    assert engine.effects == []
    assert engine.waits() == []
    assert engine.backend.workflow("w/0.0.0") is None
    assert engine.send(go, 1) is not None
    assert engine.pending("go") == 1
    engine.advance(60)
    assert engine.result() == which


def test_child_that_lost_before_it_was_started() -> None:
    """A child whose branch loses to a pending event is never started."""

    @workflow(name="withdrawn.late_race")
    def late_race() -> Durable[str | int]:
        yield from work(1)
        won = yield from race(event=other.wait(), child=waiter())
        yield from sleep(60)
        return won.key

    engine = DirectEngine(late_race, *EVERY)
    engine.start(late_race())
    engine.send(other, 1)
    engine.finish(engine.activities[0], 1)
    assert engine.backend.workflow("w/1.1.0") is None
    engine.advance(60)
    assert engine.result() == "event"


def test_timers_that_are_due_together() -> None:
    """If two timers of a race are due together, only the earlier fires."""

    @workflow(name="withdrawn.two_timers")
    def two_timers() -> Durable[str | int]:
        won = yield from race(slow=sleep(20), fast=sleep(10))
        yield from sleep(1000)
        return won.key

    engine = DirectEngine(two_timers)
    engine.start(two_timers())
    engine.advance(30)
    assert len(engine.history()) == 1
    engine.advance(1000)
    assert engine.result() == "fast"


def test_broadcast_to_a_race_of_waits_for_it() -> None:
    """Of two racing waits, one takes the broadcast, and the other is withdrawn and takes nothing."""

    @workflow(name="withdrawn.racing_reads")
    def racing_reads() -> Durable[int | str]:
        won = yield from race(news.wait(), news.wait())
        yield from sleep(60)
        return won.key

    engine = DirectEngine(racing_reads)
    engine.batch(call_of(racing_reads(), "w"), event_of(news, 1))
    assert len(engine.history()) == 1
    engine.advance(60)
    assert engine.result() == 0


def test_wait_without_a_row_takes_nothing() -> None:
    """A wait that is not registered takes no event."""
    engine = DirectEngine(*EVERY)
    engine.start(waiter())
    loaded = engine.state.loaded[engine.record().key]
    wait = loaded.session.waits["0"]
    loaded.rows.clear()
    engine.checks = False
    engine.send(go, 1, key="elsewhere")
    check_events(Turn(engine.state, engine.clock.now(), WAIT_KINDS), loaded, wait)
    assert engine.status() is WorkflowStatus.SUSPENDED


@workflow(name="withdrawn.takes_foreign_id")
def takes_foreign_id() -> Durable[Any]:
    yield from work(1)
    won = yield from race(event=other.wait(), child=waiter().with_id("stranger"))
    yield from sleep(100)
    return won.key


def test_unrelated_workflow_is_not_cancelled() -> None:
    """Withdrawing a child call before its child started does not cancel an unrelated workflow with that id."""
    engine = DirectEngine(*EVERY, takes_foreign_id)
    engine.start(waiter(), "stranger")
    engine.start(takes_foreign_id())
    engine.send(other, 1)
    engine.finish(engine.activities[0], 1)
    assert engine.status("stranger") is WorkflowStatus.SUSPENDED

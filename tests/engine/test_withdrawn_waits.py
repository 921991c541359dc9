"""Waits that lose before they begin, or in the step that opened them: nothing is started, taken or cancelled."""

from __future__ import annotations

from typing import Any

import pytest

from durable import Durable, WorkflowStatus, race, sleep, workflow
from durable.engine.coordinator.decisions import new_turn
from durable.engine.decide.events import check_events
from tests.engine.desk import Desk, call_of, event_of
from tests.engine.flows import EVERY, go, news, other, waiter, work


def _instant() -> Durable[str]:
    """A branch that ends at once."""
    yield from sleep(0)
    return "instant"


@workflow(name="withdrawn.instant")
def instant(which: str) -> Durable[str]:
    """Something against a branch that ends at once; then a timer."""
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
    """A wait that is opened and withdrawn in the same step never begins: no activity, no wait, no child."""
    desk = Desk(instant, *EVERY)
    desk.start(instant(which))
    assert desk.effects == []
    assert desk.waits() == []
    assert desk.backend.workflow("w/0.0.0") is None
    assert desk.send(go, 1) is not None
    assert desk.pending("go") == 1
    desk.advance(60)
    assert desk.result() == which


def test_child_that_lost_before_it_was_started() -> None:
    """A child whose branch loses to a pending event is never started."""

    @workflow(name="withdrawn.late_race")
    def late_race() -> Durable[str | int]:
        yield from work(1)
        won = yield from race(event=other.wait(), child=waiter())
        yield from sleep(60)
        return won.key

    desk = Desk(late_race, *EVERY)
    desk.start(late_race())
    desk.send(other, 1)
    desk.finish(desk.activities[0], 1)
    assert desk.backend.workflow("w/1.1.0") is None
    desk.advance(60)
    assert desk.result() == "event"


def test_timers_that_are_due_together() -> None:
    """Of two timers of a race that are due together only the earlier one fires."""

    @workflow(name="withdrawn.two_timers")
    def two_timers() -> Durable[str | int]:
        won = yield from race(slow=sleep(20), fast=sleep(10))
        yield from sleep(1000)
        return won.key

    desk = Desk(two_timers)
    desk.start(two_timers())
    desk.advance(30)
    assert len(desk.history()) == 1
    desk.advance(1000)
    assert desk.result() == "fast"


def test_broadcast_to_a_race_of_waits_for_it() -> None:
    """Of two racing waits one takes a broadcast of the same batch; the other is withdrawn and takes nothing."""

    @workflow(name="withdrawn.racing_reads")
    def racing_reads() -> Durable[int | str]:
        won = yield from race(news.wait(), news.wait())
        yield from sleep(60)
        return won.key

    desk = Desk(racing_reads)
    desk.batch(call_of(racing_reads(), "w"), event_of(news, 1))
    assert len(desk.history()) == 1
    desk.advance(60)
    assert desk.result() == 0


def test_wait_without_a_row_takes_nothing() -> None:
    """A wait that is not registered takes no event."""
    desk = Desk(*EVERY)
    desk.start(waiter())
    loaded = desk.state.loaded[desk.record().key]
    wait = loaded.session.waits["0"]
    loaded.rows.clear()
    desk.checks = False
    desk.send(go, 1, key="elsewhere")
    check_events(new_turn(desk.state, desk.clock.now()), loaded, wait)
    assert desk.status() is WorkflowStatus.SUSPENDED


@workflow(name="withdrawn.takes_foreign_id")
def takes_foreign_id() -> Durable[Any]:
    yield from work(1)
    won = yield from race(event=other.wait(), child=waiter().with_id("stranger"))
    yield from sleep(100)
    return won.key


def test_stranger_is_not_cancelled() -> None:
    """Withdrawing a child call before the child was started does not cancel a workflow that has the child's id."""
    desk = Desk(*EVERY, takes_foreign_id)
    desk.start(waiter(), "stranger")
    desk.start(takes_foreign_id())
    desk.send(other, 1)
    desk.finish(desk.activities[0], 1)
    assert desk.status("stranger") is WorkflowStatus.SUSPENDED

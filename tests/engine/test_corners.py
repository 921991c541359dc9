"""Corners of the decisions: waits that come and go in one step, code that changed under a wait, bugs of ours."""

from __future__ import annotations

import attrs
import pytest

from durable import Durable, ParkReason, WorkflowStatus, race, sleep, workflow
from durable.backends.memory import MemoryBackend, MemoryStore
from durable.engine.config import EngineConfig
from durable.engine.coordinator.decisions import new_turn
from durable.engine.decide.events import check_events
from durable.engine.operations import DescribeWorkflow, ResumeWorkflow, StopActivity, TerminateWorkflow
from durable.errors import InvariantViolated
from durable.model.records import HistoryEntry
from durable.testing.faults import FaultyBackend
from tests.engine.desk import Desk, call_of, event_of
from tests.engine.flows import EVERY, go, news, other, parent_of_waiter, sleeper, waiter, work, worker


def _instant() -> Durable[str]:
    """A branch that ends at once."""
    yield from sleep(0)
    return "instant"


@workflow(name="corners.instant")
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
    """What a body asks for and no longer wants in the same step never begins: no activity, no wait, no child."""
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
    """A child whose branch loses against an event that is pending already is never started."""

    @workflow(name="corners.late_race")
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

    @workflow(name="corners.two_timers")
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
    """A broadcast that is taken by one of two racing waits of a batch passes the other one over, which is gone."""

    @workflow(name="corners.racing_reads")
    def racing_reads() -> Durable[int | str]:
        won = yield from race(news.wait(), news.wait())
        yield from sleep(60)
        return won.key

    desk = Desk(racing_reads)
    desk.batch(call_of(racing_reads(), "w"), event_of(news, 1))
    assert len(desk.history()) == 1
    desk.advance(60)
    assert desk.result() == 0


def test_parent_is_looked_at_while_its_child_goes_on() -> None:
    """Rebuilding a parent whose child still runs neither starts nor ends anything."""
    desk = Desk(*EVERY)
    desk.start(parent_of_waiter())
    desk.restart(*EVERY)
    rows = desk.rows()
    desk.do(DescribeWorkflow("w"))
    assert desk.rows() == rows
    desk.send(go, 5, to="w/0")
    assert desk.result() == 5


def test_child_whose_parent_now_does_something_else() -> None:
    """The end of a child whose place in the parent's new code is an activity changes nothing there."""

    @workflow(name="desk.parent_of_waiter")
    def works_instead(id: str | None = None) -> Durable[int]:
        return (yield from work(1))

    desk = Desk(*EVERY)
    desk.start(parent_of_waiter())
    desk.restart(works_instead, waiter)
    desk.send(go, 5, to="w/0")
    assert (desk.status(), desk.history()) == (WorkflowStatus.RUNNING, [])
    desk.finish(desk.activities[0], 9)
    assert desk.result() == 9


def test_wait_whose_event_has_another_key_now() -> None:
    """A wait whose code now asks for another key is registered anew when its body is rebuilt."""

    def keyed(key: str) -> Durable[int]:
        return (yield from go.wait(key))

    @workflow(name="corners.keyed")
    def before() -> Durable[int]:
        return (yield from keyed("old"))

    @workflow(name="corners.keyed")
    def after() -> Durable[int]:
        return (yield from keyed("new"))

    desk = Desk(before)
    desk.start(before())
    desk.restart(after)
    desk.do(ResumeWorkflow(desk.record().key))
    assert [wait.event_key for wait in desk.waits()] == ["new"]
    desk.send(go, 5, key="new")
    assert desk.result() == 5


def test_answer_to_a_body_that_cannot_be_rebuilt() -> None:
    """An answer that finds its workflow's row spoilt parks the workflow; the answer is not recorded."""
    store = MemoryStore()
    config = EngineConfig(max_loaded_workflows=1)
    desk = Desk(*EVERY, make=lambda: MemoryBackend(store), config=config)
    desk.start(worker())
    desk.start(sleeper(), "elsewhere")
    record = desk.record()
    store.workflows[record.key] = attrs.evolve(record, input="{")
    desk.finish(desk.activities[0], 1)
    assert desk.record().park_reason is ParkReason.UNREADABLE
    assert desk.history() == []
    assert [type(effect) for effect in desk.effects][-1] is StopActivity


class Broken(FaultyBackend):
    """A store with a bug of ours."""

    def history(self, key: int) -> list[HistoryEntry]:
        raise InvariantViolated("a bug")


def test_bug_of_ours_while_a_body_is_rebuilt() -> None:
    """A broken invariant is not taken for bad data of one workflow: it passes."""
    store = MemoryStore()
    desk = Desk(*EVERY, make=lambda: MemoryBackend(store))
    desk.start(sleeper())
    desk.make = lambda: Broken(MemoryBackend(store))
    desk.checks = False
    desk.restart(*EVERY, recover=False)
    with pytest.raises(InvariantViolated):
        desk.do(ResumeWorkflow(desk.record().key))


def test_ended_workflow_cannot_change() -> None:
    """A record that has ended cannot be put again: that would be a bug of ours."""
    desk = Desk(*EVERY)
    desk.start(sleeper())
    desk.do(TerminateWorkflow("w"))
    ended = desk.record()
    with pytest.raises(InvariantViolated):
        desk.state.workflows.count_crashes(ended, 1)


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

"""Schedules: each tick starts one run, whatever the clock and the process do, and runs overlap as the policy says."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from durable import (
    CodecError,
    Overlap,
    ParkReason,
    Queued,
    WorkflowStatus,
)
from durable.backends.base import Workflows
from durable.backends.memory import MemoryBackend
from durable.engine import operations as ops
from durable.engine.config import EngineConfig
from durable.engine.operations import Follow, ResumeWorkflow, TickSchedule, WakeWorkflow, when_due
from durable.model.clock import SECOND
from durable.model.records import WorkflowRecord
from durable.testing.clock import NOON
from tests.engine.agenda import row, schedule_of, ticks
from tests.engine.desk import ALL, Desk
from tests.engine.flows import EVERY, go, nothing, sleeper, waiter, worker

RESTART = pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
MINUTE = 60


def at(hour: int, minute: int = 0, second: int = 0) -> datetime:
    """A time of the first day."""
    return datetime(2031, 5, 17, hour, minute, second, tzinfo=timezone.utc)


# --- ticks ----------------------------------------------------------------------------------------------------------


def test_tick_starts_a_run() -> None:
    """At its time and not before a tick starts a run whose id says which tick and whose tag says which schedule."""
    desk = Desk(*EVERY)
    desk.do(schedule_of(nothing(7), "nightly", cron="30 12 * * *"))
    desk.advance(30 * MINUTE - 1)
    assert ticks(desk.backend, "nightly") == []
    desk.advance(1)
    assert desk.result("nightly@2031-05-17T12:30:00+00:00") == 7
    assert desk.record("nightly@2031-05-17T12:30:00+00:00").tags == ("schedule:nightly",)
    assert row(desk.backend, "nightly").next_at == row(desk.backend, "nightly").wake_at
    desk.advance(24 * 60 * MINUTE)
    assert desk.backend.count(Workflows(tag="schedule:nightly", limit=ALL)) == 2


def test_every_is_counted_from_the_creation() -> None:
    """A schedule by duration ticks at whole multiples after it was created, however late the engine looks."""
    desk = Desk(*EVERY)
    desk.advance(7)
    desk.do(schedule_of(nothing(), every=90))
    for _ in range(3):
        desk.advance(100)
    assert ticks(desk.backend) == ["12:01:37", "12:03:07", "12:04:37"]


def test_tick_and_advance_are_one_commit() -> None:
    """The run is stored with the schedule's next time, and its body begins in the next batch."""
    desk = Desk(*EVERY)
    desk.do(schedule_of(worker()))
    desk.clock.advance(MINUTE)
    desk.do(TickSchedule(row(desk.backend).key))
    (run,) = desk.backend.find(Workflows(tag="schedule:s", limit=ALL))
    assert (run.status, row(desk.backend).last_key) == (WorkflowStatus.RUNNING, run.key)
    assert row(desk.backend).next_at == run.created_at + MINUTE * SECOND
    assert desk.effects == [Follow(ResumeWorkflow(run.key))]
    assert not desk.activities
    desk.settle()
    assert len(desk.activities) == 1


@RESTART
def test_restart_between_tick_and_body(clean: bool) -> None:
    """A run whose body had not begun when the process ended begins after the restart, and no second one comes."""
    desk = Desk(*EVERY)
    desk.do(schedule_of(nothing()))
    desk.clock.advance(MINUTE)
    desk.do(TickSchedule(row(desk.backend).key))
    desk.restart(*EVERY, clean=clean)
    assert ticks(desk.backend) == ["12:01"]
    assert desk.status("s@2031-05-17T12:01:00+00:00") is WorkflowStatus.SUCCEEDED


@RESTART
def test_each_tick_once_over_restarts(clean: bool) -> None:
    """However often the process is restarted, in the middle of a minute or on its edge, each tick has one run."""
    desk = Desk(*EVERY)
    desk.do(schedule_of(nothing()))
    for _ in range(8):
        desk.clock.advance(30)
        desk.restart(*EVERY, clean=clean)
    assert ticks(desk.backend) == ["12:01", "12:02", "12:03", "12:04"]


def test_duplicated_tick() -> None:
    """A tick operation that comes twice, too early, or for a schedule that is gone, starts nothing more."""
    desk = Desk(*EVERY)
    desk.do(schedule_of(nothing()))
    key = row(desk.backend).key
    desk.do(TickSchedule(key))
    assert ticks(desk.backend) == []
    desk.clock.advance(MINUTE)
    desk.batch(TickSchedule(key), TickSchedule(key), TickSchedule(-4711))
    assert ticks(desk.backend) == ["12:01"]
    desk.settle()
    desk.advance(MINUTE)
    assert ticks(desk.backend) == ["12:01", "12:02"]


def test_clock_set_back() -> None:
    """No tick comes again when the clock passes its time a second time, and none is lost after that."""
    desk = Desk(*EVERY)
    desk.do(schedule_of(nothing()))
    for _ in range(3):
        desk.advance(MINUTE)
    desk.clock.set(at(11))
    for _ in range(90):
        desk.advance(MINUTE)
    assert ticks(desk.backend) == [f"12:{minute:02}" for minute in range(1, 31)]


def test_clock_set_back_while_a_tick_is_in_hand() -> None:
    """A timer that was taken out for a tick whose time is not come any more goes off when it comes again."""
    desk = Desk(*EVERY)
    desk.do(schedule_of(nothing()))
    desk.settle()
    desk.clock.advance(MINUTE)
    ((_, key),) = desk.state.timers.pop_due(desk.clock.now(), 10)
    desk.clock.set(NOON)
    desk.do(when_due(key))
    assert ticks(desk.backend) == []
    desk.advance(MINUTE)
    assert ticks(desk.backend) == ["12:01"]


def test_timers_of_workflows_and_schedules() -> None:
    """A timer's key says whose it is."""
    assert when_due(5) == WakeWorkflow(5)
    assert when_due(-5) == TickSchedule(-5)


@pytest.mark.parametrize("window", [1, 3, 1000])
def test_many_schedules_and_a_small_window(window: int) -> None:
    """Schedules and sleeping workflows share one window of timers, and all of them fire."""
    desk = Desk(*EVERY, config=EngineConfig(timer_window=window, max_batch=3), checks=False)
    for number in range(20):
        desk.do(schedule_of(nothing(number), f"s{number:02}", every=30 + number))
        desk.start(sleeper(40 + number), f"w{number}")
    desk.restart(*EVERY)
    for _ in range(50):
        desk.advance(1)
    assert [len(ticks(desk.backend, f"s{number:02}")) for number in range(20)] == [1] * 20
    assert desk.backend.count(Workflows(tag=None, statuses=(WorkflowStatus.SUSPENDED,), limit=ALL)) == 9


def test_body_that_takes_the_process_down() -> None:
    """A run whose body ends the process each time is parked after three starts, and the schedule goes on."""
    desk = Desk(*EVERY)
    desk.do(schedule_of(worker(), overlap=Overlap.ALLOW))
    desk.clock.advance(MINUTE)
    desk.do(TickSchedule(row(desk.backend).key))
    for _ in range(3):
        desk.restart(*EVERY, clean=False, recover=False)
        desk.recover()
    assert desk.record("s@2031-05-17T12:01:00+00:00").park_reason is ParkReason.CRASHED
    desk.advance(MINUTE)
    assert ticks(desk.backend) == ["12:01", "12:02"]


def test_workflow_that_is_not_registered_any_more() -> None:
    """Its runs are started and parked as unknown; other schedules go on, and so does the run when the code is back."""
    desk = Desk(*EVERY)
    desk.do(schedule_of(nothing(), "gone"))
    desk.do(schedule_of(sleeper(1), "here"))
    desk.restart(sleeper)
    desk.advance(MINUTE)
    desk.advance(MINUTE)
    assert ticks(desk.backend, "gone") == ["12:01"]
    assert desk.record("gone@2031-05-17T12:01:00+00:00").park_reason is ParkReason.UNKNOWN_CODE
    assert row(desk.backend, "gone").skipped == 1
    assert ticks(desk.backend, "here") == ["12:01", "12:02"]
    desk.restart(*EVERY)
    assert desk.status("gone@2031-05-17T12:01:00+00:00") is WorkflowStatus.SUCCEEDED


def test_mail_for_a_run_that_is_not_started_yet() -> None:
    """An event that was kept for the id of a tick's run is taken by that run."""
    desk = Desk(*EVERY)
    desk.do(schedule_of(waiter()))
    assert desk.send(go, 5, to="s@2031-05-17T12:01:00+00:00", allow_unstarted=True) == Queued()
    desk.advance(MINUTE)
    assert desk.result("s@2031-05-17T12:01:00+00:00") == 5


def test_plan_that_comes_to_its_end() -> None:
    """After the last tick of the calendar a schedule has no next one and starts nothing more."""
    desk = Desk(*EVERY)
    desk.clock.set(datetime(9999, 12, 31, 23, 30, tzinfo=timezone.utc))
    desk.do(schedule_of(nothing(), cron="45 23 * * *"))
    desk.advance(15 * MINUTE)
    assert ticks(desk.backend) == ["23:45"]
    assert (row(desk.backend).next_at, row(desk.backend).wake_at) == (None, None)


# --- overlap --------------------------------------------------------------------------------------------------------


def test_overlap_skip() -> None:
    """While the last run is unfinished ticks are noted as skipped; when it has ended the next one starts a run."""
    desk = Desk(*EVERY)
    desk.do(schedule_of(waiter(), overlap=Overlap.SKIP))
    for _ in range(3):
        desk.advance(MINUTE)
    assert (ticks(desk.backend), row(desk.backend).skipped) == (["12:01"], 2)
    desk.send(go, 1)
    assert ticks(desk.backend) == ["12:01"]
    desk.advance(MINUTE)
    assert (ticks(desk.backend), row(desk.backend).skipped) == (["12:01", "12:04"], 2)


def test_overlap_allow() -> None:
    """Every tick starts its run, whoever is unfinished."""
    desk = Desk(*EVERY)
    desk.do(schedule_of(waiter(), overlap=Overlap.ALLOW))
    for _ in range(3):
        desk.advance(MINUTE)
    assert (ticks(desk.backend), row(desk.backend).skipped) == (["12:01", "12:02", "12:03"], 0)


@RESTART
@pytest.mark.parametrize("how", ["ends", "is cancelled", "is terminated"])
def test_overlap_queue(clean: bool, how: str) -> None:
    """One tick waits until the last run has ended, however it ends; those that come meanwhile are skipped."""
    desk = Desk(*EVERY)
    desk.do(schedule_of(waiter(), overlap=Overlap.QUEUE))
    for _ in range(4):
        desk.advance(MINUTE)
    assert (ticks(desk.backend), row(desk.backend).skipped) == (["12:01"], 2)
    assert row(desk.backend).queued == (row(desk.backend).last_tick or 0) + MINUTE * SECOND
    desk.restart(*EVERY, clean=clean)
    first = "s@2031-05-17T12:01:00+00:00"
    end = {"is cancelled": ops.CancelWorkflow(first), "is terminated": ops.TerminateWorkflow(first)}.get(how)
    if end is None:
        desk.send(go, 1)
    else:
        desk.do(end)
    # The end and the wake-up are one commit: a crash here loses nothing.
    desk.restart(*EVERY, clean=clean)
    assert (ticks(desk.backend), row(desk.backend).queued) == (["12:01", "12:02"], None)
    desk.send(go, 1)
    desk.advance(MINUTE)
    assert ticks(desk.backend) == ["12:01", "12:02", "12:05"]


def test_end_of_a_run_that_nobody_waits_for() -> None:
    """A run of a schedule that was deleted, and a workflow that only has such a tag, end like any other."""
    desk = Desk(*EVERY)
    desk.do(schedule_of(waiter(), overlap=Overlap.QUEUE))
    desk.advance(MINUTE)
    desk.advance(MINUTE)
    desk.start(waiter(), "stranger", tags=("eu", "schedule:s"))
    desk.send(go, 1, to="stranger")
    desk.settle()
    assert ticks(desk.backend)[0] == "12:01"
    assert row(desk.backend).queued is not None
    desk.do(ops.DeleteSchedule("s"))
    desk.send(go, 1)
    desk.settle()
    assert desk.backend.count(Workflows(tag="schedule:s", limit=ALL)) == 2


def test_last_run_that_was_purged_has_ended() -> None:
    """A schedule whose last run is stored no more goes on."""
    desk = Desk(*EVERY)
    desk.do(schedule_of(nothing()))
    desk.advance(MINUTE)
    desk.clock.advance(30)
    assert desk.do(ops.PurgeWorkflows(desk.clock.now())) == 1
    desk.advance(30)
    assert ticks(desk.backend) == ["12:02"]


# --- a tick whose id is taken ---------------------------------------------------------------------------------------


def test_schedule_that_is_deleted_and_created_again() -> None:
    """A tick that has its run from the schedule of this name before gets no second one, and the next ones go on."""
    desk = Desk(*EVERY)
    desk.do(schedule_of(nothing()))
    desk.advance(MINUTE)
    desk.clock.set(NOON)
    desk.batch(ops.DeleteSchedule("s"), schedule_of(nothing()))
    desk.advance(MINUTE)
    assert ticks(desk.backend) == ["12:01"]
    assert row(desk.backend).last_id == "s@2031-05-17T12:01:00+00:00"
    desk.advance(MINUTE)
    assert ticks(desk.backend) == ["12:01", "12:02"]


class Damaged(MemoryBackend):
    """A store in which rows of workflows cannot be read."""

    is_damaged = False

    def workflow(self, id: str) -> WorkflowRecord | None:
        found = super().workflow(id)
        if found is not None and self.is_damaged:
            raise CodecError(f"workflow id {id!r}", "it is damaged")
        return found


def test_damaged_run() -> None:
    """A run that cannot be read counts as the tick's run, and holds up neither its schedule nor others."""
    backend = Damaged()
    desk = Desk(*EVERY, make=lambda: backend, checks=False)
    desk.start(waiter(), "s@2031-05-17T12:01:00+00:00")
    desk.restart(*EVERY)
    desk.do(schedule_of(nothing()))
    backend.is_damaged = True
    desk.advance(MINUTE)
    assert row(backend).last_tick == row(backend).done_until
    assert row(backend).last_id is None
    desk.advance(MINUTE)
    assert ticks(backend) == ["12:02"]

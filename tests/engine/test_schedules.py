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
from durable.model.timers import OF_SCHEDULE, OF_WORKFLOW, ScheduleKey
from durable.testing.clock import NOON
from tests.engine.agenda import row, schedule_of, ticks
from tests.engine.direct import ALL, DirectEngine
from tests.engine.flows import EVERY, go, nothing, sleeper, waiter, worker

RESTART = pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
MINUTE = 60


def at(hour: int, minute: int = 0, second: int = 0) -> datetime:
    """A time on the first day."""
    return datetime(2031, 5, 17, hour, minute, second, tzinfo=timezone.utc)


# --- ticks ----------------------------------------------------------------------------------------------------------


def test_tick_starts_a_run() -> None:
    """A tick starts a run at its time, not before. The run's id names the tick, and its tag names the schedule."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(nothing(7), "nightly", cron="30 12 * * *"))
    engine.advance(30 * MINUTE - 1)
    assert ticks(engine.backend, "nightly") == []
    engine.advance(1)
    assert engine.result("nightly@2031-05-17T12:30:00+00:00") == 7
    assert engine.record("nightly@2031-05-17T12:30:00+00:00").tags == ("schedule:nightly",)
    assert row(engine.backend, "nightly").next_at == row(engine.backend, "nightly").wake_at
    engine.advance(24 * 60 * MINUTE)
    assert engine.backend.count(Workflows(tag="schedule:nightly", limit=ALL)) == 2


def test_every_is_counted_from_the_creation() -> None:
    """A schedule with `every` ticks at whole multiples of its creation, however late the engine looks."""
    engine = DirectEngine(*EVERY)
    engine.advance(7)
    engine.do(schedule_of(nothing(), every=90))
    for _ in range(3):
        engine.advance(100)
    assert ticks(engine.backend) == ["12:01:37", "12:03:07", "12:04:37"]


def test_tick_and_advance_are_one_commit() -> None:
    """The run is stored with the schedule's next time, and its body begins in the next batch."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(worker()))
    engine.clock.advance(MINUTE)
    engine.do(TickSchedule(row(engine.backend).key))
    (run,) = engine.backend.find(Workflows(tag="schedule:s", limit=ALL))
    assert (run.status, row(engine.backend).last_key) == (WorkflowStatus.RUNNING, run.key)
    assert row(engine.backend).next_at == run.created_at + MINUTE * SECOND
    assert engine.effects == [Follow(ResumeWorkflow(run.key))]
    assert not engine.activities
    engine.settle()
    assert len(engine.activities) == 1


@RESTART
def test_restart_between_tick_and_body(clean: bool) -> None:
    """A run whose body had not begun when the process ended begins after the restart, and there is no second run."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(nothing()))
    engine.clock.advance(MINUTE)
    engine.do(TickSchedule(row(engine.backend).key))
    engine.restart(*EVERY, clean=clean)
    assert ticks(engine.backend) == ["12:01"]
    assert engine.status("s@2031-05-17T12:01:00+00:00") is WorkflowStatus.SUCCEEDED


@RESTART
def test_each_tick_once_over_restarts(clean: bool) -> None:
    """However often the process restarts, each tick has one run."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(nothing()))
    for _ in range(8):
        engine.clock.advance(30)
        engine.restart(*EVERY, clean=clean)
    assert ticks(engine.backend) == ["12:01", "12:02", "12:03", "12:04"]


def test_duplicated_tick() -> None:
    """A tick operation that is repeated, early, or for a deleted schedule starts nothing more."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(nothing()))
    key = row(engine.backend).key
    engine.do(TickSchedule(key))
    assert ticks(engine.backend) == []
    engine.clock.advance(MINUTE)
    engine.batch(TickSchedule(key), TickSchedule(key), TickSchedule(ScheduleKey(-4711)))
    assert ticks(engine.backend) == ["12:01"]
    engine.settle()
    engine.advance(MINUTE)
    assert ticks(engine.backend) == ["12:01", "12:02"]


def test_clock_set_back() -> None:
    """No tick comes again when the clock passes its time a second time, and no later tick is lost."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(nothing()))
    for _ in range(3):
        engine.advance(MINUTE)
    engine.clock.set(at(11))
    for _ in range(90):
        engine.advance(MINUTE)
    assert ticks(engine.backend) == [f"12:{minute:02}" for minute in range(1, 31)]


def test_clock_set_back_between_a_timer_and_its_tick() -> None:
    """If the clock is set back between a timer and its tick, the tick comes when its time does."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(nothing()))
    engine.settle()
    engine.clock.advance(MINUTE)
    (timer,) = engine.state.timers.pop_due(engine.clock.now(), 10)
    engine.clock.set(NOON)
    engine.do(when_due(timer))
    assert ticks(engine.backend) == []
    engine.advance(MINUTE)
    assert ticks(engine.backend) == ["12:01"]


def test_timers_of_workflows_and_schedules() -> None:
    """A timer says whose it is; the number of its key does not matter."""
    assert when_due((1, OF_WORKFLOW, 5)) == WakeWorkflow(5)
    for key in (ScheduleKey(-5), ScheduleKey(5)):
        assert when_due((1, OF_SCHEDULE, key)) == TickSchedule(key)


@pytest.mark.parametrize("window", [1, 3, 1000])
def test_many_schedules_and_a_small_window(window: int) -> None:
    """Schedules and sleeping workflows share one window of timers, and all of them fire."""
    engine = DirectEngine(*EVERY, config=EngineConfig(timer_window=window, max_batch=3), checks=False)
    for number in range(20):
        engine.do(schedule_of(nothing(number), f"s{number:02}", every=30 + number))
        engine.start(sleeper(40 + number), f"w{number}")
    engine.restart(*EVERY)
    for _ in range(50):
        engine.advance(1)
    assert [len(ticks(engine.backend, f"s{number:02}")) for number in range(20)] == [1] * 20
    assert engine.backend.count(Workflows(tag=None, statuses=(WorkflowStatus.SUSPENDED,), limit=ALL)) == 9


def test_body_that_crashes_the_process() -> None:
    """A run whose body crashes the process is parked after three crashes, and the schedule continues."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(worker(), overlap=Overlap.ALLOW))
    engine.clock.advance(MINUTE)
    engine.do(TickSchedule(row(engine.backend).key))
    for _ in range(3):
        engine.restart(*EVERY, clean=False, recover=False)
        engine.recover()
    assert engine.record("s@2031-05-17T12:01:00+00:00").park_reason is ParkReason.CRASHED
    engine.advance(MINUTE)
    assert ticks(engine.backend) == ["12:01", "12:02"]


def test_workflow_that_is_no_longer_registered() -> None:
    """A run without code is started and parked. Other schedules continue, and so does the run when its code is back."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(nothing(), "gone"))
    engine.do(schedule_of(sleeper(1), "here"))
    engine.restart(sleeper)
    engine.advance(MINUTE)
    engine.advance(MINUTE)
    assert ticks(engine.backend, "gone") == ["12:01"]
    assert engine.record("gone@2031-05-17T12:01:00+00:00").park_reason is ParkReason.UNKNOWN_CODE
    assert row(engine.backend, "gone").skipped == 1
    assert ticks(engine.backend, "here") == ["12:01", "12:02"]
    engine.restart(*EVERY)
    assert engine.status("gone@2031-05-17T12:01:00+00:00") is WorkflowStatus.SUCCEEDED


def test_mail_for_a_run_that_is_not_started_yet() -> None:
    """A run takes an event that was sent to its id before its tick."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(waiter()))
    assert engine.send(go, 5, to="s@2031-05-17T12:01:00+00:00", allow_unstarted=True) == Queued()
    engine.advance(MINUTE)
    assert engine.result("s@2031-05-17T12:01:00+00:00") == 5


def test_plan_without_further_ticks() -> None:
    """After the last tick of the calendar, a schedule has no next tick and starts nothing more."""
    engine = DirectEngine(*EVERY)
    engine.clock.set(datetime(9999, 12, 31, 23, 30, tzinfo=timezone.utc))
    engine.do(schedule_of(nothing(), cron="45 23 * * *"))
    engine.advance(15 * MINUTE)
    assert ticks(engine.backend) == ["23:45"]
    assert (row(engine.backend).next_at, row(engine.backend).wake_at) == (None, None)


# --- overlap --------------------------------------------------------------------------------------------------------


def test_overlap_skip() -> None:
    """While a run is unfinished, ticks are counted as skipped. After its end, the next tick starts a run."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(waiter(), overlap=Overlap.SKIP))
    for _ in range(3):
        engine.advance(MINUTE)
    assert (ticks(engine.backend), row(engine.backend).skipped) == (["12:01"], 2)
    engine.send(go, 1)
    assert ticks(engine.backend) == ["12:01"]
    engine.advance(MINUTE)
    assert (ticks(engine.backend), row(engine.backend).skipped) == (["12:01", "12:04"], 2)


def test_overlap_allow() -> None:
    """Every tick starts its run, whatever is unfinished."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(waiter(), overlap=Overlap.ALLOW))
    for _ in range(3):
        engine.advance(MINUTE)
    assert (ticks(engine.backend), row(engine.backend).skipped) == (["12:01", "12:02", "12:03"], 0)


@RESTART
@pytest.mark.parametrize("how", ["ends", "is cancelled", "is terminated"])
def test_overlap_queue(clean: bool, how: str) -> None:
    """One tick is queued until the last run ends, however it ends. Ticks that come meanwhile are skipped."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(waiter(), overlap=Overlap.QUEUE))
    for _ in range(4):
        engine.advance(MINUTE)
    assert (ticks(engine.backend), row(engine.backend).skipped) == (["12:01"], 2)
    assert row(engine.backend).queued == (row(engine.backend).last_tick or 0) + MINUTE * SECOND
    engine.restart(*EVERY, clean=clean)
    first = "s@2031-05-17T12:01:00+00:00"
    end = {"is cancelled": ops.CancelWorkflow(first), "is terminated": ops.TerminateWorkflow(first)}.get(how)
    if end is None:
        engine.send(go, 1)
    else:
        engine.do(end)
    # The end and the wake-up are one commit: a crash here loses nothing.
    engine.restart(*EVERY, clean=clean)
    assert (ticks(engine.backend), row(engine.backend).queued) == (["12:01", "12:02"], None)
    engine.send(go, 1)
    engine.advance(MINUTE)
    assert ticks(engine.backend) == ["12:01", "12:02", "12:05"]


def test_end_of_a_run_without_its_schedule() -> None:
    """A run of a deleted schedule, and an unrelated workflow with the schedule's tag, end like any other."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(waiter(), overlap=Overlap.QUEUE))
    engine.advance(MINUTE)
    engine.advance(MINUTE)
    engine.start(waiter(), "stranger", tags=("eu", "schedule:s"))
    engine.send(go, 1, to="stranger")
    engine.settle()
    assert ticks(engine.backend)[0] == "12:01"
    assert row(engine.backend).queued is not None
    engine.do(ops.DeleteSchedule("s"))
    engine.send(go, 1)
    engine.settle()
    assert engine.backend.count(Workflows(tag="schedule:s", limit=ALL)) == 2


def test_last_run_that_was_purged_has_ended() -> None:
    """A schedule whose last run was purged continues."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(nothing()))
    engine.advance(MINUTE)
    engine.clock.advance(30)
    assert engine.do(ops.PurgeWorkflows(engine.clock.now())) == 1
    engine.advance(30)
    assert ticks(engine.backend) == ["12:02"]


# --- a tick whose id is taken ---------------------------------------------------------------------------------------


def test_schedule_that_is_deleted_and_created_again() -> None:
    """A tick that had its run from a deleted schedule of the same name gets no second one, and later ticks continue."""
    engine = DirectEngine(*EVERY)
    engine.do(schedule_of(nothing()))
    engine.advance(MINUTE)
    engine.clock.set(NOON)
    engine.batch(ops.DeleteSchedule("s"), schedule_of(nothing()))
    engine.advance(MINUTE)
    assert ticks(engine.backend) == ["12:01"]
    assert row(engine.backend).last_id == "s@2031-05-17T12:01:00+00:00"
    engine.advance(MINUTE)
    assert ticks(engine.backend) == ["12:01", "12:02"]


class Damaged(MemoryBackend):
    """A store in which rows of workflows are unreadable."""

    is_damaged = False

    def workflow(self, id: str) -> WorkflowRecord | None:
        record = super().workflow(id)
        if record is not None and self.is_damaged:
            raise CodecError(f"workflow id {id!r}", "it is damaged")
        return record


def test_damaged_run() -> None:
    """An unreadable run counts as the run of its tick, and holds up no schedule."""
    backend = Damaged()
    engine = DirectEngine(*EVERY, make=lambda: backend, checks=False)
    engine.start(waiter(), "s@2031-05-17T12:01:00+00:00")
    engine.restart(*EVERY)
    engine.do(schedule_of(nothing()))
    backend.is_damaged = True
    engine.advance(MINUTE)
    assert row(backend).last_tick == row(backend).done_until
    assert row(backend).last_id is None
    engine.advance(MINUTE)
    assert ticks(backend) == ["12:02"]

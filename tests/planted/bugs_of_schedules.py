"""Planted bugs: ticks that come twice, too early, too late or never; overlapping runs; forgotten policies."""

from __future__ import annotations

import attrs

from durable.backends.base import Batch
from durable.backends.memory.schedules import MemorySchedules
from durable.engine.decide import schedules
from durable.engine.decide.turn import Turn
from durable.engine.operations import PauseSchedule, ResumeSchedule, TickSchedule
from durable.engine.state.timetable import Timetable
from durable.model.records import WorkflowRecord
from durable.model.schedule import CatchUp, ScheduleRecord, run_id
from durable.model.timers import OF_SCHEDULE
from tests.planted.planting import Planter, bug

_tick, _work_off, _leave_out = schedules._tick, schedules._work_off, schedules._leave_out_missed


# --- each tick once -------------------------------------------------------------------------------------------------


@bug("I23", seed=5)
def tick_committed_without_the_advance(planter: Planter) -> None:
    """A run and the advance of its schedule are one commit. Here a crash between them repeats the tick."""
    decide = schedules.decide_tick_schedule

    def decide_tick_schedule(turn: Turn, op: TickSchedule) -> None:
        decide(turn, op)
        turn.state.batch.schedules_put.pop(op.key, None)

    planter.replace(schedules, decide_tick_schedule)


@bug(seed=5)
def tick_started_twice(planter: Planter) -> None:
    """A tick starts one run."""

    def _start(turn: Turn, schedule: ScheduleRecord, tick: int) -> ScheduleRecord:
        run = schedules._start_run(turn, schedule, run_id(schedule.name, tick))
        again = schedule if run.key % 2 else attrs.evolve(schedule, done_until=tick - 1, next_at=tick)
        return attrs.evolve(again, last_tick=tick, last_key=run.key, last_id=run.id)

    planter.replace(schedules, _start)


@bug("I23", seed=5)
def tick_lost(planter: Planter) -> None:
    """No tick is lost."""

    def _start(turn: Turn, schedule: ScheduleRecord, tick: int) -> ScheduleRecord:
        return schedule

    planter.replace(schedules, _start)


@bug("I23", seed=7)
def tick_before_its_time(planter: Planter) -> None:
    """A tick starts its run at its time, not before."""

    def _work_off(turn: Turn, schedule: ScheduleRecord) -> ScheduleRecord:
        after = _tick(turn, schedule, schedule.next_at or turn.now)
        after = after if after.next_at is None else _tick(turn, after, after.next_at)
        return attrs.evolve(after, wake_at=after.next_at)

    planter.replace(schedules, _work_off)


@bug("I23", seed=5)
def timers_not_stored(planter: Planter) -> None:
    """After a restart, the next ticks come from the store."""
    apply_whole = MemorySchedules.apply

    def apply(self: MemorySchedules, batch: Batch) -> None:
        apply_whole(self, batch)
        for key, schedule in batch.schedules_put.items():
            self._timers.discard((schedule.wake_at or 0, OF_SCHEDULE, key))

    planter.replace(MemorySchedules, apply)


@bug("I28", seed=574)
def all_missed_ticks_at_once(planter: Planter) -> None:
    """However many ticks were missed, one commit starts only a few of them."""

    def _work_off(turn: Turn, schedule: ScheduleRecord) -> ScheduleRecord:
        while True:
            after = _whole_work_off(turn, schedule)
            if after.wake_at is None or after.wake_at > turn.now:
                return after
            schedule = after

    _whole_work_off = schedules._work_off
    planter.replace(schedules, _work_off)


# --- overlap --------------------------------------------------------------------------------------------------------


@bug("I23", seed=5)
def overlap_ignored(planter: Planter) -> None:
    """Runs overlap only if the schedule allows it."""

    def _is_busy(turn: Turn, schedule: ScheduleRecord) -> bool:
        return False

    planter.replace(schedules, _is_busy)


@bug("I23", seed=5)
def first_tick_skipped(planter: Planter) -> None:
    """A tick is skipped only while a run is unfinished."""

    def _is_busy(turn: Turn, schedule: ScheduleRecord) -> bool:
        return True

    planter.replace(schedules, _is_busy)


@bug("I23", seed=7)
def queue_never_served(planter: Planter) -> None:
    """A queued tick starts when the last run ends."""

    def run_ended(self: Timetable, record: WorkflowRecord, now: int) -> None:
        pass

    planter.replace(Timetable, run_ended)


@bug("I23", seed=7)
def queue_served_at_the_next_tick_only(planter: Planter) -> None:
    """A queued tick starts as soon as the last run ends, not when the schedule next wakes."""
    wake = Timetable.run_ended

    def run_ended(self: Timetable, record: WorkflowRecord, now: int) -> None:
        wake(self, record, now + 60_000_000)

    planter.replace(Timetable, run_ended)


@bug("I23", seed=7)
def queued_tick_forgotten(planter: Planter) -> None:
    """A tick that was queued starts its run."""

    def _work_off(turn: Turn, schedule: ScheduleRecord) -> ScheduleRecord:
        return _whole(turn, attrs.evolve(schedule, queued=None))

    _whole = schedules._work_off
    planter.replace(schedules, _work_off)


@bug("I23", seed=7)
def queued_tick_pushed_out(planter: Planter) -> None:
    """The tick that was queued first keeps its place."""

    def _tick(turn: Turn, schedule: ScheduleRecord, at: int) -> ScheduleRecord:
        return _whole(turn, attrs.evolve(schedule, queued=None), at)

    _whole = schedules._tick
    planter.replace(schedules, _tick)


# --- missed ticks ---------------------------------------------------------------------------------------------------


@bug("I23", seed=84)
def missed_ticks_all_started(planter: Planter) -> None:
    """Missed ticks are caught up only if the schedule asks for it."""

    def _leave_out_missed(turn: Turn, schedule: ScheduleRecord) -> ScheduleRecord:
        return schedule

    planter.replace(schedules, _leave_out_missed)


def _as_if(planter: Planter, asked: CatchUp, done: CatchUp) -> None:
    """The schedule asks for one policy and gets another."""

    def _leave_out_missed(turn: Turn, schedule: ScheduleRecord) -> ScheduleRecord:
        job = schedule.job
        if job.catch_up is not asked:
            return _leave_out(turn, schedule)
        after = _leave_out(turn, attrs.evolve(schedule, job=attrs.evolve(job, catch_up=done)))
        return attrs.evolve(after, job=job)

    planter.replace(schedules, _leave_out_missed)


@bug("I23", seed=66)
def missed_ticks_left_out(planter: Planter) -> None:
    """ALL starts every missed tick."""
    _as_if(planter, CatchUp.ALL, CatchUp.SKIP)


@bug("I23", seed=66)
def last_missed_tick_left_out(planter: Planter) -> None:
    """LAST starts the last missed tick."""
    _as_if(planter, CatchUp.LAST, CatchUp.SKIP)


@bug("I23", seed=217)
def more_than_the_last_missed_tick(planter: Planter) -> None:
    """LAST starts only the last missed tick."""
    _as_if(planter, CatchUp.LAST, CatchUp.ALL)


@bug("I23", seed=5)
def late_by_a_little_is_missed(planter: Planter) -> None:
    """A tick that is late by less than the grace period is not missed."""

    def _leave_out_missed(turn: Turn, schedule: ScheduleRecord) -> ScheduleRecord:
        if schedule.next_at is None or schedule.next_at >= turn.now:
            return schedule
        after = schedule.next_after(turn.now)
        return attrs.evolve(
            schedule, done_until=turn.now, next_at=after, missed_from=schedule.next_at, missed_until=after
        )  # fmt: skip

    planter.replace(schedules, _leave_out_missed)


# --- operators ------------------------------------------------------------------------------------------------------


@bug("I23", seed=35)
def pause_ignored(planter: Planter) -> None:
    """A paused schedule does not wake."""

    def decide_pause_schedule(turn: Turn, op: PauseSchedule) -> None:
        schedule = turn.state.timetable.get(op.name)
        turn.state.timetable.put(attrs.evolve(schedule, is_paused=True), schedule)

    planter.replace(schedules, decide_pause_schedule)


@bug("I23", seed=35)
def resumed_from_the_clock(planter: Planter) -> None:
    """A schedule that is resumed after the clock was set back does not repeat ticks."""
    decide = schedules.decide_resume_schedule

    def decide_resume_schedule(turn: Turn, op: ResumeSchedule) -> None:
        schedule = turn.state.timetable.get(op.name)
        if schedule.is_paused:
            turn.state.timetable.put(attrs.evolve(schedule, done_until=min(turn.now, schedule.done_until)), schedule)
        decide(turn, op)

    planter.replace(schedules, decide_resume_schedule)


@bug("I23", seed=5)
def deleted_schedule_goes_on(planter: Planter) -> None:
    """A deleted schedule is gone."""

    def drop(self: Timetable, schedule: ScheduleRecord) -> None:
        self.put(attrs.evolve(schedule, is_paused=True, wake_at=None), schedule)

    planter.replace(Timetable, drop)

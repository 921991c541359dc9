"""Schedules are created, paused, triggered and deleted, and their ticks start runs.

A tick starts a run, waits in line for the last run to end, or is skipped. That decision and the move to the next tick
are one commit, so each tick is decided exactly once. `done_until` only grows, so no tick is decided twice, whatever the
clock does.

A run is stored here, and its body begins after that commit. So a body that takes the process down belongs to a stored
workflow, and a run whose workflow is no longer registered is parked like any other.
"""

from __future__ import annotations

import attrs

from durable.engine.decide.endings import check_payload
from durable.engine.decide.start import store_workflow
from durable.engine.decide.turn import Turn
from durable.engine.operations import (
    CreateSchedule,
    DeleteSchedule,
    PauseSchedule,
    ResumeSchedule,
    TickSchedule,
    TriggerSchedule,
)
from durable.errors import (
    CodecError,
    InvalidValue,
    NotAcrossShards,
    ScheduleAlreadyExists,
    ScheduleBusy,
    WorkflowAlreadyExists,
)
from durable.model.clock import from_duration
from durable.model.ids import digest
from durable.model.records import WorkflowRecord
from durable.model.schedule import CatchUp, Overlap, ScheduleRecord, run_id, run_tag
from durable.model.timers import OF_SCHEDULE, schedule_key

# Most ticks of one schedule that are decided in one commit. Further due ticks follow in the next commits, behind other
# work, so that years of missed ticks block no other workflow.
_AT_ONCE = 20


# --- callers --------------------------------------------------------------------------------------------------------


def decide_create_schedule(turn: Turn, op: CreateSchedule) -> ScheduleRecord:
    """Create a schedule. A repeat with the same job under the same name returns the first schedule."""
    state = turn.state
    if state.shard.count > 1:
        # The run's id decides its shard, but a tick must know at once whether the last run has ended.
        raise NotAcrossShards("a schedule")
    before = state.timetable.find(op.name)
    if before is not None and before.job == op.job:
        return before
    if before is not None and not op.replace:
        raise ScheduleAlreadyExists(op.name)
    definition = op.definition or state.registry.get(op.job.workflow, op.job.version)
    check_payload(turn, f"{definition.label}: arguments", op.job.input)
    done_until = turn.now if before is None else max(turn.now, before.done_until)
    next_at = op.job.plan.next(done_until, turn.now)
    if next_at is None:
        raise InvalidValue("schedule", "never ticks: no such time comes within fifty years")
    state.registry.add(definition)
    if before is None:
        schedule = ScheduleRecord(
            key=schedule_key(state.next_serial()),
            name=op.name,
            job=op.job,
            created_at=turn.now,
            anchor=turn.now,
            done_until=done_until,
            next_at=next_at,
            wake_at=next_at,
        )
    else:
        # A replaced schedule keeps its counters, and whether it is paused.
        schedule = attrs.evolve(
            _unqueued(before),
            job=op.job,
            anchor=turn.now,
            done_until=done_until,
            next_at=next_at,
            wake_at=None if before.is_paused else next_at,
        )
    state.timetable.put(schedule, before)
    return schedule


def _unqueued(schedule: ScheduleRecord) -> ScheduleRecord:
    """The schedule with the queued tick counted as skipped, if there was one."""
    if schedule.queued is None:
        return schedule
    return attrs.evolve(schedule, queued=None, skipped=schedule.skipped + 1)


def decide_pause_schedule(turn: Turn, op: PauseSchedule) -> None:
    """Pause a schedule: no tick starts a run until it is resumed. A queued tick is skipped."""
    schedule = turn.state.timetable.get(op.name)
    if not schedule.is_paused:
        turn.state.timetable.put(attrs.evolve(_unqueued(schedule), is_paused=True, wake_at=None), schedule)


def decide_resume_schedule(turn: Turn, op: ResumeSchedule) -> None:
    """Resume a schedule with the next tick after now. Ticks during the pause are not caught up."""
    schedule = turn.state.timetable.get(op.name)
    if schedule.is_paused:
        done_until = max(turn.now, schedule.done_until)
        next_at = schedule.next_after(done_until)
        resumed = attrs.evolve(schedule, is_paused=False, done_until=done_until, next_at=next_at, wake_at=next_at)
        turn.state.timetable.put(resumed, schedule)


def decide_trigger_schedule(turn: Turn, op: TriggerSchedule) -> WorkflowRecord:
    """Start a run now, even if the schedule is paused. A repeat with the same id returns the first run."""
    schedule = turn.state.timetable.get(op.name)
    stored = turn.state.find(op.id)
    if stored is not None:
        if stored.start_digest != digest(schedule.job.workflow, schedule.job.input):
            raise WorkflowAlreadyExists(op.id, stored.name)
        return stored
    if schedule.job.overlap is not Overlap.ALLOW and _is_busy(turn, schedule):
        raise ScheduleBusy(schedule.name, schedule.last_id or "")
    run = _start_run(turn, schedule, op.id)
    turn.state.timetable.put(attrs.evolve(schedule, last_key=run.key, last_id=run.id), schedule)
    return run


def decide_delete_schedule(turn: Turn, op: DeleteSchedule) -> None:
    """Delete a schedule. Its runs continue."""
    turn.state.timetable.drop(turn.state.timetable.get(op.name))


# --- ticks ----------------------------------------------------------------------------------------------------------


def decide_tick_schedule(turn: Turn, op: TickSchedule) -> None:
    """Decide the ticks that are due: first the one that waits in line, then those whose time has come."""
    schedule = turn.state.timetable.by_key(op.key)
    if schedule is None or schedule.wake_at is None:
        # Deleted or paused since its timer came due.
        return
    if schedule.wake_at <= turn.now:
        turn.state.timetable.put(_work_off(turn, schedule), schedule)
    else:
        # The clock was set back since. The timer was taken out of the window, so register it again.
        turn.state.timers.register_timer((schedule.wake_at, OF_SCHEDULE, schedule.key))


def _work_off(turn: Turn, schedule: ScheduleRecord) -> ScheduleRecord:
    """Decide the queued tick and then the due ticks, at most `_AT_ONCE`. Returns the schedule with its next timer.

    If more ticks are due, the timer is set to an instant that has passed, so the schedule comes up again at once.
    """
    if schedule.queued is not None and not _is_busy(turn, schedule):
        schedule = attrs.evolve(_start(turn, schedule, schedule.queued), queued=None)
    for _ in range(_AT_ONCE):
        schedule = _leave_out_missed(turn, schedule)
        if schedule.next_at is None or schedule.next_at > turn.now:
            break
        if schedule.queued is not None and schedule.job.catch_up is CatchUp.ALL:
            # All ticks must run, one after the other. They line up behind the queued one, and that line costs nothing,
            # because the plan itself is the line. The end of the run wakes the schedule.
            return attrs.evolve(schedule, wake_at=None)
        schedule = _tick(turn, schedule, schedule.next_at)
    return attrs.evolve(schedule, wake_at=schedule.next_at)


def _leave_out_missed(turn: Turn, schedule: ScheduleRecord) -> ScheduleRecord:
    """Skip the ticks that are later than `schedule_grace` and that the policy does not catch up."""
    config = turn.state.config
    due = schedule.next_at
    in_time = turn.now - from_duration("schedule_grace", config.schedule_grace)
    if due is None or due >= in_time:
        return schedule
    oldest = min(in_time, turn.now - from_duration("catch_up_window", config.catch_up_window))
    first: int | None
    if schedule.job.catch_up is CatchUp.SKIP:
        first = schedule.next_after(in_time - 1)
    elif schedule.job.catch_up is CatchUp.LAST:
        last = schedule.job.plan.last(max(oldest, due) - 1, turn.now, schedule.anchor)
        first = schedule.next_after(turn.now) if last is None else last
    else:
        first = due if due >= oldest else schedule.next_after(oldest - 1)
    if first == due:
        return schedule
    left_until = turn.now if first is None else first
    return attrs.evolve(
        schedule,
        done_until=min(turn.now, left_until - 1),
        next_at=first,
        missed_from=due,
        missed_until=left_until,
    )


def _tick(turn: Turn, schedule: ScheduleRecord, at: int) -> ScheduleRecord:
    """Decide one tick: it starts a run, waits for the end of the last run, or is skipped."""
    schedule = attrs.evolve(schedule, done_until=at, next_at=schedule.next_after(at))
    if schedule.job.overlap is Overlap.ALLOW or not _is_busy(turn, schedule):
        return _start(turn, schedule, at)
    if schedule.job.overlap is Overlap.QUEUE and schedule.queued is None:
        return attrs.evolve(schedule, queued=at)
    return attrs.evolve(schedule, skipped=schedule.skipped + 1)


def _is_busy(turn: Turn, schedule: ScheduleRecord) -> bool:
    """Whether the last run is unfinished. A purged run has ended, and a damaged run must not block the schedule."""
    run = None if schedule.last_key is None else turn.state.readable(schedule.last_key)
    return run is not None and not run.status.is_terminal


def _start(turn: Turn, schedule: ScheduleRecord, tick: int) -> ScheduleRecord:
    """Start the run of a tick. If its id exists, that is its run: perhaps from an earlier schedule of this name."""
    id = run_id(schedule.name, tick)
    try:
        run = turn.state.find(id) or _start_run(turn, schedule, id)
    except CodecError:
        return attrs.evolve(schedule, last_tick=tick)
    return attrs.evolve(schedule, last_tick=tick, last_key=run.key, last_id=run.id)


def _start_run(turn: Turn, schedule: ScheduleRecord, id: str) -> WorkflowRecord:
    """Store a run; its body begins after the commit."""
    job = schedule.job
    return store_workflow(
        turn, id, name=job.workflow, version=job.version, input=job.input, tags=(run_tag(schedule.name),)
    )

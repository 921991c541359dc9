"""Pure decisions: schedules are created, paused and deleted, and their ticks start runs.

A tick is decided once: that it starts its run, waits or is left out, and that the schedule goes on to the next tick, is
one decision and so one commit. `done_until` only grows, so no tick is decided twice, whatever the clock does.

A run is stored here and its body begins after that commit. A body that takes the process down is therefore known as the
one that was in work, like any other, and a workflow that is not registered any more is parked like any other.
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

# Most ticks of one schedule that are decided in one commit. Further ones that are due come in the next, after whatever
# else is waiting: years of missed ticks hold up nobody.
_AT_ONCE = 20


# --- callers --------------------------------------------------------------------------------------------------------


def decide_create_schedule(turn: Turn, op: CreateSchedule) -> ScheduleRecord:
    """Enter a schedule; the same job under the same name again finds the first one."""
    state = turn.state
    if state.shard.count > 1:
        # A run lives where its id says, and a tick must know there and then whether the run before it has ended.
        raise NotAcrossShards("a schedule")
    known = state.timetable.find(op.name)
    if known is not None and known.job == op.job:
        return known
    if known is not None and not op.replace:
        raise ScheduleAlreadyExists(op.name)
    definition = op.definition or state.registry.get(op.job.workflow, op.job.version)
    check_payload(turn, f"{definition.label}: arguments", op.job.input)
    done_until = turn.now if known is None else max(turn.now, known.done_until)
    next_at = op.job.plan.next(done_until, turn.now)
    if next_at is None:
        raise InvalidValue("schedule", "never ticks: no such time comes within fifty years")
    state.registry.add(definition)
    if known is None:
        schedule = ScheduleRecord(
            key=-state.next_serial(),
            name=op.name,
            job=op.job,
            created_at=turn.now,
            anchor=turn.now,
            done_until=done_until,
            next_at=next_at,
            wake_at=next_at,
        )
    else:
        # It keeps what it has done so far, and whether it is paused.
        schedule = attrs.evolve(
            _unqueued(known),
            job=op.job,
            anchor=turn.now,
            done_until=done_until,
            next_at=next_at,
            wake_at=None if known.is_paused else next_at,
        )
    state.timetable.put(schedule, known)
    return schedule


def _unqueued(schedule: ScheduleRecord) -> ScheduleRecord:
    """Nothing waits in line any more."""
    if schedule.queued is None:
        return schedule
    return attrs.evolve(schedule, queued=None, skipped=schedule.skipped + 1)


def decide_pause_schedule(turn: Turn, op: PauseSchedule) -> None:
    """No tick starts anything until it is resumed; the one that waits in line is left out."""
    schedule = turn.state.timetable.get(op.name)
    if not schedule.is_paused:
        turn.state.timetable.put(attrs.evolve(_unqueued(schedule), is_paused=True, wake_at=None), schedule)


def decide_resume_schedule(turn: Turn, op: ResumeSchedule) -> None:
    """Go on with the next tick from now on: those that came while it was paused are not caught up."""
    schedule = turn.state.timetable.get(op.name)
    if schedule.is_paused:
        done_until = max(turn.now, schedule.done_until)
        next_at = schedule.next_after(done_until)
        resumed = attrs.evolve(schedule, is_paused=False, done_until=done_until, next_at=next_at, wake_at=next_at)
        turn.state.timetable.put(resumed, schedule)


def decide_trigger_schedule(turn: Turn, op: TriggerSchedule) -> WorkflowRecord:
    """Start a run now, paused or not. The same id again finds the first one."""
    schedule = turn.state.timetable.get(op.name)
    known = turn.state.find(op.id)
    if known is not None:
        if known.start_digest != digest(schedule.job.workflow, schedule.job.input):
            raise WorkflowAlreadyExists(op.id, known.name)
        return known
    if schedule.job.overlap is not Overlap.ALLOW and _is_busy(turn, schedule):
        raise ScheduleBusy(schedule.name, schedule.last_id or "")
    run = _start_run(turn, schedule, op.id)
    turn.state.timetable.put(attrs.evolve(schedule, last_key=run.key, last_id=run.id), schedule)
    return run


def decide_delete_schedule(turn: Turn, op: DeleteSchedule) -> None:
    """Forget a schedule; its runs go on."""
    turn.state.timetable.drop(turn.state.timetable.get(op.name))


# --- ticks ----------------------------------------------------------------------------------------------------------


def decide_tick_schedule(turn: Turn, op: TickSchedule) -> None:
    """Decide what is due: the tick that waited in line, then those whose time has come."""
    schedule = turn.state.timetable.by_key(op.key)
    if schedule is None or schedule.wake_at is None:
        # Deleted or paused since its timer has come due.
        return
    if schedule.wake_at <= turn.now:
        turn.state.timetable.put(_work_off(turn, schedule), schedule)
    else:
        # The clock was set back since. The timer was taken out of the window and is needed again.
        turn.state.timers.register_timer(schedule.key, schedule.wake_at)


def _work_off(turn: Turn, schedule: ScheduleRecord) -> ScheduleRecord:
    if schedule.queued is not None and not _is_busy(turn, schedule):
        schedule = attrs.evolve(_start(turn, schedule, schedule.queued), queued=None)
    for _ in range(_AT_ONCE):
        schedule = _leave_out_missed(turn, schedule)
        if schedule.next_at is None or schedule.next_at > turn.now:
            break
        if schedule.queued is not None and schedule.job.catch_up is CatchUp.ALL:
            # All of them are to run, one after the other: they stand in line behind the one that is queued, and that
            # line costs nothing, because it is the plan itself. The end of the run wakes the schedule.
            return attrs.evolve(schedule, wake_at=None)
        schedule = _tick(turn, schedule, schedule.next_at)
    return attrs.evolve(schedule, wake_at=schedule.next_at)


def _leave_out_missed(turn: Turn, schedule: ScheduleRecord) -> ScheduleRecord:
    """Pass over the ticks that are too late and that the policy does not catch up."""
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
    """Decide one tick: it starts a run, waits for the end of the last one, or is left out."""
    schedule = attrs.evolve(schedule, done_until=at, next_at=schedule.next_after(at))
    if schedule.job.overlap is Overlap.ALLOW or not _is_busy(turn, schedule):
        return _start(turn, schedule, at)
    if schedule.job.overlap is Overlap.QUEUE and schedule.queued is None:
        return attrs.evolve(schedule, queued=at)
    return attrs.evolve(schedule, skipped=schedule.skipped + 1)


def _is_busy(turn: Turn, schedule: ScheduleRecord) -> bool:
    """Whether the last run is unfinished. One that was purged has ended, and one that is damaged holds up nobody."""
    run = None if schedule.last_key is None else turn.state.readable(schedule.last_key)
    return run is not None and not run.status.is_terminal


def _start(turn: Turn, schedule: ScheduleRecord, tick: int) -> ScheduleRecord:
    """Start the run of a tick. Where its id is taken the tick has its run: of a schedule of this name before, say."""
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

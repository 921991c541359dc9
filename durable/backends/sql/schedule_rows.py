"""Schedules as rows: the columns, and the way there and back. For the other tables see `rows`.

A row whose cron expression or time zone is not valid, or no longer, counts as damaged. So every `ScheduleRecord` has a
plan that can be asked for its ticks.
"""

from __future__ import annotations

from datetime import timedelta

from durable.backends.sql.tables import Row, Table
from durable.model.schedule import CatchUp, Job, Overlap, Plan, ScheduleRecord, check_name

_OVERLAPS = {member.value: member for member in Overlap}
_CATCH_UPS = {member.value: member for member in CatchUp}


def schedule_row(record: ScheduleRecord) -> Row:
    """The row of a schedule, in the order of `SCHEDULE.columns`."""
    job, plan = record.job, record.job.plan
    return (
        record.key,
        record.name,
        plan.cron,
        plan.every,
        None if plan.cron is None else plan.timezone,
        job.workflow,
        job.version,
        job.input,
        job.overlap.value,
        job.catch_up.value,
        record.created_at,
        record.anchor,
        int(record.is_paused),
        record.done_until,
        record.next_at,
        record.wake_at,
        record.queued,
        record.skipped,
        record.last_tick,
        record.last_key,
        record.last_id,
        record.missed_from,
        record.missed_until,
    )


def _schedule(row: Row) -> ScheduleRecord:
    """The record of a row. `Plan.of` checks the cron expression and the zone again."""
    key, name, cron, every, timezone = row[:5]
    if key >= 0:
        raise ValueError(f"key {key} is out of range")
    job = Job(
        plan=Plan.of(cron, None if every is None else timedelta(microseconds=every), timezone),
        workflow=row[5],
        version=row[6],
        input=row[7],
        overlap=_OVERLAPS[row[8]],
        catch_up=_CATCH_UPS[row[9]],
    )
    return ScheduleRecord(
        key=key,
        name=check_name(name),
        job=job,
        created_at=row[10],
        anchor=row[11],
        is_paused=bool(row[12]),
        done_until=row[13],
        next_at=row[14],
        wake_at=row[15],
        queued=row[16],
        skipped=row[17],
        last_tick=row[18],
        last_key=row[19],
        last_id=row[20],
        missed_from=row[21],
        missed_until=row[22],
    )


SCHEDULE = Table(
    "schedule",
    "key:int name:text cron:text? every:count? timezone:text? workflow:text version:count input:text overlap:text "
    "catch_up:text created_at:instant anchor:instant paused:int done_until:instant next_at:instant? wake_at:instant? "
    "queued:instant? skipped:count last_tick:instant? last_key:count? last_id:text? missed_from:instant? "
    "missed_until:instant?",
    ("name",),
    _schedule,
)

"""What operators see: the values that questions about workflows and schedules return.

They are made from records, carry datetimes instead of microseconds, and can always be made: a row whose error or
progress cannot be read is shown without it.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from itertools import chain, islice

import attrs

from durable.model.clock import to_datetime
from durable.model.records import FailedUndo, ParkReason
from durable.model.schedule import CatchUp, Overlap, ScheduleRecord
from durable.model.summaries import WorkflowSummary as WorkflowSummary
from durable.model.summaries import instant as instant


@attrs.frozen(kw_only=True)
class Waiting:
    """One thing that a workflow waits for."""

    position: str
    kind: str
    name: str
    since: datetime
    # The deadline of a timer, or the time of the next attempt of an activity that failed.
    until: datetime | None = None
    attempt: int = 1
    last_error: str | None = None
    source: str | None = None
    # Whether an attempt of this activity is running in this process now. Queued attempts do not count.
    is_running: bool = False


@attrs.frozen(kw_only=True)
class OwedUndo:
    """A step to undo if the workflow, or the saga around it, fails: its position and name, and the undo's name."""

    position: str
    step: str
    undo: str


@attrs.frozen(kw_only=True)
class Description:
    """Where a workflow is now, and why."""

    summary: WorkflowSummary
    waits: tuple[Waiting, ...] = ()
    history_length: int = 0
    round: int = 0
    pending_events: int = 0
    park_reason: ParkReason | None = None
    # Why it cannot run with the loaded code. It may not be parked yet.
    problem: str | None = None
    # With a `problem`, the cancellation is raised once matching code is back.
    cancel_requested: bool = False
    # The steps that a failure now would undo, in that order; and the undos that failed.
    owed_undos: tuple[OwedUndo, ...] = ()
    failed_undos: tuple[FailedUndo, ...] = ()
    # The ids of its newest 100 children, ended or not, newest first.
    children: tuple[str, ...] = ()
    # The workflow's key in the store, for code that adds to the description.
    key: int = attrs.field(default=0, repr=False, eq=False)

    def while_running(self, positions: Collection[str]) -> Description:
        """The same, while the activities at these positions run."""
        waits = tuple(attrs.evolve(wait, is_running=wait.position in positions) for wait in self.waits)
        return attrs.evolve(self, waits=waits)


@attrs.frozen(kw_only=True)
class RecoveryReport:
    """What a start found: how many workflows run again, how many stay parked, how many are on trial.

    Pages are added up with `+`.
    """

    resumed: int = 0
    unparked: int = 0
    parked: int = 0
    suspects: int = 0
    # The key after which the next page begins, or None after the last page; and the last key to recover.
    next_after: int | None = None
    until: int | None = None

    def __str__(self) -> str:
        return (
            f"recovered: {self.resumed} running again, {self.unparked} no longer parked, {self.parked} parked, "
            f"{self.suspects} on trial"
        )

    def __add__(self, other: RecoveryReport) -> RecoveryReport:
        return RecoveryReport(
            resumed=self.resumed + other.resumed,
            unparked=self.unparked + other.unparked,
            parked=self.parked + other.parked,
            suspects=self.suspects + other.suspects,
            next_after=other.next_after,
            until=other.until,
        )


@attrs.frozen(kw_only=True)
class ScheduleSummary:
    """The state of a schedule."""

    name: str
    workflow: str
    cron: str | None
    every: timedelta | None
    timezone: str
    overlap: Overlap
    catch_up: CatchUp
    created_at: datetime
    is_paused: bool
    # Its next ticks, in its time zone; empty while it is paused.
    next_runs: tuple[datetime, ...]
    # The last tick that started a run; and the id of the last run, started by a tick or by `trigger`.
    last_tick: datetime | None
    last_run: str | None
    # The tick that waits for the last run to end.
    queued: datetime | None
    # How many ticks were left out because the last run was unfinished.
    skipped: int
    # The most recent gap of missed ticks that were left out: from the first of them, up to the next tick after it.
    missed_from: datetime | None
    missed_until: datetime | None

    @classmethod
    def of(cls, record: ScheduleRecord, upcoming: int) -> ScheduleSummary:
        """The summary of a schedule, with its next `upcoming` ticks."""
        job, plan = record.job, record.job.plan
        zone = plan.zone()
        next_runs: list[int] = []
        if record.next_at is not None and not record.is_paused:
            ticks = chain([record.next_at], plan.ticks(record.next_at, record.anchor))
            next_runs = list(islice(ticks, upcoming))
        return cls(
            name=record.name,
            workflow=job.workflow,
            cron=plan.cron,
            every=None if plan.every is None else timedelta(microseconds=plan.every),
            timezone=plan.timezone,
            overlap=job.overlap,
            catch_up=job.catch_up,
            created_at=to_datetime(record.created_at),
            is_paused=record.is_paused,
            next_runs=tuple(to_datetime(tick).astimezone(zone) for tick in next_runs),
            last_tick=instant(record.last_tick),
            last_run=record.last_id,
            queued=instant(record.queued),
            skipped=record.skipped,
            missed_from=instant(record.missed_from),
            missed_until=instant(record.missed_until),
        )

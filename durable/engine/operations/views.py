"""What an operator sees of a workflow: values that the engine's questions return."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Any

import attrs

from durable.errors import CodecError
from durable.model.clock import to_datetime
from durable.model.error_codec import error_summary
from durable.model.records import FailedUndo, ParkReason, WorkflowRecord, WorkflowStatus
from durable.model.schedule import CatchUp, Overlap, ScheduleRecord

# How much of an error a list shows.
_ERROR_LENGTH_MAX = 200


@attrs.frozen(kw_only=True)
class WorkflowSummary:
    """One line about a workflow."""

    id: str
    name: str
    version: int
    status: WorkflowStatus
    created_at: datetime
    finished_at: datetime | None
    wake_at: datetime | None
    tags: tuple[str, ...]
    parked: str | None
    # Whether it was asked to end; with `parked` it hears of that when its code is there again.
    cancel_requested: bool = False
    # What it failed with: the class and the message, cut if it is long.
    error: str | None = None
    # The id of the workflow that has started it.
    parent: str | None = None
    # What it has published last, as plain JSON data.
    progress: Any = None

    @classmethod
    def of(cls, record: WorkflowRecord, parent: str | None = None, progress: str | None = None) -> WorkflowSummary:
        """The public face of a record, with the id of its parent and its progress as JSON text."""
        return cls(
            id=record.id,
            name=record.name,
            version=record.version,
            status=record.status,
            created_at=to_datetime(record.created_at),
            finished_at=instant(record.finished_at),
            wake_at=instant(record.wake_at),
            tags=record.tags,
            parked=record.park_detail,
            cancel_requested=record.cancel_requested,
            error=None if record.error is None else _short(record.error),
            parent=parent,
            progress=None if progress is None else _plain(progress),
        )


def _short(error: str) -> str:
    """A stored error in one line, also one that cannot be read: a list must not fail for one row."""
    try:
        text = ": ".join(error_summary(error))
    except CodecError:
        return "an error that cannot be read"
    return text if len(text) <= _ERROR_LENGTH_MAX else f"{text[: _ERROR_LENGTH_MAX - 3]}..."


def _plain(progress: str) -> Any:
    try:
        return json.loads(progress)
    except (ValueError, RecursionError):
        return None


@attrs.frozen(kw_only=True)
class Waiting:
    """One thing that a workflow waits for."""

    position: str
    kind: str
    name: str
    since: datetime
    # The deadline of a timer, or the next attempt of an activity that has failed.
    until: datetime | None = None
    attempt: int = 1
    last_error: str | None = None
    source: str | None = None
    # Whether an attempt of this activity runs in this process now; one that waits for its turn does not.
    is_running: bool = False


@attrs.frozen(kw_only=True)
class OwedUndo:
    """A step that is undone if the workflow, or the saga around it, fails: where it stands, and what undoes it."""

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
    # Why it cannot go on with the code that is loaded, though it may not be parked yet.
    problem: str | None = None
    # With `problem`, the cancellation is raised when the code is there again.
    cancel_requested: bool = False
    # What would be undone now, the first to be undone first, and what could not be undone.
    owed_undos: tuple[OwedUndo, ...] = ()
    failed_undos: tuple[FailedUndo, ...] = ()
    # The ids of its children, ended or not, the newest 100 of them, the newest first.
    children: tuple[str, ...] = ()
    # Which workflow it is in the store, for whoever adds to the description.
    key: int = attrs.field(default=0, repr=False, eq=False)


@attrs.frozen(kw_only=True)
class RecoveryReport:
    """What a start found: how many workflows go on, how many stay parked, how many are on trial."""

    resumed: int = 0
    unparked: int = 0
    parked: int = 0
    suspects: int = 0
    # The key after which there is more to look over, or None; and the last key to look over.
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
    """How a schedule stands."""

    name: str
    workflow: str
    cron: str | None
    every: timedelta | None
    timezone: str
    overlap: Overlap
    catch_up: CatchUp
    created_at: datetime
    is_paused: bool
    # When it ticks next, in its own time zone; nothing while it is paused.
    next_runs: tuple[datetime, ...]
    # The tick that was started last, and the id of the last run, be it by a tick or by `trigger`.
    last_tick: datetime | None
    last_run: str | None
    # The tick that waits for the end of the last run.
    queued: datetime | None
    # How many ticks were left out because the last run was unfinished.
    skipped: int
    # Ticks that were missed and left out, the last time: from this one, up to the one that came next.
    missed_from: datetime | None
    missed_until: datetime | None

    @classmethod
    def of(cls, record: ScheduleRecord, upcoming: int) -> ScheduleSummary:
        """The public face of a schedule, with so many of its next ticks."""
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


def instant(value: int | None) -> datetime | None:
    """The datetime of an optional instant."""
    return None if value is None else to_datetime(value)

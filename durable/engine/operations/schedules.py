"""Schedules are created, changed and listed, and their ticks come due."""

from __future__ import annotations

from typing import Any

import attrs

from durable.engine.operations.base import Operation
from durable.model.records import WorkflowRecord
from durable.model.schedule import Job, ScheduleRecord
from durable.runner.definitions import WorkflowDef


@attrs.frozen(kw_only=True)
class CreateSchedule(Operation[ScheduleRecord]):
    """Start a workflow again and again, or find the schedule that was created for the same job."""

    name: str
    job: Job
    # The code, which does not travel.
    definition: WorkflowDef[Any, Any] | None = attrs.field(default=None, eq=False)
    replace: bool = False


@attrs.frozen
class PauseSchedule(Operation[None]):
    """Let a schedule rest."""

    name: str


@attrs.frozen
class ResumeSchedule(Operation[None]):
    """Let a schedule go on with its next tick."""

    name: str


@attrs.frozen
class TriggerSchedule(Operation[WorkflowRecord]):
    """Start a run of a schedule now, or find the one that was started under this id."""

    name: str
    id: str


@attrs.frozen
class DeleteSchedule(Operation[None]):
    """Forget a schedule; its runs go on."""

    name: str


@attrs.frozen
class ListSchedules(Operation[list[ScheduleRecord]]):
    """A page of schedules by name."""

    is_list = True

    after: str | None
    limit: int


@attrs.frozen
class TickSchedule(Operation[None]):
    """A schedule has ticks that are due, or one whose turn has come."""

    key: int

"""Operations on schedules: create, change, list, and their ticks."""

from __future__ import annotations

from typing import Any

import attrs

from durable.engine.operations.base import OfSchedule, Operation
from durable.model.records import WorkflowRecord
from durable.model.schedule import Job, ScheduleRecord
from durable.model.timers import ScheduleKey
from durable.runner.definitions import WorkflowDef


@attrs.frozen(kw_only=True)
class CreateSchedule(OfSchedule[ScheduleRecord]):
    """Create a schedule, or find the one that was created for the same job.

    A schedule of this name with another job is an error, unless `replace` is set.
    """

    name: str
    job: Job
    # The code. It does not travel.
    definition: WorkflowDef[Any, Any] | None = attrs.field(default=None, eq=False)
    replace: bool = False


@attrs.frozen
class PauseSchedule(OfSchedule[None]):
    """Stop a schedule from starting runs. Runs that have started continue."""

    name: str


@attrs.frozen
class ResumeSchedule(OfSchedule[None]):
    """Continue a paused schedule with its next tick."""

    name: str


@attrs.frozen
class TriggerSchedule(OfSchedule[WorkflowRecord]):
    """Start a run of a schedule now, or find the run that was started with this id."""

    name: str
    id: str

    def reads(self) -> tuple[str | int, ...]:
        return (self.id,)


@attrs.frozen
class DeleteSchedule(OfSchedule[None]):
    """Delete a schedule; its runs continue."""

    name: str


@attrs.frozen
class ListSchedules(Operation[list[ScheduleRecord]]):
    """A page of schedules, ordered by name."""

    is_list = True

    after: str | None
    limit: int


@attrs.frozen
class TickSchedule(Operation[None]):
    """A schedule has ticks that are due, or a queued tick that may start now."""

    key: ScheduleKey

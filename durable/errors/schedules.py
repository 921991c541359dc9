"""A call about a schedule is refused."""

from __future__ import annotations

import attrs

from durable.errors.base import DurableError


@attrs.frozen(slots=False)
class ScheduleNotFound(DurableError, LookupError):
    """No schedule with this name is stored."""

    name: str

    says = "there is no schedule {name!r}: it was never created, or it was deleted"


@attrs.frozen(slots=False)
class ScheduleAlreadyExists(DurableError):
    """The name belongs to a schedule with a different definition. Creating an identical one again is allowed."""

    name: str

    says = (
        "schedule {name!r} already exists with a different call, plan or policy: "
        "pass replace=True to change it, or use another name"
    )


@attrs.frozen(slots=False)
class ScheduleBusy(DurableError):
    """The last run of the schedule is unfinished, and its runs must not overlap. Raised when a run is triggered."""

    name: str
    workflow_id: str

    says = (
        "run {workflow_id!r} of schedule {name!r} is unfinished: wait until it ends, cancel it, "
        "or create the schedule with overlap=Overlap.ALLOW"
    )

"""A call about a schedule is refused."""

from __future__ import annotations

import attrs

from durable.errors.base import DurableError


@attrs.frozen(slots=False)
class ScheduleNotFound(DurableError, LookupError):
    """No schedule of this name is stored."""

    name: str

    says = "no schedule is named {name!r}: it was never created, or it was deleted"


@attrs.frozen(slots=False)
class ScheduleAlreadyExists(DurableError):
    """The name belongs to a schedule with another definition."""

    name: str

    says = (
        "schedule {name!r} exists already with another call, plan or policy: "
        "pass replace=True to change it, or use another name"
    )


@attrs.frozen(slots=False)
class ScheduleBusy(DurableError):
    """The schedule's last run is unfinished, and its runs must not overlap."""

    name: str
    workflow_id: str

    says = (
        "run {workflow_id!r} of schedule {name!r} is unfinished: wait for its end or cancel it, "
        "or create the schedule with overlap=Overlap.ALLOW"
    )

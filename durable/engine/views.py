"""What an operator sees of a workflow: values that the engine's questions return."""

from __future__ import annotations

from datetime import datetime

import attrs

from durable.clock import to_datetime
from durable.records import FailedUndo, ParkReason, WorkflowRecord, WorkflowStatus


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

    @classmethod
    def of(cls, record: WorkflowRecord) -> WorkflowSummary:
        """The public face of a record."""
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
        )


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
    cancel_requested: bool = False
    # What would be undone now, the first to be undone first, and what could not be undone.
    owed_undos: tuple[OwedUndo, ...] = ()
    failed_undos: tuple[FailedUndo, ...] = ()


@attrs.frozen(kw_only=True)
class RecoveryReport:
    """What a start found: how many workflows go on, how many stay parked, how many are tried one at a time."""

    resumed: int = 0
    unparked: int = 0
    parked: int = 0
    suspects: int = 0
    # The key after which there is more to look over, or None.
    next_after: int | None = None

    def __add__(self, other: RecoveryReport) -> RecoveryReport:
        return RecoveryReport(
            resumed=self.resumed + other.resumed,
            unparked=self.unparked + other.unparked,
            parked=self.parked + other.parked,
            suspects=self.suspects + other.suspects,
            next_after=other.next_after,
        )


def instant(value: int | None) -> datetime | None:
    """The datetime of an optional instant."""
    return None if value is None else to_datetime(value)

"""One line about a workflow: `WorkflowSummary`, made from its record. It imports little, so lists start quickly."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import attrs

from durable.errors import CodecError
from durable.model.clock import to_datetime
from durable.model.error_codec import error_summary
from durable.model.records import WorkflowRecord, WorkflowStatus
from durable.model.requests import KEPT_ABOVE

# Longer errors are cut in lists.
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
    # Whether it was asked to end. If it is parked, `Cancelled` is raised once its code is back.
    cancel_requested: bool = False
    # The class and the message of the error that it failed with, cut if long.
    error: str | None = None
    # The id of the workflow that started it.
    parent: str | None = None
    # The progress that it published last, as plain JSON data.
    progress: Any = None
    # Whether this is a start that a client has kept for the next engine, because none was running.
    kept: bool = False

    @classmethod
    def of(cls, record: WorkflowRecord, parent: str | None = None, progress: str | None = None) -> WorkflowSummary:
        """The summary of a record. `parent` is the id of its parent, `progress` the published value as JSON text."""
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
            kept=record.key > KEPT_ABOVE,
        )


def _short(error: str) -> str:
    """A stored error in one line. One that cannot be read gets a placeholder: a list must not fail for one row."""
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


def instant(value: int | None) -> datetime | None:
    """The datetime of an instant in microseconds; None stays None."""
    return None if value is None else to_datetime(value)

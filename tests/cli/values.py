"""Values that the tests of the command line look at: descriptions and histories, built by hand."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec

from durable import Description, EntryKind, EntryStatus, HistoryEntry, Waiting, WorkflowStatus, WorkflowSummary
from durable.cli.output import Screen
from durable.model.clock import from_datetime

START = datetime(2026, 3, 1, 3, 12, 0, tzinfo=timezone.utc)
PAPER = Screen(width=80, zone=timezone.utc)
PIPE = Screen(zone=timezone.utc)


def after(seconds: float) -> datetime:
    """So many seconds after the start."""
    return START + timedelta(seconds=seconds)


def summary(status: WorkflowStatus = WorkflowStatus.SUSPENDED, **changes: Any) -> WorkflowSummary:
    """A run that was started at START."""
    fields: dict[str, Any] = {
        "id": "order-42",
        "name": "checkout",
        "version": 1,
        "status": status,
        "created_at": START,
        "finished_at": None,
        "wake_at": None,
        "tags": (),
        "parked": None,
    }
    return WorkflowSummary(**(fields | changes))


def description(run: WorkflowSummary | None = None, **changes: Any) -> Description:
    """The description of a run."""
    return Description(summary=run or summary(), **changes)


def entry(
    position: str,
    seconds: float,
    name: str = "charge",
    kind: EntryKind = EntryKind.ACTIVITY,
    value: object = None,
    retry_after: float | None = None,
    error: str | None = None,
) -> HistoryEntry:
    """An entry that was recorded so many seconds after the start. Its number is the time, so entries must ascend."""
    status = EntryStatus.OK if error is None else EntryStatus.ERROR if retry_after is None else EntryStatus.RETRY
    outcome = value if error is None else {"type": "builtins.ConnectionError", "message": error}
    at = from_datetime("at", after(seconds))
    retry_at = None if retry_after is None else from_datetime("retry_at", after(seconds + retry_after))
    seq = round(seconds * 1000)
    return HistoryEntry(seq, position, kind, name, status, msgspec.json.encode(outcome).decode(), at, retry_at)


def waiting(position: str, seconds: float, name: str = "approval", kind: str = "event", **changes: Any) -> Waiting:
    """A wait that began so many seconds after the start."""
    return Waiting(position=position, kind=kind, name=name, since=after(seconds), **changes)

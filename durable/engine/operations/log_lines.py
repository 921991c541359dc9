"""The lines that the engine logs: failures and changes that people should see, never a single step.

A decision emits a line as an effect, so it is written once, after the commit, and only if the commit happened. Every
line about a workflow carries `workflow_id` and `workflow_name` as extra fields for log processors, and `position` and
`attempt` where they apply.
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from durable.errors import CodecError
from durable.model.error_codec import error_summary
from durable.model.records import FailedUndo, WorkflowRecord

_log = logging.getLogger("durable")
# Longer errors are cut: a log line is not the place for a traceback, and `runs.describe` shows more.
_LENGTH_MAX = 500


class Tell(NamedTuple):
    """A line for the log, written after the commit."""

    level: int
    text: str
    extra: dict[str, Any]

    def write(self) -> None:
        """Write the line."""
        _log.log(self.level, "%s", self.text, extra=self.extra)


def about(record: WorkflowRecord, **more: Any) -> dict[str, Any]:
    """The extra fields of a line about a workflow."""
    return {"workflow_id": record.id, "workflow_name": record.name, **more}


def failed(record: WorkflowRecord, error: str) -> Tell:
    """A workflow has failed."""
    return Tell(logging.WARNING, f"workflow {_name(record)} failed: {summary(error)}", about(record))


def parked(record: WorkflowRecord, position: str | None) -> Tell:
    """A workflow is parked; `position` is that of the entry that caused it, if one did."""
    reason = "unknown" if record.park_reason is None else record.park_reason.value
    text = f"workflow {_name(record)} is parked ({reason}): {_short(record.park_detail or '')}"
    return Tell(logging.WARNING, text, about(record) if position is None else about(record, position=position))


def unparked(record: WorkflowRecord) -> Tell:
    """A workflow that was parked runs again."""
    return Tell(logging.INFO, f"workflow {_name(record)} is no longer parked", about(record))


def undo_failed(record: WorkflowRecord, undo: FailedUndo) -> Tell:
    """An undo has failed: its step stays done although the workflow failed or was cancelled."""
    return Tell(logging.ERROR, f"workflow {_name(record)}: {undo}", about(record, position=undo.position))


def attempt_failed(
    record: WorkflowRecord, activity: str, error: str, *, position: str, attempt: int, delay: int | None
) -> Tell:
    """An attempt of an activity has failed. The next follows after `delay` microseconds; None means it was the last."""
    after = "no further attempt follows" if delay is None else f"the next one follows in {delay / 1_000_000:g} s"
    text = f"attempt {attempt} of activity {activity} at {position} of workflow {_name(record)} failed, {after}"
    level = logging.WARNING if delay is None else logging.INFO
    return Tell(level, f"{text}: {summary(error)}", about(record, position=position, attempt=attempt))


def summary(error: str) -> str:
    """The class and the message of a stored error, cut to a readable length."""
    try:
        return _short(": ".join(error_summary(error)))
    except CodecError as problem:
        return str(problem)


def _short(text: str) -> str:
    return text if len(text) <= _LENGTH_MAX else f"{text[:_LENGTH_MAX]}..."


def _name(record: WorkflowRecord) -> str:
    return f"{record.id} ({record.name})"

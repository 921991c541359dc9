"""What the engine tells its log: failures and what people have to know, never a single step.

A decision notes a line as an effect, so it is written after the commit, once, and only if the commit happened. Every
line about a workflow carries `workflow_id` and `workflow_name`, and where there is one `position` and `attempt`, as
extra fields for log processors.
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from durable.errors import CodecError
from durable.model.error_codec import error_summary
from durable.model.records import FailedUndo, WorkflowRecord

_log = logging.getLogger("durable")
# A log line is not the place for a whole traceback; `runs.describe` has more.
_LENGTH_MAX = 500


class Tell(NamedTuple):
    """A line for the log, after the commit."""

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
    """A workflow is parked, because of what stands at a position if there is one."""
    reason = "unknown" if record.park_reason is None else record.park_reason.value
    text = f"workflow {_name(record)} is parked ({reason}): {_short(record.park_detail or '')}"
    return Tell(logging.WARNING, text, about(record) if position is None else about(record, position=position))


def unparked(record: WorkflowRecord) -> Tell:
    """A workflow that was parked runs again."""
    return Tell(logging.INFO, f"workflow {_name(record)} is no longer parked", about(record))


def undo_failed(record: WorkflowRecord, undo: FailedUndo) -> Tell:
    """A step stays done although its workflow has failed or was cancelled."""
    return Tell(logging.ERROR, f"workflow {_name(record)}: {undo}", about(record, position=undo.position))


def attempt_failed(
    record: WorkflowRecord, activity: str, error: str, *, position: str, attempt: int, delay: int | None
) -> Tell:
    """An attempt of an activity has failed: the next one comes after a delay, or there is none."""
    after = "no further attempt follows" if delay is None else f"the next one follows in {delay / 1_000_000:g} s"
    text = f"attempt {attempt} of activity {activity} at {position} of workflow {_name(record)} failed, {after}"
    level = logging.WARNING if delay is None else logging.INFO
    return Tell(level, f"{text}: {summary(error)}", about(record, position=position, attempt=attempt))


def summary(error: str) -> str:
    """The class and the message of a stored error, short."""
    try:
        return _short(": ".join(error_summary(error)))
    except CodecError as problem:
        return str(problem)


def _short(text: str) -> str:
    return text if len(text) <= _LENGTH_MAX else f"{text[:_LENGTH_MAX]}..."


def _name(record: WorkflowRecord) -> str:
    return f"{record.id} ({record.name})"

"""Events that nobody has taken, as people see them: those that are pending, and dead letters."""

from __future__ import annotations

import enum
import json
from datetime import datetime
from typing import Any

import attrs

from durable.model.clock import to_datetime
from durable.model.statuses import WorkflowStatus


class DeadLetterReason(enum.Enum):
    """Why an event became a dead letter."""

    WORKFLOW_ENDED = "workflow ended"
    UNREADABLE = "unreadable"
    RETENTION_OVER = "retention over"


def decoded(payload: str) -> Any:
    """A stored payload as plain JSON data; the text itself if it is not JSON, which only damage can cause."""
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return payload


@attrs.frozen(kw_only=True)
class DeadLetter:
    """An event that no workflow took. `id` is the serial of the event.

    `workflow_id` is the workflow that it was sent to, or that could not read it; None if it was sent to nobody.
    `status` is how that workflow ended, None if it did not end. `detail` says more about the reason.
    """

    id: int
    name: str
    event_key: str = ""
    workflow_id: str | None = None
    payload_json: str
    sent_at_us: int
    died_at_us: int
    reason: DeadLetterReason = DeadLetterReason.WORKFLOW_ENDED
    detail: str | None = None
    status: WorkflowStatus | None = None
    is_broadcast: bool = False

    @property
    def payload(self) -> Any:
        """What was sent, as plain JSON data."""
        return decoded(self.payload_json)

    @property
    def sent_at(self) -> datetime:
        """When it was sent."""
        return to_datetime(self.sent_at_us)

    @property
    def died_at(self) -> datetime:
        """When it became a dead letter."""
        return to_datetime(self.died_at_us)


@attrs.frozen(kw_only=True)
class PendingEventInfo:
    """An event that no workflow has taken yet.

    `to` is the id of the workflow that it was sent to, started or not; None if it was sent to whoever waits. `payload`
    is plain JSON data.
    """

    id: int
    name: str
    key: str | None
    to: str | None
    payload: Any
    sent_at: datetime
    expires_at: datetime | None
    is_broadcast: bool

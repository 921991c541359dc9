"""Events that no workflow has taken, as people see them: pending events and dead letters.

A pending event may still be taken. A dead letter is kept for an operator, who may replay or remove it.
"""

from __future__ import annotations

import enum
import json
from datetime import datetime
from typing import Any

import attrs

from durable.model.clock import to_datetime
from durable.model.statuses import WorkflowStatus


class DeadLetterReason(enum.Enum):
    """Why an event became a dead letter. The values are stored.

    WORKFLOW_ENDED: it was in the mailbox of a workflow that ended. UNREADABLE: the workflow that took it could not read
    its payload. RETENTION_OVER: no workflow took it in time. REFUSED: a client had kept it for the next engine, and
    that engine has refused it.
    """

    WORKFLOW_ENDED = "workflow ended"
    UNREADABLE = "unreadable"
    RETENTION_OVER = "retention over"
    REFUSED = "refused"


def decoded(payload: str) -> Any:
    """A stored payload as plain JSON data; the text itself if it is not JSON, which only damage can cause."""
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return payload


@attrs.frozen(kw_only=True)
class DeadLetter:
    """An event that no workflow took. `id` is the serial of the event.

    `workflow_id` is the workflow that it was sent to, or that could not read it; None if it had no target. `status` is
    how that workflow ended, None if it did not end. `detail` adds to the reason.
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
        """The payload as plain JSON data."""
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

    `to` is the id of its target, which may not have started yet; None if the event has no target. `payload` is plain
    JSON data. `expires_at` is None if the event is kept until it is taken.
    """

    id: int
    name: str
    key: str | None
    to: str | None
    payload: Any
    sent_at: datetime
    expires_at: datetime | None
    is_broadcast: bool

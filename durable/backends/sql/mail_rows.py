"""Dead letters and taken broadcasts as rows. Like `rows`, for the tables that few commits touch."""

from __future__ import annotations

from durable.backends.sql.tables import Row, Table
from durable.model.dead_letters import DeadLetter, DeadLetterReason
from durable.model.records import TakenBroadcast, WorkflowStatus

_REASONS = {reason.value: reason for reason in DeadLetterReason}
_STATUSES = {status.value: status for status in WorkflowStatus}


def letter_row(letter: DeadLetter) -> Row:
    """The row of a dead letter, in the order of `LETTER.columns`."""
    return (
        letter.id,
        letter.name,
        letter.event_key,
        letter.workflow_id,
        letter.payload_json,
        letter.sent_at_us,
        letter.died_at_us,
        letter.reason.value,
        letter.detail,
        None if letter.status is None else letter.status.value,
        int(letter.is_broadcast),
    )


def _letter(row: Row) -> DeadLetter:
    """The dead letter in a row."""
    id, name, event_key, workflow_id, payload, sent_at, died_at, reason, detail, status, broadcast = row
    return DeadLetter(
        id=id,
        name=name,
        event_key=event_key,
        workflow_id=workflow_id,
        payload_json=payload,
        sent_at_us=sent_at,
        died_at_us=died_at,
        reason=_REASONS[reason],
        detail=detail,
        status=None if status is None else _STATUSES[status],
        is_broadcast=bool(broadcast),
    )


LETTER = Table(
    "dead_letter",
    "id:count name:text event_key:text workflow_id:text? payload:text sent_at:instant died_at:instant reason:text "
    "detail:text? status:text? broadcast:int",
    ("id",),
    _letter,
)


def taken_row(taken: TakenBroadcast) -> Row:
    """The row of the last broadcast that a workflow has taken."""
    return (taken.workflow_key, taken.name, taken.event_key, taken.serial)


def _taken(row: Row) -> TakenBroadcast:
    key, name, event_key, serial = row
    return TakenBroadcast(workflow_key=key, name=name, event_key=event_key, serial=serial)


TAKEN = Table(
    "broadcast_taken",
    "workflow:count name:text event_key:text serial:count",
    ("workflow", "name", "event_key"),
    _taken,
)

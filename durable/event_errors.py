"""Why an event is refused, or cannot be found."""

from __future__ import annotations

import attrs

from durable.errors import DurableError


@attrs.frozen(slots=False)
class EventTypeMismatch(DurableError, TypeError):
    """The workflow that would get the event waits for another type of payload and cannot read this one."""

    name: str
    sent: str
    awaited: str
    workflow_id: str
    problem: str

    says = (
        "event {name!r} was sent as {sent}, but workflow {workflow_id!r} waits for it as {awaited} and cannot read it "
        "({problem}): nothing was stored; use one Event definition for both, or another name"
    )


@attrs.frozen(slots=False)
class EventNotFound(DurableError, LookupError):
    """No pending event with this id is stored."""

    event_id: int

    says = "no pending event {event_id}: a workflow may have taken it, or it has expired or become a dead letter"

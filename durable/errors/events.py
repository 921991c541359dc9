"""An event is refused, or cannot be found."""

from __future__ import annotations

import attrs

from durable.errors.base import DurableError


@attrs.frozen(slots=False)
class PendingEventsFull(DurableError):
    """Too many events wait in the mailbox of a workflow, or untargeted under a name; this one was not accepted."""

    name: str
    limit: int
    mailbox: str | None = None

    def __str__(self) -> str:
        place = f"events named {self.name!r}" if self.mailbox is None else f"events for workflow {self.mailbox!r}"
        what = f"{self.limit} {place} are pending already (max_pending_events): nothing was stored"
        return f"{what}; let workflows take some, or send again later"


@attrs.frozen(slots=False)
class EventConflict(DurableError):
    """The sender's event id was used before for another event."""

    event_id: str

    says = "event id {event_id!r} was used before with another payload, name, key or target; use a new id"


@attrs.frozen(slots=False)
class DeadLetterNotFound(DurableError, LookupError):
    """No dead letter with this id is stored."""

    letter_id: int

    says = "no dead letter {letter_id}: it may have been replayed or removed"


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

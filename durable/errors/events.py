"""An event is refused, or cannot be found. A refused event was not stored."""

from __future__ import annotations

import attrs

from durable.errors.base import DurableError


@attrs.frozen(slots=False)
class PendingEventsFull(DurableError):
    """Too many events are pending, in the mailbox of a workflow or untargeted under one name.

    `mailbox` is the id of that workflow, None for untargeted events.
    """

    name: str
    limit: int
    mailbox: str | None = None

    def __str__(self) -> str:
        place = f"events named {self.name!r}" if self.mailbox is None else f"events for workflow {self.mailbox!r}"
        problem = f"{self.limit} {place} are already pending (max_pending_events), so nothing was stored"
        return f"{problem}; send it again after some were taken"


@attrs.frozen(slots=False)
class EventConflict(DurableError):
    """The sender's event id was used before for a different event. The same event sent twice is accepted once."""

    event_id: str

    says = "event id {event_id!r} was used before with a different payload, name, key or target; use a new id"


@attrs.frozen(slots=False)
class DeadLetterNotFound(DurableError, LookupError):
    """No dead letter with this id is stored."""

    letter_id: int

    says = "there is no dead letter {letter_id}: it may have been replayed or removed"


@attrs.frozen(slots=False)
class UnknownEvent(DurableError, LookupError):
    """An event was sent by name, and the engine knows no event with this name. `meant` looks almost the same."""

    name: str
    meant: str | None = None

    def __str__(self) -> str:
        guess = "" if self.meant is None else f" (did you mean {self.meant!r}?)"
        problem = f"no workflow of this engine has an Event named {self.name!r}{guess}, so nothing was stored"
        return f"{problem}; correct the name, or send it all the same with force=True (durable send --force)"


@attrs.frozen(slots=False)
class EventTypeMismatch(DurableError, TypeError):
    """The workflow that would take the event waits for another type of payload and cannot read this one."""

    name: str
    sent: str
    awaited: str
    workflow_id: str
    problem: str

    says = (
        "event {name!r} was sent as {sent}, but workflow {workflow_id!r} waits for it as {awaited} and cannot read it "
        "({problem}). Nothing was stored; use one Event definition for both, or another name"
    )


@attrs.frozen(slots=False)
class EventNotFound(DurableError, LookupError):
    """No pending event with this id is stored."""

    event_id: int

    says = (
        "there is no pending event {event_id}: a workflow may have taken it, or it has expired or become a dead letter"
    )

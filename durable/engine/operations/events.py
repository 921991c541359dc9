"""Events are sent, listed, removed and replayed."""

from __future__ import annotations

from typing import Any

import attrs

from durable.engine.operations.base import Operation
from durable.model.dead_letters import DeadLetter, PendingEventInfo


@attrs.frozen
class Delivered:
    """The event was taken, by these workflows."""

    to: tuple[str, ...]


@attrs.frozen
class Queued:
    """No workflow has taken the event yet: it is kept, or it is a dead letter if those who wait cannot read it."""


@attrs.define(kw_only=True)
class SendEvent(Operation[Delivered | Queued]):
    """Give an event to who waits for it, or keep it."""

    name: str
    event_key: str = ""
    payload: str
    to: str | None = None
    allow_unstarted: bool = False
    consume: bool = True
    expire_after: int | None = None
    event_id: str | None = None
    # The type that the sender has packed it as; None where nobody knows. Only its name travels.
    payload_type: Any = attrs.field(default=None, eq=False)


@attrs.frozen(kw_only=True)
class ListEvents(Operation[list[PendingEventInfo]]):
    """A page of pending events, perhaps of one name, perhaps of those sent to one id."""

    is_list = True

    name: str | None = None
    to: str | None = None
    after: int
    limit: int


@attrs.frozen
class RemoveEvent(Operation[None]):
    """Remove a pending event."""

    event_id: int


@attrs.frozen
class ListLetters(Operation[list[DeadLetter]]):
    """A page of dead letters."""

    is_list = True

    after: int
    limit: int


@attrs.frozen
class ReplayLetter(Operation[Delivered | Queued]):
    """Send a dead letter again, to a workflow or untargeted."""

    letter_id: int
    to: str | None = None


@attrs.frozen
class RemoveLetter(Operation[None]):
    """Forget a dead letter."""

    letter_id: int

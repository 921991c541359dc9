"""Operations on pending events, dead letters, and waits that may have an answer; like those of `operations`."""

from __future__ import annotations

import attrs

from durable.engine.operations import Delivered, Operation, Queued
from durable.letters import DeadLetter, PendingEventInfo


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
class CheckWaits(Operation[None]):
    """Look at the waits of a workflow that were put off, because the decision that began them had grown long."""

    key: int


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

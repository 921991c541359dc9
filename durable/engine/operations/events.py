"""Operations on events and dead letters: send, list, remove, replay."""

from __future__ import annotations

from typing import Any

import attrs

from durable.engine.operations.base import Operation
from durable.model.dead_letters import DeadLetter, PendingEventInfo
from durable.model.homes import event_home, key_home, workflow_home


@attrs.frozen
class Delivered:
    """These workflows took the event, by id: one, or every waiting one for a broadcast."""

    to: tuple[str, ...]


@attrs.frozen
class Queued:
    """No workflow has taken the event yet. It is kept, or is a dead letter if no waiting workflow can read it."""


@attrs.define(kw_only=True)
class SendEvent(Operation[Delivered | Queued]):
    """Give an event to the workflow that waits for it, or keep it.

    With `to` it goes to that workflow alone. Raises `WorkflowNotFound` if that was never started, unless
    `allow_unstarted`. An event whose `event_id` was sent before is not sent again: the answer is the first one, or
    `EventConflict` if the event differs. `expire_after` is in microseconds.
    """

    name: str
    event_key: str = ""
    payload: str
    to: str | None = None
    allow_unstarted: bool = False
    consume: bool = True
    expire_after: int | None = None
    event_id: str | None = None
    # The sender knows only the name: `consume` and `expire_after` are those of the `Event` that the engine knows. Under
    # a name that it does not know, the event is refused unless `force`.
    by_name: bool = False
    force: bool = False
    # The type that the sender packed it as; None if unknown. Only its name travels.
    payload_type: Any = attrs.field(default=None, eq=False)
    # The trace context of the sender.
    trace: str | None = attrs.field(default=None, eq=False)

    def home(self, shards: int) -> int:
        """The shard of the target, or else of the name and key."""
        return event_home(self.name, self.event_key, shards) if self.to is None else workflow_home(self.to, shards)

    def reads(self) -> tuple[str | int, ...]:
        return () if self.to is None else (self.to,)


@attrs.frozen(kw_only=True)
class ListEvents(Operation[list[PendingEventInfo]]):
    """A page of pending events with serials above `after`, optionally of one name or sent to one workflow id."""

    is_list = True

    name: str | None = None
    to: str | None = None
    after: int
    limit: int


@attrs.frozen
class RemoveEvent(Operation[None]):
    """Remove a pending event by its serial."""

    event_id: int

    def home(self, shards: int) -> int | None:
        return key_home(self.event_id, shards)


@attrs.frozen
class ListLetters(Operation[list[DeadLetter]]):
    """A page of dead letters with ids above `after`."""

    is_list = True

    after: int
    limit: int


@attrs.frozen
class ReplayLetter(Operation[Delivered | Queued]):
    """Send a dead letter again, to a workflow or untargeted."""

    letter_id: int
    to: str | None = None

    def home(self, shards: int) -> int | None:
        return key_home(self.letter_id, shards)


@attrs.frozen
class RemoveLetter(Operation[None]):
    """Delete a dead letter."""

    letter_id: int

    def home(self, shards: int) -> int | None:
        return key_home(self.letter_id, shards)

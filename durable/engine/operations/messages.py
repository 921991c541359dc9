"""What follows from a decision: messages, one closed union, handled by one table (`decisions`).

A decision is about one workflow. What follows for a wait of it, or for another workflow, is said in a message, and
handled in the same decision, by a loop and not by recursion. So a child's end and its parent's wake-up are one commit.

The order is fixed, and part of what the engine promises:

1. `LookAgain`: what is pending is taken first, so that it wins over a limit that is over.
2. `EventSent`: then what bodies send is delivered or kept, one event at a time. Every wait has been looked at, so
   nothing that was sent earlier is still pending for one of them, and nothing is overtaken.
3. `CancelSpawned`: then the children that bodies tell to stop. What they were sent before has arrived.
4. `FireTimers`: then the timers of workflows that were woken.
5. `CancelChild`: then the children that nobody waits for any more.
6. `EventMoved`: last, so that an event that has lost its target finds everybody who waits by now.

Messages of one kind are handled in the order in which they were sent. Must not know how anything is handled.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple, TypeAlias, TypeVar

from durable.model.records import CancelCause, PendingEvent, WorkflowRecord


class LookAgain(NamedTuple):
    """A wait has begun, or may have its answer by now: an event, a child's end, the state of a round."""

    key: int
    position: str


class EventSent(NamedTuple):
    """A body sends an event, and waits at a position to hear whether it was accepted."""

    key: int
    position: str


class CancelSpawned(NamedTuple):
    """A body tells a child that it has spawned to stop, and waits at a position to hear whether it was still there."""

    key: int
    position: str
    # The child first takes what was sent to it up to this serial.
    after: int
    # How much of that it had not taken when it was last looked at.
    unheard: int | None = None


class FireTimers(NamedTuple):
    """A workflow was woken by a timer and has looked at what is pending: now its due timers fire."""

    key: int


class CancelChild(NamedTuple):
    """Nobody waits any more for the child that a parent has called at a place."""

    child_id: str
    parent: WorkflowRecord
    place: str
    cause: CancelCause


class EventMoved(NamedTuple):
    """An event has lost its target and is for anybody now."""

    event: PendingEvent


# What is about a wait of a workflow, and may be left to the next batch.
AtWait: TypeAlias = LookAgain | EventSent | CancelSpawned
Message: TypeAlias = LookAgain | EventSent | CancelSpawned | FireTimers | CancelChild | EventMoved
M = TypeVar("M", LookAgain, EventSent, CancelSpawned, FireTimers, CancelChild, EventMoved)
ORDER: tuple[type[Message], ...] = (LookAgain, EventSent, CancelSpawned, FireTimers, CancelChild, EventMoved)


class Messages:
    """The messages of one decision that wait to be handled, by kind."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        # A kind without messages has no queue, so this is empty if nothing waits. Most decisions send nothing at all.
        self.waiting: dict[type[Message], deque[Any]] = {}

    def send(self, message: Message) -> None:
        """One more message, behind those of its kind."""
        queue = self.waiting.get(type(message))
        if queue is None:
            self.waiting[type(message)] = deque((message,))
        else:
            queue.append(message)

    def next(self) -> Message:
        """The message that is handled next. There must be one."""
        for kind in ORDER:
            if (queue := self.waiting.get(kind)) is not None:
                message: Message = queue.popleft()
                if not queue:
                    del self.waiting[kind]
                return message
        raise LookupError("there is no message")

    def take(self, kind: type[M]) -> list[M]:
        """Take all messages of a kind out."""
        return list(self.waiting.pop(kind, ()))

    def has(self, kind: type[Message]) -> bool:
        """Whether a message of a kind waits."""
        return kind in self.waiting

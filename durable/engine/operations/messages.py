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

Where the addressee lives in another shard, a message goes there as a letter (`router`), and is handled as the only
message of a decision of its own. Some exist only for that: in one shard the same is done at once. Every question names
the wait that asks, and every answer repeats that name, so an answer to a wait that is over is known for what it is.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple, TypeAlias, TypeVar

from durable.engine.operations.events import SendEvent
from durable.model.dead_letters import DeadLetter
from durable.model.records import (
    CancelCause,
    DeliveryMode,
    EntryStatus,
    OnParentClose,
    PendingEvent,
    Registration,
)


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


class WaitId(NamedTuple):
    """One wait of one workflow, told from those that were at the same position before it by its serial."""

    key: int
    position: str
    serial: int


class CancelChild(NamedTuple):
    """Nobody waits any more for the child that a parent has called at a place; or, with a `wait` and without a place,
    a body tells a child that it has spawned to stop, and waits to hear whether it was still there."""

    child_id: str
    parent_key: int
    parent_id: str
    place: str | None
    cause: CancelCause
    reason: str | None = None
    wait: WaitId | None = None


class EventMoved(NamedTuple):
    """An event has lost its target and is for anybody now."""

    event: PendingEvent


# --- only between shards: children ----------------------------------------------------------------------------------


class StartChild(NamedTuple):
    """A workflow calls or spawns a child that lives here. Answered by its end if it is awaited, or else by its start.

    A child that is there already, because its parent was retried, is not started again.
    """

    wait: WaitId
    child_id: str
    place: str
    name: str
    version: int
    input: str
    # None for a child that is awaited.
    on_parent_close: OnParentClose | None
    depth: int


class AwaitChild(NamedTuple):
    """A workflow waits for the end of a child that was spawned by it, or by one whose history it has copied."""

    wait: WaitId
    child_id: str
    fork_sources: tuple[str, ...]


class RetryChild(NamedTuple):
    """A workflow was retried: its child here continues if it has failed, and starts again if it has ended with it.

    It arrives behind whatever has cancelled the child. With a `wait` its end is the answer, or the end that it has come
    to if it cannot go on. `call` is its name, version and arguments, where the code may call it in another way by now.
    """

    wait: WaitId | None
    child_id: str
    parent_key: int
    call: tuple[str, int, str] | None


class ParentEnded(NamedTuple):
    """A workflow has ended: its children here end with it, but for those that are kept."""

    parent_key: int
    parent_id: str


class ChildStarted(NamedTuple):
    """The spawned child is stored."""

    wait: WaitId
    child_id: str


class ChildRefused(NamedTuple):
    """There is no such child, and there will be none: the error says why."""

    wait: WaitId
    error: str


class ChildEnded(NamedTuple):
    """How a child has ended: its result, or the error that its end is to those who wait for it."""

    wait: WaitId
    status: EntryStatus
    outcome: str


class CancelAnswered(NamedTuple):
    """Whether a child that was told to stop was still there to be stopped."""

    wait: WaitId
    is_accepted: bool


# --- only between shards: events ------------------------------------------------------------------------------------


class EventSubmitted(NamedTuple):
    """A body elsewhere sends an event whose target, or whose name and key, live here."""

    wait: WaitId
    operation: SendEvent


class SendAnswered(NamedTuple):
    """What became of an event that a body has sent: None if it was accepted, or the error."""

    wait: WaitId
    error: str | None


class WaitRegistered(NamedTuple):
    """A workflow elsewhere waits for an untargeted event whose name and key live here."""

    wait: WaitId
    name: str
    event_key: str
    mode: DeliveryMode
    registration: Registration
    # The serial of the last broadcast of this name and key that the workflow has taken.
    cursor: int


class EventOffered(NamedTuple):
    """An event for a wait here, from its home elsewhere. The offer uses up the registration of that wait."""

    wait: WaitId
    event: PendingEvent
    registration: Registration


class Misfit(NamedTuple):
    """Who cannot read an event: the id and name of the workflow, where it waits, and why not."""

    workflow_id: str
    workflow_name: str
    position: str
    problem: str


class EventReturned(NamedTuple):
    """An event that was offered comes back: the wait is over, or its workflow is parked or cannot read it."""

    event: PendingEvent
    unreadable_by: Misfit | None = None


class LetterReplayed(NamedTuple):
    """An operator sends a dead letter again, to somebody who lives here. Meanwhile it is nowhere else."""

    letter: DeadLetter
    operation: SendEvent


class LetterRefused(NamedTuple):
    """A dead letter that was sent again was refused, and is a dead letter as before."""

    letter: DeadLetter


class WaitWithdrawn(NamedTuple):
    """A wait elsewhere that was noted here is over."""

    wait: WaitId


# What is about a wait of a workflow, and may be left to the next batch.
AtWait: TypeAlias = LookAgain | EventSent | CancelSpawned
# What answers a wait.
Answer: TypeAlias = ChildStarted | ChildRefused | ChildEnded | CancelAnswered | SendAnswered
# What only ever comes as a letter: the only message of its decision, so its place in the order does not matter.
Arriving: TypeAlias = (
    StartChild | AwaitChild | RetryChild | ParentEnded | EventSubmitted | WaitRegistered | EventOffered | EventReturned
    | LetterReplayed | LetterRefused | WaitWithdrawn | Answer
)  # fmt: skip
Message: TypeAlias = AtWait | FireTimers | CancelChild | EventMoved | Arriving
M = TypeVar("M", LookAgain, EventSent, CancelSpawned, FireTimers, CancelChild, EventMoved)
ORDER: tuple[type[Message], ...] = (
    LookAgain, EventSent, CancelSpawned, FireTimers, CancelChild, EventMoved,
    StartChild, AwaitChild, RetryChild, ParentEnded, ChildStarted, ChildRefused, ChildEnded, CancelAnswered,
    EventSubmitted, SendAnswered, WaitRegistered, EventOffered, EventReturned, LetterReplayed, LetterRefused,
    WaitWithdrawn,
)  # fmt: skip


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

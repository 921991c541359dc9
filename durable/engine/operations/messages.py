"""What follows from a decision: messages, one closed union, handled by one table (`coordinator.decisions`).

A decision is about one workflow. Its consequences for a wait, or for another workflow, are sent as messages and handled
within the same decision, in a loop rather than by recursion. So a child's end and its parent's wake-up are one commit.

The order is fixed, and part of what the engine promises:

1. `WorkflowEnded`: the children of a workflow end with it, and its parent wakes up.
2. `LookAgain`: waits take what is pending. Before all that follows, so that a pending event wins over a limit that is
   over.
3. `EventSent`: events that bodies send are delivered or kept, one at a time. Every wait has been checked by then, so
   no event sent earlier is still pending for one of them, and none is overtaken.
4. `CancelSpawned`: bodies cancel children that they spawned, after everything sent to those before has arrived.
5. `FireTimers`: the timers of workflows that were woken fire.
6. `CancelChild`: children whose parents no longer wait for them are cancelled.
7. `EventMoved`: events that have lost their target look for another taker. Last, so that they find every wait.

Messages of one kind are handled in the order in which they were sent. This file knows nothing about how.

If the addressee lives in another shard, the message goes there as a letter (`Turn.send`) and is handled as the only
message of a decision. Some messages exist only for that: within one shard the same is done at once. Every question
names the wait that asks, and every answer repeats that name, so an answer to a wait that is over is recognized and
dropped.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias, TypeVar

from durable.engine.operations.events import SendEvent
from durable.model.dead_letters import DeadLetter
from durable.model.records import (
    CancelCause,
    DeliveryMode,
    EntryStatus,
    OnParentClose,
    PendingEvent,
    Registration,
    WorkflowRecord,
)


class WorkflowEnded(NamedTuple):
    """A workflow has ended: its children end with it, and its parent wakes up."""

    # As it has ended.
    record: WorkflowRecord
    # Whether it may have children besides those that its body was waiting for.
    may_have_children: bool


class LookAgain(NamedTuple):
    """A wait has begun, or its answer may have arrived: an event, a child's end, the state of a round."""

    key: int
    position: str


class EventSent(NamedTuple):
    """A body sends an event, and waits at this position for the answer: accepted or refused."""

    key: int
    position: str


class CancelSpawned(NamedTuple):
    """A body cancels a child that it spawned, and waits at this position for whether the child was still running."""

    key: int
    position: str
    # The child first takes every event sent to it up to this serial.
    after: int
    # How many of those it had not taken at the last check; None before the first.
    unheard: int | None = None


class FireTimers(NamedTuple):
    """A timer woke a workflow, and its waits have taken what was pending: now its due timers fire."""

    key: int


class WaitId(NamedTuple):
    """One wait of one workflow. The serial distinguishes it from earlier waits at the same position."""

    key: int
    position: str
    serial: int


class CancelChild(NamedTuple):
    """Cancel a child.

    With a `place`: its parent called it there and no longer waits for it. With a `wait` instead: a body in another
    shard cancels a child that it spawned, and that wait receives whether the child was still running.
    """

    child_id: str
    parent_key: int
    parent_id: str
    place: str | None
    cause: CancelCause
    reason: str | None = None
    wait: WaitId | None = None


class EventMoved(NamedTuple):
    """An event has lost its target, and any workflow may take it."""

    event: PendingEvent


# --- only between shards: children ----------------------------------------------------------------------------------


class StartChild(NamedTuple):
    """A workflow elsewhere calls or spawns a child that lives here.

    The answer to a call is the child's end, the answer to a spawn is its start. A child that exists already, because
    its parent was retried, is not started again.
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
    """A workflow waits for the end of a child that it spawned, or that was spawned by a workflow it was forked from."""

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
    """A workflow has ended: its children here are cancelled, except those that are kept."""

    parent_key: int
    parent_id: str


class ChildStarted(NamedTuple):
    """The spawned child is stored."""

    wait: WaitId
    child_id: str


class ChildRefused(NamedTuple):
    """The child was not started, and will not be: the error says why."""

    wait: WaitId
    error: str


class ChildEnded(NamedTuple):
    """How a child ended: its result, or the error that is raised where its parent waits."""

    wait: WaitId
    status: EntryStatus
    outcome: str


class CancelAnswered(NamedTuple):
    """Whether a child was still running when it was cancelled."""

    wait: WaitId
    is_accepted: bool


# --- only between shards: events ------------------------------------------------------------------------------------


class EventSubmitted(NamedTuple):
    """A body elsewhere sends an event whose target, or whose name and key, live here."""

    wait: WaitId
    operation: SendEvent


class SendAnswered(NamedTuple):
    """The answer to an event that a body sent: None if it was accepted, or the error."""

    wait: WaitId
    error: str | None


class WaitRegistered(NamedTuple):
    """A workflow elsewhere waits for an untargeted event whose name and key live here."""

    wait: WaitId
    name: str
    event_key: str
    mode: DeliveryMode
    registration: Registration
    # The serial of the last broadcast of this name and key that the workflow took.
    cursor: int


class EventOffered(NamedTuple):
    """An event from its home elsewhere, for a wait here. The offer uses up the registration of that wait."""

    wait: WaitId
    event: PendingEvent
    registration: Registration


class Misfit(NamedTuple):
    """A workflow that cannot read an event: its id and name, where it waits, and why not."""

    workflow_id: str
    workflow_name: str
    position: str
    problem: str


class EventReturned(NamedTuple):
    """An offered event comes back: the wait is over, or its workflow is parked or cannot read it."""

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
    """A wait elsewhere that is registered here is over."""

    wait: WaitId


# Messages about a wait of a workflow. A long decision may leave them to the next batch.
AtWait: TypeAlias = LookAgain | EventSent | CancelSpawned


# Messages that answer a wait.
Answer: TypeAlias = ChildStarted | ChildRefused | ChildEnded | CancelAnswered | SendAnswered


# Messages that only arrive as letters. Each is the only one of its decision, so its place in the order is arbitrary.
Arriving: TypeAlias = (
    StartChild | AwaitChild | RetryChild | ParentEnded | EventSubmitted | WaitRegistered | EventOffered | EventReturned
    | LetterReplayed | LetterRefused | WaitWithdrawn | Answer
)  # fmt: skip


Message: TypeAlias = WorkflowEnded | AtWait | FireTimers | CancelChild | EventMoved | Arriving
M = TypeVar("M", WorkflowEnded, LookAgain, EventSent, CancelSpawned, FireTimers, CancelChild, EventMoved)


ORDER: tuple[type[Message], ...] = (
    WorkflowEnded, LookAgain, EventSent, CancelSpawned, FireTimers, CancelChild, EventMoved,
    StartChild, AwaitChild, RetryChild, ParentEnded, ChildStarted, ChildRefused, ChildEnded, CancelAnswered,
    EventSubmitted, SendAnswered, WaitRegistered, EventOffered, EventReturned, LetterReplayed, LetterRefused,
    WaitWithdrawn,
)  # fmt: skip

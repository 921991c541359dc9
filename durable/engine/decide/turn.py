"""What the decisions of a batch share: `Turn`, with the way that messages take, and `WaitKind`.

`Turn.send` has a message handled in this decision, or posts it as a letter to the shard of its addressee. With one
shard every message stays here, and no home is computed. `check_home` refuses an operation that belongs to another
shard: it was sent to the wrong coordinator. This file knows where each message belongs, and not how it is handled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs

from durable.engine import operations as ops
from durable.engine.operations import Effect
from durable.engine.operations.letters import write_message
from durable.engine.operations.messages import (
    ORDER,
    AwaitChild,
    CancelAnswered,
    CancelChild,
    ChildEnded,
    ChildRefused,
    ChildStarted,
    EventMoved,
    EventOffered,
    EventReturned,
    EventSubmitted,
    LetterRefused,
    LetterReplayed,
    M,
    Message,
    RetryChild,
    SendAnswered,
    StartChild,
    WaitRegistered,
)
from durable.engine.state.state import State
from durable.engine.state.workflows import Loaded
from durable.errors import InvariantViolated, WrongShard
from durable.model.homes import Shard, event_home, key_home, workflow_home
from durable.model.records import (
    EntryKind,
)
from durable.runner.fibers import WaitCondition

# What the engine does about one wait of a live body.
Act: TypeAlias = Callable[["Turn", Loaded, WaitCondition], None]


class Messages:
    """The messages of one decision that are still to be handled, by kind."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        # A kind without messages has no queue, so this is empty if nothing waits. Most decisions send no message.
        self.waiting: dict[type[Message], deque[Any]] = {}

    def send(self, message: Message) -> None:
        """Add a message behind those of its kind."""
        queue = self.waiting.get(type(message))
        if queue is None:
            self.waiting[type(message)] = deque((message,))
        else:
            queue.append(message)

    def next(self) -> Message:
        """Take the message that is handled next. There must be one: callers check `waiting`."""
        for kind in ORDER:
            if (queue := self.waiting.get(kind)) is not None:
                message: Message = queue.popleft()
                if not queue:
                    del self.waiting[kind]
                return message
        raise LookupError("no message is waiting")

    def take(self, kind: type[M]) -> list[M]:
        """Take all messages of a kind, in their order."""
        return list(self.waiting.pop(kind, ()))

    def has(self, kind: type[Message]) -> bool:
        """Whether a message of a kind waits."""
        return kind in self.waiting


@attrs.frozen(kw_only=True)
class WaitKind:
    """What the engine does for one kind of wait; the table is `decisions.WAIT_KINDS`."""

    # The body has begun to wait.
    opened: Act | None = None
    # The wait may have its answer: find it and feed it. Also called right after the wait was opened.
    look: Act | None = None
    # The body stopped waiting without an answer: it lost a race, was cancelled, or its code has changed.
    withdrawn: Act | None = None
    # The deadline of the wait has passed.
    due: Act | None = None
    # `look` always feeds an answer, in the same decision. What the body really waits for is known only after that.
    is_passing: bool = False


@attrs.define(eq=False)
class Turn:
    """What decision functions share while the operations of one batch are decided.

    Decisions add `effects`, which leave after the commit, and `messages`, which are handled before the next operation.
    """

    state: State
    now: int
    kinds: Mapping[EntryKind, WaitKind]
    effects: list[Effect] = attrs.field(factory=list)
    # What follows from this decision, for the same or other workflows.
    messages: Messages = attrs.field(factory=Messages)

    def send(self, message: Message) -> None:
        """Have a message handled in the shard of its addressee: in this decision, or by letter."""
        shard = self.state.shard
        if shard.count == 1:
            self.messages.send(message)
        else:
            self.send_to(home_of(message, shard.count), message)

    def send_to(self, home: int, message: Message) -> None:
        """Like `send`, for a message that does not show its home itself, such as `ParentEnded`."""
        if home == self.state.shard.number:
            self.messages.send(message)
        else:
            self.state.outbox.post(home, write_message(message))


def home_of(message: Message, shards: int) -> int:
    """The shard of a message's addressee: a workflow, an event's name and key, or the wait that has asked."""
    match message:
        case StartChild() | AwaitChild() | RetryChild() | CancelChild():
            return workflow_home(message.child_id, shards)
        case EventMoved() | EventReturned():
            return event_home(message.event.name, message.event.event_key, shards)
        case WaitRegistered():
            return event_home(message.name, message.event_key, shards)
        case EventSubmitted() | LetterReplayed():
            return message.operation.home(shards)
        case LetterRefused():
            return key_home(message.letter.id, shards)
        case ChildStarted() | ChildRefused() | ChildEnded() | CancelAnswered() | SendAnswered() | EventOffered():
            return key_home(message.wait.key, shards)
        case _:
            raise InvariantViolated(f"{type(message).__name__} does not show its home; use send_to")


def check_home(shard: Shard, operation: ops.Operation[Any]) -> None:
    """Raise `WrongShard` for an operation that another shard must decide."""
    home = operation.home(shard.count)
    if home is not None and home != shard.number:
        raise WrongShard(type(operation).__name__, home, shard.number)

"""Where a message goes: to a handler in this decision, or by letter to the shard of its addressee.

With one shard every message stays here, and no home is computed. `check_home` refuses an operation that belongs to
another shard: it was sent to the wrong coordinator. The router knows where each message belongs, and nothing about how
it is handled.
"""

from __future__ import annotations

from typing import Any

from durable.engine import operations as ops
from durable.engine.decide.turn import Turn
from durable.engine.operations.letters import write_message
from durable.engine.operations.messages import (
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
    Message,
    RetryChild,
    SendAnswered,
    StartChild,
    WaitRegistered,
)
from durable.errors import InvariantViolated, WrongShard
from durable.model.homes import Shard, event_home, key_home, workflow_home


def send(turn: Turn, message: Message) -> None:
    """Have a message handled in the shard of its addressee: in this decision, or by letter."""
    shard = turn.state.shard
    if shard.count == 1:
        turn.messages.send(message)
    else:
        send_to(turn, home_of(message, shard.count), message)


def send_to(turn: Turn, home: int, message: Message) -> None:
    """Like `send`, for a message that does not show its home itself, such as `ParentEnded`."""
    if home == turn.state.shard.number:
        turn.messages.send(message)
    else:
        turn.state.outbox.post(home, write_message(message))


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


# --- what callers ask for -------------------------------------------------------------------------------------------


def check_home(shard: Shard, operation: ops.Operation[Any]) -> None:
    """Raise `WrongShard` for an operation that another shard must decide."""
    home = operation.home(shard.count)
    if home is not None and home != shard.number:
        raise WrongShard(type(operation).__name__, home, shard.number)

"""Where a message goes: to a handler in this decision, or by letter to the shard in which its addressee lives.

With one shard everybody lives here, and nothing is looked up. An operation of a caller that belongs to another shard is
refused: it was sent to the wrong coordinator. Knows homes and forms. Must not know how a message is handled.
"""

from __future__ import annotations

from typing import Any

from durable.engine import operations as ops
from durable.engine.decide.turn import Turn
from durable.engine.operations import (
    ForkWorkflow,
    RemoveEvent,
    RemoveLetter,
    RepairWorkflow,
    ReplayLetter,
    RetryWorkflow,
)
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
from durable.model.homes import Shard, event_home, key_home, schedule_home, workflow_home


def send(turn: Turn, message: Message) -> None:
    """Have a message handled where its addressee lives."""
    shard = turn.state.shard
    if shard.count == 1:
        turn.messages.send(message)
    else:
        send_to(turn, home_of(message, shard.count), message)


def send_to(turn: Turn, home: int, message: Message) -> None:
    """Have a message handled in a shard that the message itself does not name."""
    if home == turn.state.shard.number:
        turn.messages.send(message)
    else:
        turn.state.outbox.post(home, write_message(message))


def home_of(message: Message, shards: int) -> int:
    """The shard in which the addressee of a message lives."""
    match message:
        case StartChild() | AwaitChild() | RetryChild() | CancelChild():
            return workflow_home(message.child_id, shards)
        case EventMoved() | EventReturned():
            return event_home(message.event.name, message.event.event_key, shards)
        case WaitRegistered():
            return event_home(message.name, message.event_key, shards)
        case EventSubmitted() | LetterReplayed():
            return home_of_send(message.operation, shards)
        case LetterRefused():
            return key_home(message.letter.id, shards)
        case ChildStarted() | ChildRefused() | ChildEnded() | CancelAnswered() | SendAnswered() | EventOffered():
            return key_home(message.wait.key, shards)
        case _:
            raise InvariantViolated(f"{type(message).__name__} does not say where it goes")


def home_of_send(operation: ops.SendEvent, shards: int) -> int:
    """The shard that decides what becomes of an event: that of its target, or else of its name and key."""
    if operation.to is not None:
        return workflow_home(operation.to, shards)
    return event_home(operation.name, operation.event_key, shards)


# --- what callers ask for -------------------------------------------------------------------------------------------

_BY_ID = (
    ops.StartWorkflow, ops.CancelWorkflow, ops.TerminateWorkflow, ops.FindWorkflow, ops.AwaitEnd, ops.ReadProgress,
    ops.AwaitChange, ops.ReadHistory, ops.DescribeWorkflow, RetryWorkflow, RepairWorkflow,
)  # fmt: skip
_BY_WORKFLOW_ID = (ops.ResumePause, ops.CancelPause)
_BY_SCHEDULE = (
    ops.CreateSchedule, ops.PauseSchedule, ops.ResumeSchedule, ops.TriggerSchedule, ops.DeleteSchedule,
)  # fmt: skip


def home_of_operation(operation: ops.Operation[Any], shards: int) -> int | None:
    """The shard that decides an operation of a caller; None for one that any shard answers for itself."""
    match operation:
        case ops.SendEvent():
            return home_of_send(operation, shards)
        case ForkWorkflow():
            return workflow_home(operation.new_id, shards)
        case RemoveEvent():
            return key_home(operation.event_id, shards)
        case ReplayLetter() | RemoveLetter():
            return key_home(operation.letter_id, shards)
        case _:
            pass
    if isinstance(operation, _BY_ID):
        return workflow_home(operation.id, shards)
    if isinstance(operation, _BY_WORKFLOW_ID):
        return workflow_home(operation.workflow_id, shards)
    return schedule_home(operation.name, shards) if isinstance(operation, _BY_SCHEDULE) else None


def check_home(shard: Shard, operation: ops.Operation[Any]) -> None:
    """Raise `WrongShard` for an operation that another shard decides."""
    home = home_of_operation(operation, shard.count)
    if home is not None and home != shard.number:
        raise WrongShard(type(operation).__name__, home, shard.number)

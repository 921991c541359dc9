"""A workflow sends an event itself, or an event has lost its target and is offered to other workflows.

What a body sends is decided as if a client had sent it. Then the body continues, or gets the error. Both are one
decision and so one commit: replay never sends the event again, and no crash can come in between. The event is delivered
before the body continues, so it takes effect before anything that the body does next.
"""

from __future__ import annotations

import attrs

from durable.engine.decide.body import feed, is_answered
from durable.engine.decide.endings import park
from durable.engine.decide.events import accept, is_expired, offer, send
from durable.engine.decide.timers import put_off_one, waits_put_off
from durable.engine.decide.turn import Turn
from durable.engine.decide.waits import note_question
from durable.engine.operations import SendEvent
from durable.engine.operations.messages import EventMoved, EventSent, EventSubmitted, SendAnswered
from durable.engine.state.workflows import Loaded
from durable.errors import (
    CodecError,
    EventTypeMismatch,
    PayloadTooLarge,
    PendingEventsFull,
    WorkflowNotFound,
    WorkflowTerminated,
)
from durable.model.error_codec import pack_error
from durable.model.records import EntryStatus, ParkReason
from durable.runner.events import EventOp, EventSend
from durable.runner.fibers import WaitCondition

_SENT = "null"
# What a sender is told, be it a client or a body.
REFUSALS = (CodecError, EventTypeMismatch, PayloadTooLarge, PendingEventsFull, WorkflowNotFound, WorkflowTerminated)


def check_send(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """A body sends an event. It is sent after every wait was looked at, so that it overtakes no pending event."""
    turn.messages.send(EventSent(loaded.record.key, wait.position))


def send_from_body(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """Send an event for a body and let the body continue, or raise the refusal in it. By letter for another shard."""
    op = wait.op
    assert isinstance(op, EventSend)
    assert wait.input is not None, "the runner has packed the payload"
    operation = operation_of(op, wait.input)
    shard = turn.state.shard
    if shard.count > 1 and operation.home(shard.count) != shard.number:
        if not is_answered(turn, loaded, wait):
            turn.send(EventSubmitted(note_question(turn, loaded, wait, ""), operation))
        return
    if (problem := _own_problem(loaded, op)) is not None:
        park(turn, loaded.record, ParkReason.UNREADABLE, problem, wait.position)
        return
    status, outcome = EntryStatus.OK, _SENT
    try:
        send(turn, *accept(turn, operation))
    except REFUSALS as refusal:
        if isinstance(refusal, PendingEventsFull) and _is_awaited_later(turn, operation):
            put_off_one(turn, EventSent(loaded.record.key, wait.position))
            return
        status, outcome = EntryStatus.ERROR, pack_error(refusal)
    # Another branch of the same workflow may have taken the event, and may have ended this branch or the workflow.
    if turn.state.loaded.get(loaded.record.key) is loaded and loaded.session.waits.get(wait.position) is wait:
        feed(turn, loaded, wait, status, outcome)


def send_for(turn: Turn, message: EventSubmitted) -> None:
    """Send an event for a body of another shard, and answer whether it was accepted."""
    error: str | None = None
    try:
        send(turn, *accept(turn, message.operation))
    except REFUSALS as refusal:
        error = pack_error(refusal)
    turn.send(SendAnswered(message.wait, error))


def operation_of(op: EventSend, payload: str) -> SendEvent:
    """The operation with which a client would send the same event."""
    event = op.event
    return SendEvent(
        name=event.name,
        event_key=op.key,
        payload=payload,
        to=op.to,
        consume=event.consume_on_read,
        expire_after=event.expire_after_us,
        payload_type=event.payload_type,
    )


def _own_problem(loaded: Loaded, op: EventSend) -> str | None:
    """Why another branch of the sender cannot take this event: the payload type in its code cannot be stored.

    Then the workflow is parked before it sends. If its own event parked it, it would send that event again once its
    code is repaired.
    """
    for row in loaded.rows.values():
        if (row.name, row.event_key) == (op.event.name, op.key):
            wait = loaded.session.waits[row.position]
            assert isinstance(wait.op, EventOp), "its row says that it waits for an event"
            try:
                loaded.session.coder_of(wait.op)
            except CodecError as error:
                return str(error)
    return None


def _is_awaited_later(turn: Turn, operation: SendEvent) -> bool:
    """Whether a wait for this event was put off. Once that wait is looked at, the event may need no room."""
    target = None if operation.to is None else turn.state.find(operation.to)
    keys = turn.state.put_off if target is None else (target.key,)
    waiting = (row for key in keys for row in waits_put_off(turn, key))
    return any((row.name, row.event_key) == (operation.name, operation.event_key) for row in waiting)


def reoffer(turn: Turn, message: EventMoved) -> None:
    """An event has lost its target: it becomes untargeted, under a new serial, and may wake a waiter at once."""
    if is_expired(turn, message.event):
        return
    # Its retention counts from now, because it may have been in the mailbox for years.
    again = attrs.evolve(message.event, serial=turn.state.next_serial(), target=None, since=turn.now, mark=None)
    takers = offer(turn, again)
    if takers == () and not turn.state.archive.is_buried(again):
        # Without a check for room: it was accepted before, and must not be lost to a limit that is reached now.
        turn.state.post.put_event(again)

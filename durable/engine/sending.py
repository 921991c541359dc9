"""Pure decisions: a workflow sends an event itself, or an event that has lost its target looks for another.

First it is checked, as that of a client is, and what is wrong is raised in the body. Then the body goes on, and its
event follows as a message in the same decision. So both are one commit: replay never sends it again, and no crash comes
between. The body goes on first because its event may be for another of its own branches, and may even end it.
"""

from __future__ import annotations

import attrs

from durable.engine.delivery import accept, check_room, deliver, is_awaited, offer
from durable.engine.endings import give_up_mail
from durable.engine.messages import EventMoved, EventSent
from durable.engine.operations import SendEvent
from durable.engine.progress import feed
from durable.engine.state.bodies import Loaded
from durable.engine.turn import Turn
from durable.errors import CodecError, PayloadTooLarge, PendingEventsFull, WorkflowNotFound, WorkflowTerminated
from durable.event_errors import EventTypeMismatch
from durable.outcomes import pack_error
from durable.records import EntryStatus
from durable.runner.events import EventSend
from durable.runner.fibers import WaitCondition

_SENT = "null"
# What a sender is told, be it a client or a body.
_REFUSALS = (CodecError, EventTypeMismatch, PayloadTooLarge, PendingEventsFull, WorkflowNotFound, WorkflowTerminated)


def check_send(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """Accept what a body sends, and let it go on; or raise in it why that cannot be sent."""
    op = wait.op
    assert isinstance(op, EventSend)
    assert wait.input is not None, "the runner has packed the payload"
    event = op.event
    try:
        sent, target = accept(
            turn,
            SendEvent(
                name=event.name,
                event_key=op.key,
                payload=wait.input,
                to=op.to,
                consume=event.consume_on_read,
                expire_after=event.expire_after_us,
                payload_type=event.payload_type,
            ),
        )
        if not (sent.consume and is_awaited(turn, sent, target)):
            check_room(turn, sent, target)
    except _REFUSALS as problem:
        feed(turn, loaded, wait, EntryStatus.ERROR, pack_error(problem))
        return
    turn.messages.send(EventSent(sent))
    feed(turn, loaded, wait, EntryStatus.OK, _SENT)


def arrive(turn: Turn, message: EventSent) -> None:
    """Deliver or keep what a body has sent. Its target may have ended since, in this very decision."""
    event = message.event
    target = None if event.target is None else turn.state.by_key(event.target)
    if target is not None and target.status.is_terminal:
        give_up_mail(turn, target, target.status, [event])
    elif not deliver(turn, event, target) and event.consume and not turn.state.archive.is_buried(event):
        # There was room, or somebody waited for it: it is not refused for being one too many.
        turn.state.post.put_event(event)


def reoffer(turn: Turn, message: EventMoved) -> None:
    """An event has lost its target: it becomes untargeted, under a new number, and may wake a waiter at once."""
    # Its retention counts from now: it may have waited in the mailbox for years.
    again = attrs.evolve(message.event, serial=turn.state.next_serial(), target=None, since=turn.now)
    if not offer(turn, again) and not turn.state.archive.is_buried(again):
        # Whether there is room is not asked: it was accepted before, and must not be lost to a limit of today.
        turn.state.post.put_event(again)

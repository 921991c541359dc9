"""An untargeted event goes from its home to a workflow of another shard, and comes back if that cannot take it.

`guests` explains how the waits of other shards are registered. The functions here handle the letters: the first part in
the home of the event, the second part in the shard of the workflow.
"""

from __future__ import annotations

import attrs

from durable.engine.decide.body import load
from durable.engine.decide.dead_letters import bury_for_guest
from durable.engine.decide.elsewhere import change_row, row_of
from durable.engine.decide.events import drop, is_expired, offer, take
from durable.engine.decide.guests import guest_fits, hand_out, register_wait
from durable.engine.decide.long_decisions import is_put_off
from durable.engine.decide.turn import Turn
from durable.engine.operations.messages import EventOffered, EventReturned, Misfit, WaitRegistered
from durable.engine.state.workflows import Loaded
from durable.errors import CodecError, InvariantViolated
from durable.model.records import EventWait, Guest, PendingEvent, WorkflowStatus

# --- the home of the event ------------------------------------------------------------------------------------------


def register_guest(turn: Turn, message: WaitRegistered) -> None:
    """A workflow of another shard waits for an event: offer it the first pending event that fits, or store its row."""
    state, wait = turn.state, message.wait
    before = state.waits.at(wait.key, wait.position)
    if before is not None and before.guest is not None and before.guest.serial == wait.serial:
        raise InvariantViolated(f"{wait} was registered twice")
    rank = message.registration.rank or state.next_serial()
    registration = attrs.evolve(message.registration, rank=rank)
    row = EventWait(
        workflow_key=wait.key,
        position=wait.position,
        name=message.name,
        event_key=message.event_key,
        mode=message.mode,
        serial=rank,
        since=turn.now,
        guest=Guest(serial=wait.serial, registration=registration, cursor=message.cursor),
    )
    for event in state.post.events_for(row.name, row.event_key, None, seen=message.cursor):
        if is_expired(turn, event):
            drop(turn, [event])
        elif guest_fits(row, event):
            hand_out(turn, row, event)
            return
    state.waits.put(row)


def take_back(turn: Turn, message: EventReturned) -> None:
    """An event that was offered to a guest comes back: offer it to the next wait, or put it back into its old place."""
    event = message.event
    if message.unreadable_by is not None:
        bury_for_guest(turn, event, message.unreadable_by)
    elif not is_expired(turn, event) and offer(turn, event) == () and not turn.state.archive.is_buried(event):
        # Without a check for room: the event was accepted before.
        turn.state.post.put_event(event)


# --- the shard of the workflow --------------------------------------------------------------------------------------


def take_offer(turn: Turn, message: EventOffered) -> None:
    """An event was offered to a wait of this shard: feed it, or give it back. If it expired on the way, drop it."""
    event, row = message.event, row_of(turn, message.wait)
    if row is None or (row.name, row.event_key) != (event.name, event.event_key):
        _give_back(turn, event)
        return
    record = turn.state.by_key(row.workflow_key)
    assert record is not None, "it has a wait"
    # An event that expires when it is sent is for waits that are open at that moment. It found one, so it still counts.
    has_expired = is_expired(turn, event) and event.expires_at != event.sent_at
    is_seen = not event.consume and event.serial <= turn.state.archive.seen(record, event.name, event.event_key)
    if has_expired or is_seen:
        row = attrs.evolve(row, unregistered=message.registration)
        change_row(turn, row)
        register_wait(turn, record, row)
        return
    loaded = None if record.status is WorkflowStatus.PARKED else load(turn, record)
    # Loading runs new code, which may wait for something else.
    row = row_of(turn, message.wait)
    if row is None:
        _give_back(turn, event)
        return
    # The offer has used up the registration, so there is none to withdraw.
    row = attrs.evolve(row, unregistered=message.registration)
    change_row(turn, row)
    if loaded is None:
        _give_back(turn, event)
    elif turn.state.put_off and is_put_off(turn, row):
        # The mailbox comes first. The wait is looked at in the next batch, and registers again then.
        _give_back(turn, event)
    else:
        _feed_offer(turn, loaded, row, event)


def _feed_offer(turn: Turn, loaded: Loaded, row: EventWait, event: PendingEvent) -> None:
    record, wait = loaded.record, loaded.session.waits[row.position]
    answer = take(turn, loaded, wait, event)
    if answer is False:
        # The workflow was parked.
        _give_back(turn, event)
    elif isinstance(answer, CodecError):
        turn.send(EventReturned(event, Misfit(record.id, record.name, row.position, str(answer))))
        register_wait(turn, record, row)


def _give_back(turn: Turn, event: PendingEvent) -> None:
    """Send the event back to its home. A broadcast has never left it."""
    if event.consume:
        turn.send(EventReturned(event))

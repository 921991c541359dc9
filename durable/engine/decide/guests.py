"""Waits for untargeted events whose home is another shard: how they are registered there, and which events they get.

The home of a name and key holds the queue of events and the line of waits: those of its own workflows, and *guests*,
which are waits of other shards, registered by letter. An event is offered to a guest in a letter, and comes back if it
cannot be taken. So an event that is taken once is always in exactly one place: the queue, a letter, a history, or the
dead letters.

**An offer uses up the registration.** If the wait is still open afterwards, its shard registers it again in the same
commit, and it gets its old place in the line. A parked workflow gives the event back, and registers again when it runs.

The first half of this file runs in the shard of the workflow, the second half in the home of the event.
"""

from __future__ import annotations

import attrs

from durable.engine.decide.elsewhere import change_row
from durable.engine.decide.turn import Turn
from durable.engine.operations.messages import EventOffered, WaitId, WaitRegistered
from durable.engine.state.workflows import Loaded
from durable.model.clock import SECOND
from durable.model.homes import event_home
from durable.model.records import (
    DeliveryMode,
    EntryKind,
    EventWait,
    PendingEvent,
    Registration,
    WorkflowRecord,
    WorkflowStatus,
)

# The registration of a new wait.
NOT_REGISTERED = Registration()
# How often to check whether a registration was handled, and for how long.
_POLL, _PATIENCE = SECOND // 4, 30 * SECOND


# --- the shard of the workflow --------------------------------------------------------------------------------------


def is_home(turn: Turn, name: str, event_key: str) -> bool:
    """Whether this shard holds the queue of untargeted events of this name and key, and the line of their waits."""
    shard = turn.state.shard
    return shard.count == 1 or event_home(name, event_key, shard.count) == shard.number


def register_wait(turn: Turn, record: WorkflowRecord, row: EventWait) -> None:
    """Register a wait in the home of its event. Does nothing if it is registered, or if its workflow is parked."""
    registration = row.unregistered
    if registration is None or record.status is WorkflowStatus.PARKED:
        return
    if registration.created_mark is None and row.mode is DeliveryMode.AFTER_CREATE:
        registration = attrs.evolve(registration, created_mark=turn.state.outbox.created_mark(record.key))
    message = WaitRegistered(
        wait=WaitId(row.workflow_key, row.position, row.serial),
        name=row.name,
        event_key=row.event_key,
        mode=row.mode,
        registration=registration,
        cursor=turn.state.archive.seen(record, row.name, row.event_key),
    )
    change_row(turn, attrs.evolve(row, unregistered=None))
    turn.state.outbox.confirmed.discard(message.wait)
    turn.send(message)


def hold_up(turn: Turn, loaded: Loaded) -> int | None:
    """Until when the timers of a workflow must not fire, because an event may be pending for it in another shard.

    A pending event wins over a time limit that has passed. So even `within(0)` must wait until the event's home has
    handled the registration, and until the offers that it sent have been read here. If no process owns the home, the
    timers fire after `_PATIENCE` all the same.
    """
    outbox, key, until = turn.state.outbox, loaded.record.key, None
    for row in loaded.rows.values():
        wait = (key, row.position, row.serial)
        if row.kind is not EntryKind.EVENT or row.unregistered is not None or wait in outbox.confirmed:
            continue
        home = event_home(row.name, row.event_key, turn.state.shard.count)
        if home == turn.state.shard.number:
            continue
        if not outbox.is_delivered(home):
            until = turn.now + _POLL
            break
        outbox.confirmed.add(wait)
        # Until the next batch, which reads the inbox again: an offer may be in it.
        until = turn.now + 1
    if until is None or turn.now - outbox.held_up.setdefault(key, turn.now) >= _PATIENCE:
        outbox.held_up.pop(key, None)
        return None
    return until


# --- the home of the event ------------------------------------------------------------------------------------------


def guest_fits(row: EventWait, event: PendingEvent) -> bool:
    """Whether a guest may take an event.

    Serials of different shards cannot be compared, so this compares the marks of commits. An event without a mark is
    from the open batch, and so newer than any letter.
    """
    assert row.guest is not None, "it waits in another shard"
    if not event.consume and event.serial <= row.guest.cursor:
        return False
    registration, mark = row.guest.registration, event.mark
    after = {DeliveryMode.AFTER_CREATE: registration.created_mark, DeliveryMode.AFTER_WAIT: registration.after_mark}
    return mark is None or mark > (after.get(row.mode) or 0)


def hand_out(turn: Turn, row: EventWait, event: PendingEvent) -> None:
    """Offer a pending event to a guest. The event leaves the queue; of a broadcast only a copy does."""
    post = turn.state.post
    current = post.current(event)
    if event.consume:
        post.drop_event(event)
    elif not current.taken:
        post.drop_event(current)
        post.put_event(attrs.evolve(current, taken=True))
    offer_guest(turn, row, event)


def offer_guest(turn: Turn, row: EventWait, event: PendingEvent) -> None:
    """Send an event to a guest, which uses up the guest's registration."""
    assert row.guest is not None, "it waits in another shard"
    turn.state.waits.drop(row.workflow_key, row.position)
    wait = WaitId(row.workflow_key, row.position, row.guest.serial)
    turn.send(EventOffered(wait, event, row.guest.registration))

"""Waits for untargeted events whose home is another shard: how they get into the line there, and who may take what.

The home of a name and key has the queue, and the line of those who wait: waits of its own workflows, and *guests*,
which are waits of other shards that were registered by letter. An event goes to a guest in a letter, and comes back if
it cannot be taken. So an event that one workflow takes is in exactly one place: the queue, a letter, a history, or
among the dead letters.

**An offer uses up the registration.** If the wait is still open afterwards, its shard registers it again in the same
commit, at its first place in the line. A parked workflow gives the event back, and registers again when it runs.
"""

from __future__ import annotations

import attrs

from durable.engine.decide import router
from durable.engine.decide.elsewhere import change_row
from durable.engine.decide.turn import Turn
from durable.engine.operations.messages import EventOffered, WaitId, WaitRegistered
from durable.engine.state.bodies import Loaded
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

# A wait that is new.
NOT_REGISTERED = Registration()
# How often it is looked whether a registration was handled, and for how long.
_POLL, _PATIENCE = SECOND // 4, 30 * SECOND


# --- the shard of the workflow --------------------------------------------------------------------------------------


def is_home(turn: Turn, name: str, event_key: str) -> bool:
    """Whether untargeted events of this name and key meet those who wait for them in this shard."""
    shard = turn.state.shard
    return shard.count == 1 or event_home(name, event_key, shard.count) == shard.number


def register_wait(turn: Turn, record: WorkflowRecord, row: EventWait) -> None:
    """Register a wait in the home of its event, if it is not, and if its workflow could take an event."""
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
    router.send(turn, message)


def hold_up(turn: Turn, loaded: Loaded) -> int | None:
    """Until when the timers of a workflow must not fire, because an event may be pending for it elsewhere.

    What is pending comes before a limit that is over, so `within(0)` must hear from the home of the event: the
    registration was handled there, and whatever was offered has been read since. A home that nobody owns holds nobody
    up for longer than `_PATIENCE`.
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
        # In the next batch the inbox is read again.
        until = turn.now + 1
    if until is None or turn.now - outbox.held_up.setdefault(key, turn.now) >= _PATIENCE:
        outbox.held_up.pop(key, None)
        return None
    return until


# --- the home of the event ------------------------------------------------------------------------------------------


def guest_fits(row: EventWait, event: PendingEvent) -> bool:
    """Whether a guest may take an event. One of the open batch is newer than any letter."""
    assert row.guest is not None, "it waits in another shard"
    if not event.consume and event.serial <= row.guest.cursor:
        return False
    registration, mark = row.guest.registration, event.mark
    after = {DeliveryMode.AFTER_CREATE: registration.created_mark, DeliveryMode.AFTER_WAIT: registration.after_mark}
    return mark is None or mark > (after.get(row.mode) or 0)


def hand_out(turn: Turn, row: EventWait, event: PendingEvent) -> None:
    """Offer an event that is pending to a guest. It leaves the queue; of a broadcast a copy does."""
    post = turn.state.post
    current = post.current(event)
    if event.consume:
        post.drop_event(event)
    elif not current.taken:
        post.drop_event(current)
        post.put_event(attrs.evolve(current, taken=True))
    offer_guest(turn, row, event)


def offer_guest(turn: Turn, row: EventWait, event: PendingEvent) -> None:
    """Send an event to a guest, whose registration is used up by that."""
    assert row.guest is not None, "it waits in another shard"
    turn.state.waits.drop(row.workflow_key, row.position)
    wait = WaitId(row.workflow_key, row.position, row.guest.serial)
    router.send(turn, EventOffered(wait, event, row.guest.registration))

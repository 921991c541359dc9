"""The rows of waits, and what other shards know of them.

A wait for an event, for a person or for the end of a spawned child has a row while it is open, so that its answer finds
it. If another shard holds a copy of the wait, it gets a letter when the wait is over.

**Questions to another shard.** A question is stored as a row of the wait, in the commit that sends it: *the row is the
memory of what was sent*, so nothing is sent twice when a body is rebuilt. The row's serial is part of the wait's name
(`WaitId`), which every answer repeats. `retry` and `continue_as` drop the rows, so late answers to old questions are
ignored. An answer is put into the row, and then the wait is looked at like any other. If the workflow is parked, the
answer stays in the row until the body can be rebuilt.

**Guests.** An untargeted event belongs to the shard of its name and key, its *home*. The home holds the queue of events
and the line of waits: those of its own workflows, and *guests*, which are waits of other shards, registered by letter.
An event is offered to a guest in a letter, and comes back if it cannot be taken. So an event that is taken once is
always in exactly one place: the queue, a letter, a history, or the dead letters.

An offer uses up the registration. If the wait is still open afterwards, its shard registers it again in the same
commit, and it gets its old place in the line. A parked workflow gives the event back, and registers again when it runs.
"""

from __future__ import annotations

import json

import attrs

from durable.engine.decide.turn import Turn
from durable.engine.operations.messages import (
    Answer,
    CancelAnswered,
    ChildEnded,
    ChildStarted,
    EventOffered,
    LookAgain,
    SendAnswered,
    WaitId,
    WaitRegistered,
    WaitWithdrawn,
)
from durable.engine.state.events import END
from durable.engine.state.workflows import Loaded
from durable.model.clock import SECOND
from durable.model.homes import event_home, workflow_home
from durable.model.records import (
    DeliveryMode,
    EntryKind,
    EntryStatus,
    EventWait,
    PendingEvent,
    Registration,
    WorkflowRecord,
    WorkflowStatus,
)
from durable.runner.events import EventOp
from durable.runner.fibers import WaitCondition

# Precedes the id of the workflow that a question is about, so that it cannot be mistaken for the key of a child here.
_ABOUT = "@"
# The registration of a new wait.
NOT_REGISTERED = Registration()
# How often to check whether a registration was handled, and for how long.
_POLL, _PATIENCE = SECOND // 4, 30 * SECOND


# --- waits of this shard ----------------------------------------------------------------------------------------------


def register_event(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """A body waits for an event: store a row, so that the event finds the wait."""
    assert isinstance(wait.op, EventOp)
    event = wait.op.event
    turn.state.waits.note_type(event.name, event.payload_type)
    # If the event's home is another shard, the wait is registered there after its own mailbox was searched
    # (`events.check_events`).
    unregistered = None if is_home(turn, event.name, wait.op.key) else NOT_REGISTERED
    register(
        turn, loaded, wait.position,
        name=event.name, event_key=wait.op.key, mode=event.delivery_mode, unregistered=unregistered,
    )  # fmt: skip


def register(
    turn: Turn,
    loaded: Loaded,
    position: str,
    *,
    name: str,
    event_key: str,
    mode: DeliveryMode = DeliveryMode.ALL,
    unregistered: Registration | None = None,
) -> None:
    """Store the row of a wait, unless it has one for the same name and key already."""
    before = loaded.rows.get(position)
    if before is not None and (before.name, before.event_key) == (name, event_key):
        return
    if before is not None and turn.state.shard.count > 1:
        # Under new code the body waits for something else at this position.
        withdraw(turn, before)
    row = EventWait(
        workflow_key=loaded.record.key,
        position=position,
        name=name,
        event_key=event_key,
        mode=mode,
        serial=turn.state.next_serial(),
        since=turn.now,
        unregistered=unregistered,
    )
    loaded.rows[position] = row
    turn.state.waits.put(row)


def forget_wait(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """The body no longer waits: delete the row of the wait, if it has one."""
    forget(turn, loaded, wait.position)


def forget(turn: Turn, loaded: Loaded, position: str) -> None:
    """Delete the row at a position, if there is one, here and in the shard that holds a copy."""
    row = loaded.rows.pop(position, None)
    if row is not None:
        turn.state.waits.drop(loaded.record.key, position)
        if turn.state.shard.count > 1:
            withdraw(turn, row)


# --- questions to another shard ---------------------------------------------------------------------------------------


def note_question(turn: Turn, loaded: Loaded, wait: WaitCondition, about: str) -> WaitId:
    """Store a row for a wait that asks another shard. Returns the wait's name, for the question.

    `about` is the id of the workflow that the question is about; empty for an event that a body sends.
    """
    key = loaded.record.key
    row = EventWait(
        workflow_key=key,
        position=wait.position,
        name=END,
        event_key=f"{_ABOUT}{about}",
        serial=turn.state.next_serial(),
        since=turn.now,
        asks=wait.kind,
    )
    loaded.rows[wait.position] = row
    turn.state.waits.put(row)
    return WaitId(key, wait.position, row.serial)


def row_of(turn: Turn, wait: WaitId) -> EventWait | None:
    """The row of a wait of this shard; None if the wait is over."""
    loaded = turn.state.loaded.get(wait.key)
    row = turn.state.waits.at(wait.key, wait.position) if loaded is None else loaded.rows.get(wait.position)
    return None if row is None or row.serial != wait.serial or row.guest is not None else row


def change_row(turn: Turn, row: EventWait) -> None:
    """Replace the row of a wait of this shard, in memory and in the batch."""
    loaded = turn.state.loaded.get(row.workflow_key)
    if loaded is not None:
        loaded.rows[row.position] = row
    turn.state.waits.change(row)


def hear(turn: Turn, message: Answer) -> None:
    """Store an answer with its question, and have the wait looked at. Does nothing if the wait is over."""
    row = row_of(turn, message.wait)
    if row is not None and row.asks is not None:
        change_row(turn, attrs.evolve(row, answer=_outcome(message)))
        turn.messages.send(LookAgain(message.wait.key, message.wait.position))


def _outcome(message: Answer) -> tuple[EntryStatus, str]:
    """What an answer becomes in the history: the status and the outcome of the entry."""
    match message:
        case ChildEnded():
            return message.status, message.outcome
        case ChildStarted():
            return EntryStatus.OK, json.dumps(message.child_id)
        case CancelAnswered():
            return EntryStatus.OK, json.dumps(message.is_accepted)
        case SendAnswered(error=None):
            return EntryStatus.OK, "null"
        case _:
            return EntryStatus.ERROR, message.error or ""


def withdraw(turn: Turn, row: EventWait) -> None:
    """A wait is over: if another shard holds a copy of its row, tell that shard to drop it."""
    shards = turn.state.shard.count
    home: int | None = None
    turn.state.outbox.confirmed.discard((row.workflow_key, row.position, row.serial))
    if row.asks is EntryKind.RESULT and row.answer is None:
        home = workflow_home(row.event_key.removeprefix(_ABOUT), shards)
    elif row.kind is EntryKind.EVENT and row.unregistered is None:
        home = event_home(row.name, row.event_key, shards)
    if home is not None and home != turn.state.shard.number:
        turn.send_to(home, WaitWithdrawn(WaitId(row.workflow_key, row.position, row.serial)))


def forget_guest(turn: Turn, message: WaitWithdrawn) -> None:
    """A wait of another shard is over: drop its row here.

    An offer or an answer may be on its way there already. Its receiver sees that the wait is over.
    """
    key, position, serial = message.wait
    row = turn.state.waits.at(key, position)
    if row is not None and row.guest is not None and row.guest.serial == serial:
        turn.state.waits.drop(key, position)


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

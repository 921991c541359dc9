"""An event is sent: it goes to a wait, or is kept for one that begins later.

Two rules hold after every decision:

- No wait is open while an event that it may take is pending.
- No event is pending while a wait that may take it is open.

So `send` looks for waits before it keeps an event, and `check_events` looks for kept events as soon as a wait is open
(`kept_events`). Waits that were put off, and waits for events of other shards, catch up in a later decision (`timers`,
`waits`). An event that its waiter cannot read becomes a dead letter, and the waiter keeps waiting. As far as that can
be seen when the event is sent, the sender gets an error at once instead (`check_type`).

A targeted event goes to its workflow only, an untargeted one to the longest wait, a broadcast to every wait.
`DeliveryMode` may exclude events that were sent before the workflow was created or before the wait began.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import attrs

from durable.engine.decide.body import feed, load
from durable.engine.decide.endings import bury_unreadable, check_payload, park
from durable.engine.decide.facts import tell_taken
from durable.engine.decide.misspelt import look
from durable.engine.decide.named import with_settings
from durable.engine.decide.timers import is_put_off
from durable.engine.decide.turn import Turn
from durable.engine.decide.waits import guest_fits, hand_out, offer_guest
from durable.engine.operations import Delivered, Queued, SendEvent
from durable.engine.operations.facts import EventSent
from durable.engine.state.crashes import mark_reading
from durable.engine.state.workflows import Loaded
from durable.errors import (
    CodecError,
    EventConflict,
    EventTypeMismatch,
    PendingEventsFull,
    WorkflowNotFound,
    WorkflowTerminated,
)
from durable.model.ids import digest
from durable.model.records import (
    DeliveryMode,
    EntryStatus,
    EventWait,
    ParkReason,
    PendingEvent,
    SentEvent,
    TakenBroadcast,
    WorkflowRecord,
    WorkflowStatus,
)
from durable.runner.events import EventOp
from durable.runner.fibers import WaitCondition

# How many waiters may fail to read an untargeted event before it becomes a dead letter.
TRIES = 100


def decide_send_event(turn: Turn, op: SendEvent) -> Delivered | Queued:
    """Deliver or keep an event. A repeat of an event id gets the first reply, and nothing is sent."""
    if op.event_id is not None and (earlier := earlier_answer(turn, op)) is not None:
        return earlier
    event, target = accept(turn, with_settings(turn, op) if op.by_name else op)
    reply = send(turn, event, target)
    if op.event_id is not None:
        takers = "" if isinstance(reply, Queued) else json.dumps(reply.to)
        sent = SentEvent(event_id=op.event_id, digest=fingerprint(op), reply=takers, at=turn.now)
        turn.state.archive.put_sent(sent)
    return reply


def earlier_answer(turn: Turn, op: SendEvent) -> Delivered | Queued | None:
    """The first answer to an event id; None if it is new. Raises `EventConflict` if it was used for another event."""
    earlier = None if op.event_id is None else turn.state.archive.sent(op.event_id)
    if earlier is None:
        return None
    if earlier.digest != fingerprint(op):
        raise EventConflict(earlier.event_id)
    return Queued() if earlier.reply == "" else Delivered(_takers(turn, earlier))


def accept(turn: Turn, op: SendEvent) -> tuple[PendingEvent, WorkflowRecord | None]:
    """The event to send, and its target if that exists. Raises for mistakes of the sender.

    Room is checked later, because an event that is delivered at once needs none.
    """
    check_payload(turn, f"event {op.name}: payload", op.payload)
    target, unstarted = _address(turn, op)
    check_type(turn, op, target)
    event = PendingEvent(
        serial=turn.state.next_serial(),
        name=op.name,
        event_key=op.event_key,
        target=None if target is None else target.key,
        unstarted=unstarted,
        payload=op.payload,
        sent_at=turn.now,
        expires_at=None if op.expire_after is None else turn.now + op.expire_after,
        consume=op.consume or op.to is not None,
        trace=op.trace,
    )
    return event, target


def fingerprint(op: SendEvent) -> str:
    """What must be equal in a repeat of an event id: name, key, target and payload. Expiry does not count."""
    return digest(op.name, op.event_key, op.to or "", op.payload)


def _takers(turn: Turn, sent: SentEvent) -> tuple[str, ...]:
    """The ids of the workflows that got an event when it was first sent. Raises `CodecError`."""
    coder = turn.state.codec.coder(list[str], "the stored answer to an event id")
    return tuple(coder.unpack(sent.reply))


def _address(turn: Turn, op: SendEvent) -> tuple[WorkflowRecord | None, str | None]:
    """The mailbox for an event: a workflow, or an id that is not started yet; neither for an untargeted event."""
    if op.to is None:
        return None, None
    target = turn.state.find(op.to)
    if target is None:
        if not op.allow_unstarted:
            raise WorkflowNotFound(op.to)
        return None, op.to
    if target.status.is_terminal:
        raise WorkflowTerminated(target.id, target.status)
    return target, None


def send(turn: Turn, event: PendingEvent, target: WorkflowRecord | None) -> Delivered | Queued:
    """Deliver an event, or keep it. Raises `PendingEventsFull`."""
    reply = _deliver_or_keep(turn, event, target)
    if turn.state.is_observed:
        to = event.unstarted if target is None else target.id
        takers = len(reply.to) if isinstance(reply, Delivered) else 0
        turn.effects.append(EventSent(at_us=turn.now, event=event.name, to=to, takers=takers, trace=event.trace))
    return reply


def _deliver_or_keep(turn: Turn, event: PendingEvent, target: WorkflowRecord | None) -> Delivered | Queued:
    if not event.consume:
        # A broadcast is kept for later waits as well. Check first: if there is no room, no workflow may get it.
        _check_room(turn, event, target)
    takers = _deliver(turn, event, target)
    if takers is None:
        # On its way to a workflow of another shard, which may give it back.
        return Queued()
    if takers:
        return Delivered(takers)
    # An event that could not be read is a dead letter already.
    if event.consume and not turn.state.archive.is_buried(event):
        _check_room(turn, event, target)
        turn.state.post.put_event(event)
    look(turn, event)
    return Queued()


def _deliver(turn: Turn, event: PendingEvent, target: WorkflowRecord | None) -> tuple[str, ...] | None:
    """Give an event to a wait that fits. Returns the takers, as `offer` does. A broadcast is kept as well."""
    if target is not None:
        return _deliver_to(turn, target, event)
    if event.unstarted is not None:
        return ()
    if not event.consume:
        turn.state.post.put_event(event)
    return offer(turn, event)


def _check_room(turn: Turn, event: PendingEvent, target: WorkflowRecord | None) -> None:
    """Raise `PendingEventsFull` if there is no room to keep an event."""
    limit, post = turn.state.config.max_pending_events, turn.state.post
    mailbox = event.unstarted if target is None else target.id
    if mailbox is None:
        count = post.pending_count(event.name)
    else:
        count = post.pending_count(target=event.target, unstarted=event.unstarted)
    if count >= limit:
        raise PendingEventsFull(event.name, limit, mailbox)


def offer(turn: Turn, event: PendingEvent) -> tuple[str, ...] | None:
    """Give an untargeted event to the longest wait, or a broadcast to all waits. Returns the ids of the takers.

    Waits that cannot read the event are skipped; if no other wait takes it, it becomes a dead letter. Returns None if
    the event is on its way to a workflow of another shard.
    """
    takers: dict[int, str] = {}
    misfits: dict[int, tuple[WorkflowRecord, EventWait, str]] = {}
    for row in turn.state.waits.find_waiting_for_event(event.name, event.event_key):
        key = row.workflow_key
        if row.guest is not None:
            # Of a broadcast each wait of one workflow is offered a copy: which of them is open still is known there.
            if guest_fits(row, event):
                if event.consume:
                    offer_guest(turn, row, event)
                    return None
                hand_out(turn, row, event)
            continue
        # A body that has just taken or skipped the broadcast may already wait for the next one.
        record = None if key in takers or key in misfits else turn.state.readable(key)
        if record is None or not _fits(record, row, event):
            continue
        answer = _hand_over(turn, record, row, event)
        if isinstance(answer, CodecError):
            misfits[key] = (record, row, str(answer))
        elif answer:
            takers[key] = record.id
        if event.consume and (takers or len(misfits) >= TRIES):
            break
    if misfits and not (event.consume and takers):
        _bury(turn, event, next(iter(misfits.values())))
    return tuple(takers.values())


def _bury(turn: Turn, event: PendingEvent, misfit: tuple[WorkflowRecord, EventWait, str]) -> None:
    record, row, problem = misfit
    bury_unreadable(turn, record, row, event, problem)


def _deliver_to(turn: Turn, target: WorkflowRecord, event: PendingEvent) -> tuple[str, ...]:
    """Give a targeted event to the longest wait of its workflow that can read it."""
    loaded = turn.state.touch(target.key)
    rows = loaded.rows if loaded is not None else turn.state.waits.of(target.key)
    record: WorkflowRecord | None = target
    misfit: tuple[WorkflowRecord, EventWait, str] | None = None
    for row in matching(rows.values(), event.name, event.event_key):
        if record is None or not _fits(record, row, event):
            continue
        answer = _hand_over(turn, record, row, event)
        if isinstance(answer, CodecError):
            misfit = misfit or (record, row, str(answer))
        elif answer:
            return (target.id,)
        # This hand-over may have parked or ended the workflow.
        record = turn.state.by_key(target.key)
    if misfit is not None:
        _bury(turn, event, misfit)
    return ()


def _hand_over(turn: Turn, record: WorkflowRecord, row: EventWait, event: PendingEvent) -> bool | CodecError:
    """Feed an event to a wait. False if the wait cannot take any event now; the error if it cannot read this one."""
    loaded = load(turn, record)
    if loaded is None:
        return False
    if turn.state.put_off and is_put_off(turn, row):
        # An earlier event may be pending for this wait, which is looked at in the next batch.
        return False
    wait, current = loaded.session.waits.get(row.position), loaded.rows.get(row.position)
    # Under new code the body may wait for something else at this position.
    return wait is not None and (current is row or current == row) and take(turn, loaded, wait, event)


def take(turn: Turn, loaded: Loaded, wait: WaitCondition, event: PendingEvent) -> bool | CodecError:
    """Decode an event and feed it to a wait. Returns what `_hand_over` returns; nothing changes before decoding."""
    assert isinstance(wait.op, EventOp), "its row says that it waits for an event"
    try:
        coder = wait.op.event.coder(turn.state.codec)
    except CodecError as error:
        # The payload type itself cannot be stored, so this is a bug in the code and not in the event.
        park(turn, loaded.record, ParkReason.UNREADABLE, str(error), wait.position)
        return False
    if not event.consume:
        # Before the body is stepped: its next wait must not take or skip the same broadcast again.
        _pass_by(turn, loaded.record, event)
    mark_reading(turn.state.mark, loaded.record.key, wait.position, event.payload)
    try:
        value = coder.unpack(event.payload)
    except CodecError as error:
        return error
    if not event.consume and turn.state.shard.owns_key(event.serial):
        mark_taken(turn, event)
    before = len(turn.effects)
    is_taken = feed(turn, loaded, wait, EntryStatus.OK, event.payload, value=value)
    if is_taken and turn.state.is_observed:
        tell_taken(turn, loaded.record, event, wait.position, before)
    return is_taken


def mark_taken(turn: Turn, event: PendingEvent) -> None:
    """A workflow takes a broadcast, which from now on no longer counts as pending."""
    # Another workflow may have taken it in this batch.
    current = turn.state.post.current(event)
    if not current.taken:
        turn.state.post.drop_event(current)
        turn.state.post.put_event(attrs.evolve(current, taken=True))


def _pass_by(turn: Turn, record: WorkflowRecord, event: PendingEvent) -> None:
    """Remember that a workflow has taken or skipped a broadcast, so that it never sees it again."""
    archive = turn.state.archive
    if record.cursors:
        # Older stores kept this in the row of the workflow, which grew with every key. Move it.
        for taken in archive.taken_by(record):
            archive.put_taken(taken)
        turn.state.workflows.forget_cursors(record)
    archive.put_taken(
        TakenBroadcast(workflow_key=record.key, name=event.name, event_key=event.event_key, serial=event.serial)
    )


def drop(turn: Turn, events: Sequence[PendingEvent]) -> None:
    """Remove pending events, and forget which workflows took the removed broadcasts."""
    post = turn.state.post
    for event in events:
        post.drop_event(event)
    for name, event_key in {(event.name, event.event_key) for event in events if not event.consume}:
        oldest = next(post.broadcasts(name, event_key), None)
        turn.state.archive.forget_taken(name, event_key, oldest)


def is_expired(turn: Turn, event: PendingEvent) -> bool:
    """Whether an event is too old for a wait that begins now."""
    return event.expires_at is not None and event.expires_at <= turn.now


def _fits(record: WorkflowRecord, row: EventWait, event: PendingEvent) -> bool:
    """Whether this wait may take this event."""
    if record.status is WorkflowStatus.PARKED or record.status.is_terminal:
        return False
    return event.serial > takes_after(record, row)


def takes_after(record: WorkflowRecord, row: EventWait) -> int:
    """The serial after which a wait may take events."""
    return {DeliveryMode.AFTER_CREATE: record.key, DeliveryMode.AFTER_WAIT: row.serial}.get(row.mode, 0)


# --- can its waiters read it? -----------------------------------------------------------------------------------------


def check_type(turn: Turn, op: SendEvent, target: WorkflowRecord | None) -> None:
    """Raise `EventTypeMismatch` if every waiter that would get the event is in memory and cannot read it.

    The payload decides, not the names of the types: two types may look different and have the same JSON. If a waiter is
    not in memory, it may be able to read the event, so the event is accepted.
    """
    waits = turn.state.waits
    types = waits.awaited.get(op.name)
    if op.payload_type is None or types is None or op.payload_type in types:
        return
    rows: Iterable[EventWait] = waits.find_waiting_for_event(op.name, op.event_key)
    if op.to is not None:
        loaded = None if target is None else turn.state.loaded.get(target.key)
        rows = () if loaded is None else matching(loaded.rows.values(), op.name, op.event_key)
    problem: EventTypeMismatch | None = None
    for row in islice(rows, TRIES):
        owner = turn.state.loaded.get(row.workflow_key)
        wait = None if owner is None else owner.session.waits.get(row.position)
        misfit = None if owner is None or wait is None else _misfit(turn, op, owner, wait)
        if misfit is None:
            return
        problem = problem or misfit
    if problem is not None:
        raise problem


def _misfit(turn: Turn, op: SendEvent, owner: Loaded, wait: WaitCondition) -> EventTypeMismatch | None:
    """Why a wait cannot read an event; None if it can, or if its own type is the problem."""
    assert isinstance(wait.op, EventOp), "its row says that it waits for an event"
    event = wait.op.event
    try:
        coder = event.coder(turn.state.codec)
    except CodecError:
        return None
    mark_reading(turn.state.mark, owner.record.key, wait.position, op.payload)
    try:
        coder.unpack(op.payload)
    except CodecError as error:
        types = (_type_name(op.payload_type), _type_name(event.payload_type))
        return EventTypeMismatch(op.name, *types, owner.record.id, error.problem)
    return None


def _type_name(kind: Any) -> str:
    if not isinstance(kind, type):
        return repr(kind)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def matching(rows: Iterable[EventWait], name: str, event_key: str) -> list[EventWait]:
    """The waits that are for an event of this name and key, the longest first."""
    matches = [row for row in rows if row.name == name and row.event_key == event_key]
    if len(matches) > 1:
        matches.sort(key=lambda row: row.serial)
    return matches

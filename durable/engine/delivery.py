"""Pure decisions: events find those who wait for them, or are kept.

A wait is never registered while an event that it may take is pending, and an event is never kept while somebody waits
who may take it; both are looked up in the decision that would break the rule.
"""

from __future__ import annotations

import json

from durable.backends.base import Letters, Sent, StaleEvents
from durable.clock import from_duration
from durable.codec import payload_size
from durable.engine.operations import (
    Delivered,
    Follow,
    ListLetters,
    Queued,
    RemoveLetter,
    ReplayLetter,
    SendEvent,
    SweepEvents,
)
from durable.engine.progress import feed, load
from durable.engine.state import Loaded
from durable.engine.turn import Turn
from durable.errors import (
    DeadLetterNotFound,
    EventConflict,
    PayloadTooLarge,
    PendingEventsFull,
    WorkflowNotFound,
    WorkflowTerminated,
)
from durable.ids import digest
from durable.records import (
    DeadLetter,
    DeliveryMode,
    EntryStatus,
    EventWait,
    PendingEvent,
    SentEvent,
    WorkflowRecord,
    WorkflowStatus,
)
from durable.runner.fibers import WaitCondition


def decide_send_event(turn: Turn, op: SendEvent) -> Delivered | Queued:
    """Deliver or keep an event; the same event id again gets the first answer."""
    state = turn.state
    limit = state.config.max_payload_bytes
    if (size := payload_size(op.payload)) > limit:
        raise PayloadTooLarge(f"event {op.name}: payload", size, limit)
    if op.event_id is not None and (known := state.post.sent(op.event_id)) is not None:
        if known.digest != _fingerprint(op):
            raise EventConflict(op.event_id)
        return Queued() if known.reply == "" else Delivered(_takers(turn, known))
    target, unstarted = _address(turn, op)
    event = PendingEvent(
        serial=state.next_serial(),
        name=op.name,
        event_key=op.event_key,
        target=None if target is None else target.key,
        unstarted=unstarted,
        payload=op.payload,
        sent_at=turn.now,
        expires_at=None if op.expire_after is None else turn.now + op.expire_after,
        consume=op.consume or op.to is not None,
    )
    reply = _send(turn, event, target)
    if op.event_id is not None:
        told = "" if isinstance(reply, Queued) else json.dumps(reply.to)
        sent = SentEvent(event_id=op.event_id, digest=_fingerprint(op), reply=told, at=turn.now)
        state.batch.sent_put[op.event_id] = sent
    return reply


def _fingerprint(op: SendEvent) -> str:
    return digest(op.name, op.event_key, op.to or "", op.payload)


def _takers(turn: Turn, known: SentEvent) -> tuple[str, ...]:
    """Who got an event when it was first sent. Raises `CodecError`."""
    coder = turn.state.codec.coder(list[str], "the stored answer to an event id")
    return tuple(coder.unpack(known.reply))


def _address(turn: Turn, op: SendEvent) -> tuple[WorkflowRecord | None, str | None]:
    """Whose mailbox: a workflow's, that of an id that is not started yet, or nobody's."""
    if op.to is None:
        return None, None
    target = turn.state.find(op.to)
    if target is None:
        if not op.allow_unstarted:
            raise WorkflowNotFound(op.to)
        return None, op.to
    if target.status.is_terminal:
        raise WorkflowTerminated(target.id, target.status.value)
    return target, None


def _send(turn: Turn, event: PendingEvent, target: WorkflowRecord | None) -> Delivered | Queued:
    if target is not None:
        if _deliver_to(turn, target, event):
            return Delivered((target.id,))
    elif event.unstarted is None:
        if not event.consume:
            # A broadcast stays for those who come later. It is kept first: if there is no room, nobody gets it.
            keep(turn, event)
        takers = offer(turn, event)
        if takers or not event.consume:
            return Delivered(takers) if takers else Queued()
    keep(turn, event)
    return Queued()


def keep(turn: Turn, event: PendingEvent) -> None:
    """Store an event until it is taken. Raises `PendingEventsFull`."""
    limit = turn.state.config.max_pending_events
    if turn.state.post.pending_count(event.name) >= limit:
        raise PendingEventsFull(event.name, limit)
    turn.state.post.put_event(event)


def offer(turn: Turn, event: PendingEvent) -> tuple[str, ...]:
    """Give an untargeted event to the one that has waited longest, or a broadcast to all; who got it."""
    if _expired(turn, event):
        return ()
    takers: list[str] = []
    for row in turn.state.post.find_waiting_for_event(event.name, event.event_key):
        record = turn.state.readable(row.workflow_key)
        if record is None or not _fits(record, row, event):
            continue
        if _hand_over(turn, record, row, event):
            takers.append(record.id)
            if event.consume:
                break
    return tuple(takers)


def _deliver_to(turn: Turn, target: WorkflowRecord, event: PendingEvent) -> bool:
    """Give a targeted event to the longest wait of its workflow."""
    loaded = turn.state.touch(target.key)
    rows = loaded.rows if loaded is not None else turn.state.post.waits_of(target.key)
    matching = [row for row in rows.values() if row.name == event.name and row.event_key == event.event_key]
    if len(matching) > 1:
        matching.sort(key=lambda row: row.serial)
    for row in matching:
        # Read again: an event that one wait cannot read parks the workflow.
        record = turn.state.by_key(target.key)
        if record is not None and _fits(record, row, event) and _hand_over(turn, record, row, event):
            return True
    return False


def _hand_over(turn: Turn, record: WorkflowRecord, row: EventWait, event: PendingEvent) -> bool:
    """Feed an event to a wait; False if the workflow turns out to be unable to take it."""
    loaded = load(turn, record)
    if loaded is None:
        return False
    wait, known = loaded.session.waits.get(row.position), loaded.rows.get(row.position)
    # Under new code the body may wait for something else at this position.
    return wait is not None and (known is row or known == row) and _take(turn, loaded, wait, event)


def _take(turn: Turn, loaded: Loaded, wait: WaitCondition, event: PendingEvent) -> bool:
    if event.consume:
        return feed(turn, loaded, wait, EntryStatus.OK, event.payload)
    # Noted before the body goes on: its next wait must not take the same broadcast again.
    record = loaded.record
    others = tuple(row for row in record.cursors if row[:2] != (event.name, event.event_key))
    cursors = (*others, (event.name, event.event_key, event.serial))
    turn.state.put(record.with_status(record.status, cursors=cursors), record)
    if feed(turn, loaded, wait, EntryStatus.OK, event.payload):
        return True
    # The body could not take it and is parked; it gets the broadcast when its code can.
    parked = turn.state.by_key(record.key) or record
    turn.state.put(parked.with_status(parked.status, cursors=record.cursors), parked)
    return False


def check_events(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """A wait has begun: give it the first pending event that it may take, from the mailbox before the queue."""
    row = loaded.rows.get(wait.position)
    if row is None:
        return
    key = loaded.record.key
    for target in (key, None):
        if target is not None and loaded.mail == 0:
            continue
        for event in turn.state.post.events_for(row.name, row.event_key, target):
            if _expired(turn, event):
                turn.state.post.drop_event(event)
            elif _fits(loaded.record, row, event):
                _take_pending(turn, loaded, wait, event)
                return


def _take_pending(turn: Turn, loaded: Loaded, wait: WaitCondition, event: PendingEvent) -> None:
    """Take an event out of the mailbox or the queue, and feed it."""
    post = turn.state.post
    if not event.consume:
        _take(turn, loaded, wait, event)
        return
    # Before the body goes on: if this ends the workflow, what it has just taken must not be buried with its mail.
    post.drop_event(event)
    if not _take(turn, loaded, wait, event):
        post.put_event(event)


def _expired(turn: Turn, event: PendingEvent) -> bool:
    return event.expires_at is not None and event.expires_at <= turn.now


def _fits(record: WorkflowRecord, row: EventWait, event: PendingEvent) -> bool:
    """Whether this wait may take this event."""
    if record.status is WorkflowStatus.PARKED or record.status.is_terminal:
        return False
    if row.mode is DeliveryMode.AFTER_CREATE and event.serial <= record.key:
        return False
    if row.mode is DeliveryMode.AFTER_WAIT and event.serial <= row.serial:
        return False
    if event.consume:
        return True
    seen = next((row[2] for row in record.cursors if row[:2] == (event.name, event.event_key)), 0)
    return event.serial > seen


def adopt_mail(turn: Turn, record: WorkflowRecord) -> int:
    """A workflow is new: what was sent to its id before becomes its mailbox. How much that was."""
    state = turn.state
    kept = state.post.mailbox(unstarted=record.id) if state.post.pending_count(None) else []
    for event in kept:
        state.post.drop_event(event)
        state.post.put_event(
            PendingEvent(
                serial=event.serial,
                name=event.name,
                event_key=event.event_key,
                target=record.key,
                payload=event.payload,
                sent_at=event.sent_at,
                expires_at=event.expires_at,
            )
        )
    return len(kept)


def reoffer(turn: Turn, event: PendingEvent) -> Delivered | Queued:
    """An event has lost its target: it becomes untargeted, under a new number, and may wake a waiter at once."""
    again = PendingEvent(
        serial=turn.state.next_serial(),
        name=event.name,
        event_key=event.event_key,
        payload=event.payload,
        sent_at=event.sent_at,
        expires_at=event.expires_at,
    )
    takers = offer(turn, again)
    if takers:
        return Delivered(takers)
    # Not `keep`: it was accepted before, and a limit that is lower today must not lose it.
    turn.state.post.put_event(again)
    return Queued()


# --- dead letters -------------------------------------------------------------------------------------------------


def decide_list_letters(turn: Turn, op: ListLetters) -> list[DeadLetter]:
    """A page of dead letters."""
    return list(turn.state.backend.find(Letters(after=op.after, limit=op.limit)))


def decide_replay_letter(turn: Turn, op: ReplayLetter) -> Delivered | Queued:
    """Send a dead letter again; it wakes a waiter like any event."""
    letter = _letter(turn, op.letter_id)
    again = SendEvent(name=letter.name, event_key=letter.event_key, payload=letter.payload, to=op.to)
    reply = decide_send_event(turn, again)
    turn.state.post.drop_letter(letter.id)
    return reply


def decide_remove_letter(turn: Turn, op: RemoveLetter) -> None:
    """Forget a dead letter."""
    turn.state.post.drop_letter(_letter(turn, op.letter_id).id)


def _letter(turn: Turn, letter_id: int) -> DeadLetter:
    state = turn.state
    if (fresh := state.batch.letters_put.get(letter_id)) is not None:
        return fresh
    found = () if letter_id in state.batch.letters_dropped else state.backend.find(Letters(id=letter_id))
    if not found:
        raise DeadLetterNotFound(letter_id)
    return found[0]


def decide_sweep_events(turn: Turn, op: SweepEvents) -> int:
    """Remove what is too old; a mailbox keeps its events until its workflow ends."""
    state = turn.state
    oldest = turn.now - from_duration("event_retention", state.config.event_retention)
    stale = state.backend.find(StaleEvents(expired_at=turn.now, sent_before=oldest, limit=op.limit))
    for event in stale:
        # What this batch has dropped is gone, and what it has put was given a mailbox just now.
        if event.serial not in state.batch.events_dropped and event.serial not in state.batch.events_put:
            state.post.drop_event(event)
    sent = state.backend.find(Sent(before=oldest, limit=op.limit))
    state.batch.sent_dropped.update(row.event_id for row in sent)
    if max(len(stale), len(sent)) == op.limit:
        # There may be more: in a batch of its own, so that nobody waits for a great sweep.
        turn.effects.append(Follow(op))
    return len(stale) + len(sent)

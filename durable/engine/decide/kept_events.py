"""Pure decisions for operators: events that are pending, dead letters, and what is kept for too long."""

from __future__ import annotations

import logging

from durable.backends.base import Letters, Sent, StaleEvents
from durable.engine.decide import router
from durable.engine.decide.dead_letters import bury_forgotten
from durable.engine.decide.events import decide_send_event, drop, is_expired
from durable.engine.decide.sending import REFUSALS
from durable.engine.decide.turn import Turn
from durable.engine.operations import (
    Delivered,
    Follow,
    Queued,
    RemoveEvent,
    RemoveLetter,
    ReplayLetter,
    SendEvent,
    SweepEvents,
)
from durable.engine.operations.log_lines import Tell
from durable.engine.operations.messages import LetterRefused, LetterReplayed
from durable.errors import DeadLetterNotFound, EventNotFound
from durable.model.clock import from_duration
from durable.model.dead_letters import DeadLetter
from durable.model.records import PendingEvent

# --- pending events -----------------------------------------------------------------------------------------------


def decide_remove_event(turn: Turn, op: RemoveEvent) -> None:
    """Remove a pending event; nobody gets it any more."""
    event = turn.state.post.event(op.event_id)
    if event is None:
        raise EventNotFound(op.event_id)
    drop(turn, [event])


# --- dead letters -------------------------------------------------------------------------------------------------


def decide_replay_letter(turn: Turn, op: ReplayLetter) -> Delivered | Queued:
    """Send a dead letter again; it wakes a waiter like any event."""
    letter = _letter(turn, op.letter_id)
    again = SendEvent(
        name=letter.name,
        event_key=letter.event_key,
        payload=letter.payload_json,
        to=op.to,
        consume=not letter.is_broadcast,
    )
    shard = turn.state.shard
    if shard.count > 1 and router.home_of_send(again, shard.count) != shard.number:
        turn.state.archive.drop_letter(letter.id)
        router.send(turn, LetterReplayed(letter, again))
        return Queued()
    reply = decide_send_event(turn, again)
    turn.state.archive.drop_letter(letter.id)
    return reply


def replay_for(turn: Turn, message: LetterReplayed) -> None:
    """A dead letter of another shard is sent again; if it is refused it goes back."""
    try:
        decide_send_event(turn, message.operation)
    except REFUSALS:
        router.send(turn, LetterRefused(message.letter))


def keep_refused(turn: Turn, message: LetterRefused) -> None:
    """A dead letter that was refused elsewhere is kept again."""
    turn.state.archive.put_letter(message.letter)


def decide_remove_letter(turn: Turn, op: RemoveLetter) -> None:
    """Forget a dead letter."""
    turn.state.archive.drop_letter(_letter(turn, op.letter_id).id)


def _letter(turn: Turn, letter_id: int) -> DeadLetter:
    letter = turn.state.archive.letter(letter_id)
    if letter is None:
        raise DeadLetterNotFound(letter_id)
    return letter


# --- what is kept for too long ------------------------------------------------------------------------------------


def decide_sweep_events(turn: Turn, op: SweepEvents) -> int:
    """Remove what is too old; a mailbox keeps its events until its workflow ends.

    What has expired goes without a trace, as its sender asked. So does a broadcast that somebody has taken, or that
    is a dead letter already. Everything else becomes a dead letter.
    """
    state = turn.state
    oldest = turn.now - from_duration("event_retention", state.config.event_retention)
    found = state.backend.find(StaleEvents(expired_at=turn.now, since_before=oldest, limit=op.limit))
    # What this batch has dropped is gone, and what it has put was given a mailbox, or taken, just now.
    stale = [event for event in found if not state.post.is_touched(event)]
    drop(turn, stale)
    bury_forgotten(turn, [event for event in stale if not is_expired(turn, event) and not _is_done(turn, event)])
    sent = state.backend.find(Sent(before=oldest, limit=op.limit))
    state.archive.drop_sent(sent)
    letters = _sweep_letters(turn, op.limit)
    if max(len(found), len(sent), letters) == op.limit:
        # There may be more: in a batch of its own, so that nobody waits for a great sweep.
        turn.effects.append(Follow(op))
    return len(stale) + len(sent) + letters


def _is_done(turn: Turn, event: PendingEvent) -> bool:
    """Whether it is known what has become of an event, though it was still kept."""
    return not event.consume and (event.taken or turn.state.archive.letter(event.serial) is not None)


def _sweep_letters(turn: Turn, limit: int) -> int:
    """Forget the dead letters that were kept for as long as the options say; how many."""
    state = turn.state
    if state.config.dead_letter_retention is None:
        return 0
    before = turn.now - from_duration("dead_letter_retention", state.config.dead_letter_retention)
    old = state.backend.find(Letters(died_before=before, limit=limit))
    for letter in old:
        state.archive.drop_letter(letter.id)
    if old:
        text = f"{len(old)} dead letters were older than dead_letter_retention and are removed"
        turn.effects.append(Tell(logging.INFO, text, {}))
    return len(old)

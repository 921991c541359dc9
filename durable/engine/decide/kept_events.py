"""Events that are kept: a wait that begins takes one, an operator removes it, or the sweep does when it is too old.

And what operators do to dead letters, which are the events that no workflow will take (`endings`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from durable.backends.base import Letters, Sent, StaleEvents
from durable.engine.decide.endings import bury_forgotten, bury_unreadable
from durable.engine.decide.events import decide_send_event, drop, is_expired, take, takes_after
from durable.engine.decide.requests import sweep_answers
from durable.engine.decide.sending import REFUSALS
from durable.engine.decide.timers import is_behind, put_off_one
from durable.engine.decide.turn import Turn
from durable.engine.decide.waits import register_wait
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
from durable.engine.operations.messages import LetterRefused, LetterReplayed, LookAgain
from durable.engine.state.workflows import Loaded
from durable.errors import CodecError, DeadLetterNotFound, EventNotFound
from durable.model.clock import from_duration
from durable.model.dead_letters import DeadLetter
from durable.model.records import PendingEvent
from durable.runner.fibers import WaitCondition

# --- a wait begins ----------------------------------------------------------------------------------------------------


def check_events(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """A wait has begun: give it the first pending event that it may take, from the mailbox before the queue.

    If the queue is in another shard, the wait is registered there instead (`waits`).
    """
    row = loaded.rows.get(wait.position)
    if row is None:
        return
    post, key = turn.state.post, loaded.record.key
    # Events that it may not take are not even read: there may be thousands.
    after = takes_after(loaded.record, row)
    if loaded.mail is None:
        loaded.mail = post.pending_count(target=key)
    if loaded.mail and _take_first(turn, loaded, wait, post.events_for(row.name, row.event_key, key, after=after)):
        return
    if row.unregistered is not None:
        register_wait(turn, loaded.record, row)
    elif turn.state.put_off and is_behind(turn, row):
        put_off_one(turn, LookAgain(key, wait.position))
    elif post.has_untargeted(row.name):
        seen = turn.state.archive.seen(loaded.record, row.name, row.event_key)
        _take_first(turn, loaded, wait, post.events_for(row.name, row.event_key, None, after=after, seen=seen))


def _take_first(turn: Turn, loaded: Loaded, wait: WaitCondition, events: Iterable[PendingEvent]) -> bool:
    """Give a wait the first of these events that it can read. True if the wait is over or its workflow is parked."""
    row = loaded.rows[wait.position]
    for event in events:
        if is_expired(turn, event):
            drop(turn, [event])
            continue
        answer = _take_pending(turn, loaded, wait, event)
        if not isinstance(answer, CodecError):
            return True
        bury_unreadable(turn, loaded.record, row, event, str(answer))
    return False


def _take_pending(turn: Turn, loaded: Loaded, wait: WaitCondition, event: PendingEvent) -> bool | CodecError:
    """Take an event out of the mailbox or the queue, and feed it. If that parks the workflow, the event goes back."""
    if not event.consume:
        return take(turn, loaded, wait, event)
    post = turn.state.post
    # Before the body is stepped: if this event ends the workflow, it must not become a dead letter with the mail.
    post.drop_event(event)
    answer = take(turn, loaded, wait, event)
    if answer is False:
        post.put_event(event)
    return answer


# --- pending events -----------------------------------------------------------------------------------------------


def decide_remove_event(turn: Turn, op: RemoveEvent) -> None:
    """Remove a pending event without a trace. Raises `EventNotFound` if it was taken or removed before."""
    event = turn.state.post.event(op.event_id)
    if event is None:
        raise EventNotFound(op.event_id)
    drop(turn, [event])


# --- dead letters -------------------------------------------------------------------------------------------------


def decide_replay_letter(turn: Turn, op: ReplayLetter) -> Delivered | Queued:
    """Send the event of a dead letter again, and remove the letter. The event wakes a waiter like any other."""
    letter = _letter(turn, op.letter_id)
    again = SendEvent(
        name=letter.name,
        event_key=letter.event_key,
        payload=letter.payload_json,
        to=op.to,
        consume=not letter.is_broadcast,
    )
    shard = turn.state.shard
    if shard.count > 1 and again.home(shard.count) != shard.number:
        turn.state.archive.drop_letter(letter.id)
        turn.send(LetterReplayed(letter, again))
        return Queued()
    reply = decide_send_event(turn, again)
    turn.state.archive.drop_letter(letter.id)
    return reply


def replay_for(turn: Turn, message: LetterReplayed) -> None:
    """A dead letter of another shard is sent again; if it is refused it goes back."""
    try:
        decide_send_event(turn, message.operation)
    except REFUSALS:
        turn.send(LetterRefused(message.letter))


def keep_refused(turn: Turn, message: LetterRefused) -> None:
    """A dead letter that was refused elsewhere is kept again."""
    turn.state.archive.put_letter(message.letter)


def decide_remove_letter(turn: Turn, op: RemoveLetter) -> None:
    """Remove a dead letter. Raises `DeadLetterNotFound`."""
    turn.state.archive.drop_letter(_letter(turn, op.letter_id).id)


def _letter(turn: Turn, letter_id: int) -> DeadLetter:
    letter = turn.state.archive.letter(letter_id)
    if letter is None:
        raise DeadLetterNotFound(letter_id)
    return letter


# --- what is kept for too long ------------------------------------------------------------------------------------


def decide_sweep_events(turn: Turn, op: SweepEvents) -> int:
    """Remove pending events, senders' ids, answers to requests and dead letters that are too old. Returns how many.

    The mailbox of a workflow keeps its events until the workflow ends. An event past its own expiry is removed without
    a trace, as its sender asked. So is a broadcast that a workflow has taken, or that is a dead letter already. Every
    other event becomes a dead letter.
    """
    state = turn.state
    oldest = turn.now - from_duration("event_retention", state.config.event_retention)
    page = state.backend.find(StaleEvents(expired_at=turn.now, since_before=oldest, limit=op.limit))
    # An event that this batch has dropped is gone; one that it has put was taken, or given a mailbox, just now.
    stale = [event for event in page if not state.post.is_touched(event)]
    drop(turn, stale)
    bury_forgotten(turn, [event for event in stale if not is_expired(turn, event) and not _is_done(turn, event)])
    sent = state.backend.find(Sent(before=oldest, limit=op.limit))
    state.archive.drop_sent(sent)
    letters, answers = _sweep_letters(turn, op.limit), sweep_answers(turn, op.limit)
    if max(len(page), len(sent), letters, answers) == op.limit:
        # There may be more. Continue in another batch, so that a big sweep does not block callers.
        turn.effects.append(Follow(op))
    return len(stale) + len(sent) + letters + answers


def _is_done(turn: Turn, event: PendingEvent) -> bool:
    """Whether a broadcast was taken or is a dead letter already, so that its removal loses nothing."""
    return not event.consume and (event.taken or turn.state.archive.letter(event.serial) is not None)


def _sweep_letters(turn: Turn, limit: int) -> int:
    """Remove the dead letters that are older than `dead_letter_retention`. Returns how many."""
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

"""A letter from another shard is read, and its message is handled like a message from this shard.

The letter is deleted in the same commit as everything that follows from it, so it takes effect exactly once. The
handlers are here: first for children, whose parent lives in another shard, then for untargeted events, which go from
their home to a workflow of another shard and come back if that cannot take them. `waits` explains both.
"""

from __future__ import annotations

import logging

import attrs

from durable.engine.decide.body import load
from durable.engine.decide.cancel import cancel_workflow
from durable.engine.decide.children import close_children_here, is_child_of, reason_of, tell_or_note
from durable.engine.decide.endings import bury_for_guest
from durable.engine.decide.events import drop, is_expired, offer, take
from durable.engine.decide.start import store_workflow
from durable.engine.decide.timers import is_put_off
from durable.engine.decide.turn import Turn
from durable.engine.decide.waits import change_row, guest_fits, hand_out, register_wait, row_of
from durable.engine.operations.letters import read_message
from durable.engine.operations.log_lines import Tell
from durable.engine.operations.messages import (
    AwaitChild,
    CancelAnswered,
    CancelChild,
    ChildRefused,
    ChildStarted,
    EventOffered,
    EventReturned,
    Message,
    Misfit,
    ParentEnded,
    StartChild,
    WaitRegistered,
)
from durable.engine.operations.own import ReadLetter
from durable.engine.state.workflows import Loaded
from durable.errors import CodecError, InvariantViolated, NotSupported, WorkflowAlreadyExists, WorkflowNotFound
from durable.model.error_codec import pack_error
from durable.model.records import EventWait, Guest, PendingEvent, WorkflowRecord, WorkflowStatus


def decide_read_letter(turn: Turn, op: ReadLetter) -> None:
    """Pass the message of a letter to its handler. A letter that cannot be read is set aside, with an ERROR line.

    A letter may be unreadable because a newer version of durable wrote it. It must not block the letters behind it.
    """
    letter, outbox = op.letter, turn.state.outbox
    try:
        message = read_message(letter.text)
    except (NotSupported, CodecError) as problem:
        outbox.set_aside(letter.id)
        text = f"letter {letter.id.mark}.{letter.id.ordinal} from shard {letter.sender} is set aside: {problem}"
        turn.effects.append(Tell(logging.ERROR, text, {}))
        return
    outbox.handled(letter.id)
    turn.messages.send(_marked(message, letter.id.mark))


def _marked(message: Message, mark: int) -> Message:
    """The same message, with the mark of the commit that wrote the letter.

    The sender could not fill the mark in, because a batch has no mark before it is committed.
    """
    if isinstance(message, WaitRegistered):
        stated = message.registration
        after = mark if stated.after_mark is None else stated.after_mark
        created = mark if stated.created_mark is None else stated.created_mark
        registration = attrs.evolve(stated, after_mark=after, created_mark=created)
        return message._replace(registration=registration)
    if isinstance(message, EventOffered) and message.event.mark is None:
        # It was offered in the same commit in which it was sent.
        return message._replace(event=attrs.evolve(message.event, mark=mark))
    return message


# --- the shard of the child -------------------------------------------------------------------------------------------


def start_child(turn: Turn, message: StartChild) -> None:
    """Store a child that a workflow of another shard calls; its body runs after this commit.

    If the child exists already, because its parent was retried, it is not started again.
    """
    wait, id = message.wait, message.child_id
    try:
        child = turn.state.find(id)
    except CodecError as problem:
        turn.send(ChildRefused(wait, pack_error(problem)))
        return
    if child is None:
        child = store_workflow(
            turn, id, name=message.name, version=message.version, input=message.input, depth=message.depth,
            parent_key=wait.key, parent_place=message.place, on_parent_close=message.on_parent_close,
        )  # fmt: skip
    if (child.parent_key, child.parent_place) != (wait.key, message.place):
        turn.send(ChildRefused(wait, pack_error(WorkflowAlreadyExists(id, child.name))))
    elif message.on_parent_close is not None:
        turn.send(ChildStarted(wait, id))
    else:
        tell_or_note(turn, wait, child)


def await_child(turn: Turn, message: AwaitChild) -> None:
    """A workflow of another shard waits for a child that it, or a workflow that it was forked from, has spawned."""
    child = _asked_for(turn, message.child_id, message.wait.key, message.fork_sources)
    if isinstance(child, WorkflowRecord):
        tell_or_note(turn, message.wait, child)
    else:
        turn.send(ChildRefused(message.wait, pack_error(child)))


def cancel_for(turn: Turn, message: CancelChild) -> None:
    """A body of another shard cancels a child that it has spawned, and gets whether the child was still running."""
    assert message.wait is not None, "it waits for the answer"
    child = _asked_for(turn, message.child_id, message.parent_key, ())
    if isinstance(child, WorkflowRecord):
        is_accepted = cancel_workflow(turn, child, message.reason)
        turn.send(CancelAnswered(message.wait, is_accepted))
    else:
        turn.send(ChildRefused(message.wait, pack_error(child)))


def end_with_parent(turn: Turn, message: ParentEnded) -> None:
    """A workflow of another shard has ended: its children here end with it, except those that are kept.

    Letters keep their order, so every child that the workflow has asked for exists by then.
    """
    close_children_here(turn, message)


def _asked_for(
    turn: Turn, id: str, parent_key: int, fork_sources: tuple[str, ...]
) -> WorkflowRecord | CodecError | WorkflowNotFound:
    """The child with this id. An error if it is not a child of this parent or of a workflow that it was forked from."""
    try:
        child = turn.state.find(id)
    except CodecError as problem:
        return problem
    if child is None or not (child.parent_key == parent_key or is_child_of(turn, child, fork_sources)):
        return WorkflowNotFound(id)
    return child


def cancel_unawaited(turn: Turn, message: CancelChild) -> None:
    """Cancel a child because its parent has ended or no longer waits for it. From this shard or another."""
    try:
        child = turn.state.find(message.child_id)
    except CodecError:
        # A child whose row is damaged cannot be cancelled. That must not keep its parent from ending.
        return
    # A child id that user code has chosen may belong to an unrelated workflow.
    is_own = child is not None and (child.parent_key, child.parent_place) == (message.parent_key, message.place)
    # A child that is being cancelled may take its time to clean up: only a person or an explicit call cancels it again.
    if child is not None and is_own and not child.cancel_requested:
        cancel_workflow(turn, child, reason_of(message.cause, message.parent_id), message.cause)


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

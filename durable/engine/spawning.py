"""Pure decisions: a workflow spawns a child, waits for the end of one that it has spawned, or tells it to end."""

from __future__ import annotations

import json

from durable.engine.endings import park
from durable.engine.kinship import END
from durable.engine.lifecycle import cancel_workflow, hand_over_child, own_child
from durable.engine.long_decisions import put_off_one
from durable.engine.messages import CancelSpawned
from durable.engine.progress import feed, load, register
from durable.engine.state.bodies import Loaded
from durable.engine.turn import Turn
from durable.errors import CodecError, WorkflowNotFound
from durable.outcomes import pack_error
from durable.records import EntryStatus, ParkReason, WorkflowRecord, WorkflowStatus
from durable.runner.children import CancelChild, Spawn
from durable.runner.fibers import WaitCondition


def check_spawn(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """Start a child, and let the body go on at once. Replay never starts a second one."""
    assert isinstance(wait.op, Spawn)
    child = own_child(turn, loaded, wait, on_parent_close=wait.op.on_parent_close)
    if child is not None:
        feed(turn, loaded, wait, EntryStatus.OK, json.dumps(child.id))


def check_result(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """Hand over the end of a spawned child, or note who waits for it, so that its end finds the wait."""
    child = _spawned(turn, loaded, wait, shared=True)
    if child is None:
        return
    if child.status.is_terminal:
        hand_over_child(turn, loaded, wait, child)
    else:
        register(turn, loaded, wait.position, name=END, event_key=str(child.key))


def check_cancel_child(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """A body tells a spawned child to stop: that follows behind what it has sent before."""
    turn.messages.send(CancelSpawned(loaded.record.key, wait.position, turn.state.serial))


def cancel_spawned(turn: Turn, loaded: Loaded, wait: WaitCondition, *, message: CancelSpawned) -> None:
    """Cancel a spawned child; the body learns whether it was still there to be cancelled.

    A child that is in the middle of a long decision first takes what it was sent before, as long as it gets ahead with
    that. What is sent later does not hold the cancellation up, nor do events that the child does not care for.
    """
    assert isinstance(wait.op, CancelChild)
    child = _spawned(turn, loaded, wait)
    if child is None:
        return
    unheard = _count_unheard(turn, child, message.after)
    if child.status is WorkflowStatus.RUNNING and child.key not in turn.state.loaded:
        # After a crash nobody knows what was put off: loading it has all of its waits looked at first.
        load(turn, child)
        turn.messages.send(message)
    elif unheard and (message.unheard is None or unheard < message.unheard):
        put_off_one(turn, message._replace(unheard=unheard))
    else:
        is_accepted = cancel_workflow(turn, child, wait.op.reason)
        feed(turn, loaded, wait, EntryStatus.OK, json.dumps(is_accepted))


def _count_unheard(turn: Turn, child: WorkflowRecord, until: int) -> int:
    """How many events up to a serial are in the mailbox of a child that goes on in the next batch."""
    if child.key not in turn.state.put_off:
        return 0
    return sum(event.serial <= until for event in turn.state.post.mailbox(target=child.key))


def _spawned(turn: Turn, loaded: Loaded, wait: WaitCondition, *, shared: bool = False) -> WorkflowRecord | None:
    """The child that a handle speaks of; None if it cannot be had: then the body is told, or parked."""
    try:
        child = turn.state.find(wait.name)
    except CodecError as problem:
        park(turn, loaded.record, ParkReason.UNREADABLE, f"child {wait.name!r}: {problem}")
        return None
    is_own = child is not None and child.parent_key == loaded.record.key
    if child is None or not (is_own or (shared and _is_shared(turn, loaded, child))):
        # No child goes before its parent, unless somebody has removed it by hand.
        feed(turn, loaded, wait, EntryStatus.ERROR, pack_error(WorkflowNotFound(wait.name)))
        return None
    return child


def _is_shared(turn: Turn, loaded: Loaded, child: WorkflowRecord) -> bool:
    """Whether the workflow is a fork, and the child was spawned by one whose history it has copied."""
    parent = None if child.parent_key is None else turn.state.readable(child.parent_key)
    return parent is not None and any(parent.id == source for _, source in loaded.session.past.forks)

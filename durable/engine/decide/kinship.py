"""A workflow ends: which workflows get its end, and which children end with it. Part of the decision that ends it.

Upwards, `wake_parent` has the waits of the parent looked at, or sends the end by letter. Downwards, `close_children`
cancels the children, here and in other shards.
"""

from __future__ import annotations

from durable.engine.decide import router
from durable.engine.decide.turn import Turn
from durable.engine.operations.messages import CancelChild, ChildEnded, ChildRefused, LookAgain, ParentEnded, WaitId
from durable.engine.state.bodies import Loaded
from durable.engine.state.family import living_children
from durable.errors import ChildWorkflowCancelled, ChildWorkflowFailed, CodecError, InvariantViolated
from durable.model.error_codec import error_summary, pack_error, unpack_error
from durable.model.position import Place
from durable.model.records import (
    CancelCause,
    EntryStatus,
    EventWait,
    Guest,
    OnParentClose,
    WorkflowRecord,
    WorkflowStatus,
)

# The name of a wait for the end of a spawned child; its event key is the child's key. No event can have this name.
END = ""


def reason_of(cause: CancelCause, parent_id: str) -> str:
    """Why a child is cancelled, in words: its parent has ended, or continues without it."""
    if cause is CancelCause.PARENT_ENDED:
        return f"parent {parent_id!r} has ended"
    return f"workflow {parent_id!r} no longer waits for it"


def outcome_of(child: WorkflowRecord) -> tuple[EntryStatus, str]:
    """What a child's end becomes in the history of its parent. Raises `CodecError` if its error cannot be read."""
    if child.status is WorkflowStatus.SUCCEEDED:
        return EntryStatus.OK, child.result or "null"
    error: Exception = ChildWorkflowCancelled(child.id, child.cancel_reason)
    if child.error is not None:
        if child.status is WorkflowStatus.FAILED:
            error = ChildWorkflowFailed(child.id, *error_summary(child.error))
        error.__cause__ = unpack_error(child.error)
    return EntryStatus.ERROR, pack_error(error)


def wake_parent(turn: Turn, record: WorkflowRecord) -> None:
    """A workflow has ended: have the waits looked at that its end may answer, here or in another shard."""
    if record.parent_key is None or record.parent_place is None:
        return
    if record.on_parent_close is not None or not turn.state.shard.owns_key(record.parent_key):
        # The parent may wait for it at any position, more than once or not at all. A parent that does not wait is not
        # loaded: it may have spawned thousands of children, and rebuilding it for each would be far too slow.
        for wait in turn.state.waits.find_waiting_for_event(END, str(record.key)):
            if wait.guest is None:
                turn.messages.send(LookAgain(wait.workflow_key, wait.position))
            else:
                turn.state.waits.drop(wait.workflow_key, wait.position)
                tell_end(turn, WaitId(wait.workflow_key, wait.position, wait.guest.serial), record)
        return
    parent = turn.state.readable(record.parent_key)
    where = Place.parse(record.parent_place)
    if parent is not None and where is not None and parent.round == where.round and not parent.status.is_terminal:
        turn.messages.send(LookAgain(parent.key, where.position))


def close_children(turn: Turn, record: WorkflowRecord, loaded: Loaded | None) -> None:
    """A workflow ends: its children end with it, except those that were spawned to be kept.

    `leave_work` has cancelled the children that the live body waits for. The store is searched only if there may be
    others: the body has spawned children, or there is no live body to ask.
    """
    if turn.state.shard.count > 1:
        for shard in turn.state.outbox.tied(record.key):
            router.send_to(turn, shard, ParentEnded(record.key, record.id))
    if loaded is None or loaded.session.has_spawned:
        close_children_here(turn, ParentEnded(record.key, record.id))


def close_children_here(turn: Turn, parent: ParentEnded) -> None:
    """Cancel the children in this shard of a workflow of any shard, except those that are kept."""
    for child in living_children(turn.state, parent.parent_key):
        if not is_kept(child):
            place = child.parent_place or ""
            turn.messages.send(CancelChild(child.id, *parent, place, CancelCause.PARENT_ENDED))


def is_kept(child: WorkflowRecord) -> bool:
    """Whether a child continues when its parent has ended."""
    return child.on_parent_close is OnParentClose.KEEP


def tell_or_note(turn: Turn, wait: WaitId, child: WorkflowRecord) -> None:
    """A workflow of another shard waits for the end of a child: send it, or store a guest row until the child ends."""
    if child.status.is_terminal:
        tell_end(turn, wait, child)
        return
    before = turn.state.waits.at(wait.key, wait.position)
    if before is not None and before.guest is not None and before.guest.serial == wait.serial:
        raise InvariantViolated(f"{wait} has asked for the end of {child.id!r} twice")
    row = EventWait(
        workflow_key=wait.key,
        position=wait.position,
        name=END,
        event_key=str(child.key),
        serial=turn.state.next_serial(),
        since=turn.now,
        guest=Guest(serial=wait.serial),
    )
    turn.state.waits.put(row)


def tell_end(turn: Turn, wait: WaitId, child: WorkflowRecord) -> None:
    """Send the end of a child to a workflow of another shard."""
    try:
        router.send(turn, ChildEnded(wait, *outcome_of(child)))
    except CodecError as problem:
        router.send(turn, ChildRefused(wait, pack_error(problem)))


def is_child_of(turn: Turn, child: WorkflowRecord, parents: tuple[str, ...]) -> bool:
    """Whether a child was spawned by one of these workflows, which may live in another shard."""
    parent = None if child.parent_key is None or not parents else turn.state.readable(child.parent_key)
    return parent is not None and parent.id in parents

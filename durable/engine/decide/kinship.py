"""Pure decisions: who hears of a workflow's end, and who ends with it. Part of the decision in which it ends."""

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

# The name of a wait for the end of a spawned child, whose key is the event key. No event can have it.
END = ""


def reason_of(cause: CancelCause, parent_id: str) -> str:
    """In words why a child is cancelled whose parent has ended, or goes on without it."""
    if cause is CancelCause.PARENT_ENDED:
        return f"parent {parent_id!r} has ended"
    return f"workflow {parent_id!r} no longer waits for it"


def outcome_of(child: WorkflowRecord) -> tuple[EntryStatus, str]:
    """What a child's end is to those who wait for it. Raises `CodecError` for an error that cannot be read."""
    if child.status is WorkflowStatus.SUCCEEDED:
        return EntryStatus.OK, child.result or "null"
    error: Exception = ChildWorkflowCancelled(child.id, child.cancel_reason)
    if child.error is not None:
        if child.status is WorkflowStatus.FAILED:
            error = ChildWorkflowFailed(child.id, *error_summary(child.error))
        error.__cause__ = unpack_error(child.error)
    return EntryStatus.ERROR, pack_error(error)


def wake_parent(turn: Turn, record: WorkflowRecord) -> None:
    """A workflow has ended: look again at the waits of its parent that it may answer."""
    if record.parent_key is None or record.parent_place is None:
        return
    if record.on_parent_close is not None or not turn.state.shard.owns_key(record.parent_key):
        # Its parent may wait for it anywhere, more than once or not at all. A parent that does not is left alone: it
        # may have spawned thousands, and rebuilding it for each would take for ever.
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
    """A workflow ends: its children go with it, but for those that were spawned to be kept.

    The children that a live body waits for are known without asking. The store is asked where there may be others: the
    body has spawned some, or there is no body that could tell.
    """
    if turn.state.shard.count > 1:
        for shard in turn.state.outbox.tied(record.key):
            router.send_to(turn, shard, ParentEnded(record.key, record.id))
    if loaded is None or loaded.session.has_spawned:
        close_children_here(turn, ParentEnded(record.key, record.id))


def close_children_here(turn: Turn, parent: ParentEnded) -> None:
    """Cancel the children that a workflow, of this shard or another, has here, but for those to be kept."""
    for child in living_children(turn.state, parent.parent_key):
        if not is_kept(child):
            place = child.parent_place or ""
            turn.messages.send(CancelChild(child.id, *parent, place, CancelCause.PARENT_ENDED))


def is_kept(child: WorkflowRecord) -> bool:
    """Whether a child goes on when its parent has ended."""
    return child.on_parent_close is OnParentClose.KEEP


def tell_or_note(turn: Turn, wait: WaitId, child: WorkflowRecord) -> None:
    """A workflow of another shard waits for the end of a child: tell it, or note who asks until the child has ended."""
    if child.status.is_terminal:
        tell_end(turn, wait, child)
        return
    known = turn.state.waits.at(wait.key, wait.position)
    if known is not None and known.guest is not None and known.guest.serial == wait.serial:
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
    """Tell a workflow of another shard how a child has ended."""
    try:
        router.send(turn, ChildEnded(wait, *outcome_of(child)))
    except CodecError as problem:
        router.send(turn, ChildRefused(wait, pack_error(problem)))


def is_child_of(turn: Turn, child: WorkflowRecord, parents: tuple[str, ...]) -> bool:
    """Whether a child was spawned by one of these workflows, which may live in another shard."""
    parent = None if child.parent_key is None or not parents else turn.state.readable(child.parent_key)
    return parent is not None and parent.id in parents

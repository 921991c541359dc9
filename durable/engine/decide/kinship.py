"""Pure decisions: who hears of a workflow's end, and who ends with it. Part of the decision in which it ends."""

from __future__ import annotations

from durable.engine.decide.turn import Turn
from durable.engine.operations.messages import CancelChild, LookAgain
from durable.engine.state.bodies import Loaded
from durable.engine.state.family import living_children
from durable.model.position import Place
from durable.model.records import CancelCause, OnParentClose, WorkflowRecord

# The name of a wait for the end of a spawned child, whose key is the event key. No event can have it.
END = ""


def reason_of(cause: CancelCause, parent: WorkflowRecord) -> str:
    """In words why a child is cancelled whose parent has ended, or goes on without it."""
    if cause is CancelCause.PARENT_ENDED:
        return f"parent {parent.id!r} has ended"
    return f"workflow {parent.id!r} no longer waits for it"


def wake_parent(turn: Turn, record: WorkflowRecord) -> None:
    """A workflow has ended: look again at the waits of its parent that it may answer."""
    if record.parent_key is None or record.parent_place is None:
        return
    if record.on_parent_close is not None:
        # Its parent may wait for it anywhere, more than once or not at all. A parent that does not is left alone: it
        # may have spawned thousands, and rebuilding it for each would take for ever.
        for wait in turn.state.waits.find_waiting_for_event(END, str(record.key)):
            turn.messages.send(LookAgain(wait.workflow_key, wait.position))
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
    if loaded is not None and not loaded.session.has_spawned:
        return
    for child in living_children(turn.state, record.key):
        if is_kept(child):
            continue
        turn.messages.send(CancelChild(child.id, record, child.parent_place or "", CancelCause.PARENT_ENDED))


def is_kept(child: WorkflowRecord) -> bool:
    """Whether a child goes on when its parent has ended."""
    return child.on_parent_close is OnParentClose.KEEP

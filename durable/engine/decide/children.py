"""A workflow starts a child, waits for its end, or tells it to stop."""

from __future__ import annotations

import json
from typing import Any

from durable.engine.decide.body import advance, feed, load, register
from durable.engine.decide.cancel import cancel_workflow
from durable.engine.decide.endings import check_payload, child_id_of, park
from durable.engine.decide.kinship import END
from durable.engine.decide.long_decisions import put_off_one
from durable.engine.decide.start import register_workflow
from durable.engine.decide.turn import Turn
from durable.engine.operations.messages import CancelSpawned
from durable.engine.state.bodies import Loaded
from durable.errors import (
    ChildDepthExceeded,
    ChildWorkflowCancelled,
    ChildWorkflowFailed,
    CodecError,
    TooManyChildren,
    WorkflowAlreadyExists,
    WorkflowNotFound,
)
from durable.model.error_codec import error_summary, pack_error, unpack_error
from durable.model.position import place
from durable.model.records import (
    EntryStatus,
    OnParentClose,
    ParkReason,
    WorkflowRecord,
    WorkflowStatus,
)
from durable.runner.children import CancelChild, Spawn
from durable.runner.definitions import WorkflowDef
from durable.runner.fibers import WaitCondition
from durable.runner.results import Failed


def check_child(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """A workflow waits for a child: start it, or hand its end over if it has ended. Replay never starts a second."""
    child = own_child(turn, loaded, wait)
    if child is not None and child.status.is_terminal:
        hand_over_child(turn, loaded, wait, child)


def own_child(
    turn: Turn, loaded: Loaded, wait: WaitCondition, on_parent_close: OnParentClose | None = None
) -> WorkflowRecord | None:
    """The child that a workflow calls here, as it was or just started; None if the body is told why not, or parked."""
    state = turn.state
    parent = loaded.record
    definition: WorkflowDef[Any, Any] = wait.op.definition  # type: ignore[attr-defined]  # it is the call of a child
    id = child_id_of(parent, wait.op, wait.position)
    where = place(parent.round, wait.position)
    try:
        child = state.find(id)
    except CodecError as problem:
        park(turn, parent, ParkReason.UNREADABLE, f"child {id!r}: {problem}", wait.position)
        return None
    if child is not None:
        if (child.parent_key, child.parent_place) == (parent.key, where):
            return child
        feed(turn, loaded, wait, EntryStatus.ERROR, pack_error(WorkflowAlreadyExists(id, child.name)))
        return None
    try:
        if parent.depth >= state.config.max_child_depth:
            raise ChildDepthExceeded(parent.id, state.config.max_child_depth)
        check_payload(turn, f"{definition.label}: arguments", wait.input)
        state.registry.add(definition)
    except Exception as error:
        feed(turn, loaded, wait, EntryStatus.ERROR, pack_error(error))
        return None
    state.started[parent.key] = started = state.started.get(parent.key, 0) + 1
    if started > state.config.max_children_per_step:
        # Not raised in the body, which could catch it and never come to the end of this step.
        advance(turn, loaded, Failed(TooManyChildren(parent.name, state.config.max_children_per_step)))
        return None
    return register_workflow(
        turn, id, definition, wait.input,
        start_at=turn.now, parent_key=parent.key, parent_place=where, depth=parent.depth + 1,
        on_parent_close=on_parent_close,
    )  # fmt: skip


def hand_over_child(turn: Turn, loaded: Loaded, wait: WaitCondition, child: WorkflowRecord) -> None:
    """Feed a child's end to its parent."""
    if child.status is WorkflowStatus.SUCCEEDED:
        feed(turn, loaded, wait, EntryStatus.OK, child.result or "null")
        return
    error: Exception = ChildWorkflowCancelled(child.id, child.cancel_reason)
    if child.error is not None:
        try:
            if child.status is WorkflowStatus.FAILED:
                error = ChildWorkflowFailed(child.id, *error_summary(child.error))
            error.__cause__ = unpack_error(child.error)
        except CodecError as problem:
            detail = f"the error of child {child.id!r}: {problem}"
            park(turn, loaded.record, ParkReason.UNREADABLE, detail, wait.position)
            return
    feed(turn, loaded, wait, EntryStatus.ERROR, pack_error(error))


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
        park(turn, loaded.record, ParkReason.UNREADABLE, f"child {wait.name!r}: {problem}", wait.position)
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

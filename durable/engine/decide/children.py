"""A workflow starts a child, waits for its end, or cancels it; and a workflow ends, which wakes its parent.

If the child belongs to this shard, all of that happens in the decision of the parent. If it belongs to another shard,
the parent's shard asks for it by letter (`letters` is the other side): the child's row is stored there, its
body runs after that commit, and its end comes back as a letter.

A child is found by its id and its *place*, which is the round and the position of the call. So a replay finds the child
that is already there and never starts a second one.
"""

from __future__ import annotations

import json
from typing import Any

from durable.engine.decide.body import advance, cancel_awaited, feed, is_answered, load
from durable.engine.decide.cancel import cancel_workflow
from durable.engine.decide.endings import check_payload, child_id_of, park
from durable.engine.decide.start import register_workflow
from durable.engine.decide.timers import put_off_one
from durable.engine.decide.turn import Turn
from durable.engine.decide.waits import note_question, register
from durable.engine.operations.messages import (
    AwaitChild,
    CancelSpawned,
    ChildEnded,
    ChildRefused,
    LookAgain,
    ParentEnded,
    StartChild,
    WaitId,
    WorkflowEnded,
)
from durable.engine.operations.messages import CancelChild as CancelMessage
from durable.engine.state.events import END
from durable.engine.state.state import living_children
from durable.engine.state.workflows import Loaded
from durable.errors import (
    ChildDepthExceeded,
    ChildWorkflowCancelled,
    ChildWorkflowFailed,
    CodecError,
    InvariantViolated,
    TooManyChildren,
    WorkflowAlreadyExists,
    WorkflowNotFound,
)
from durable.model.error_codec import error_summary, pack_error, unpack_error
from durable.model.homes import workflow_home
from durable.model.position import Place, place
from durable.model.records import (
    CancelCause,
    EntryStatus,
    EventWait,
    Guest,
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
    """A workflow calls a child: start it, or feed its end to the parent if it has ended already."""
    if turn.state.shard.count > 1 and _call_elsewhere(turn, loaded, wait, None):
        return
    child = own_child(turn, loaded, wait)
    if child is not None and child.status.is_terminal:
        hand_over_child(turn, loaded, wait, child)


def own_child(
    turn: Turn, loaded: Loaded, wait: WaitCondition, on_parent_close: OnParentClose | None = None
) -> WorkflowRecord | None:
    """The child that a workflow calls here, started if need be.

    None if that is impossible: then the parent's body was fed the error, or the parent is parked.
    """
    parent = loaded.record
    definition: WorkflowDef[Any, Any] = wait.op.definition  # type: ignore[attr-defined]  # it is the call of a child
    id = child_id_of(parent, wait.op, wait.position)
    where = place(parent.round, wait.position)
    try:
        child = turn.state.find(id)
    except CodecError as problem:
        park(turn, parent, ParkReason.UNREADABLE, f"child {id!r}: {problem}", wait.position)
        return None
    if child is not None:
        if (child.parent_key, child.parent_place) == (parent.key, where):
            return child
        feed(turn, loaded, wait, EntryStatus.ERROR, pack_error(WorkflowAlreadyExists(id, child.name)))
        return None
    if not _may_start(turn, loaded, wait, definition):
        return None
    return register_workflow(
        turn, id, definition, wait.input,
        created_at=turn.now,
        start_at=turn.now, parent_key=parent.key, parent_place=where, depth=parent.depth + 1,
        on_parent_close=on_parent_close,
    )  # fmt: skip


def _may_start(turn: Turn, loaded: Loaded, wait: WaitCondition, definition: WorkflowDef[Any, Any]) -> bool:
    """Whether a workflow may start one more child. If not, its body was fed the error, or the workflow has failed."""
    state, parent = turn.state, loaded.record
    try:
        if parent.depth >= state.config.max_child_depth:
            raise ChildDepthExceeded(parent.id, state.config.max_child_depth)
        check_payload(turn, f"{definition.label}: arguments", wait.input)
        state.registry.add(definition)
    except Exception as error:
        feed(turn, loaded, wait, EntryStatus.ERROR, pack_error(error))
        return False
    state.started[parent.key] = started = state.started.get(parent.key, 0) + 1
    if started > state.config.max_children_per_step:
        # Not raised in the body, which could catch it and never reach the end of this step.
        advance(turn, loaded, Failed(TooManyChildren(parent.name, state.config.max_children_per_step)))
        return False
    return True


def check_spawn(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """Start a child, and let the parent's body continue at once."""
    assert isinstance(wait.op, Spawn)
    if turn.state.shard.count > 1 and _call_elsewhere(turn, loaded, wait, wait.op.on_parent_close):
        return
    child = own_child(turn, loaded, wait, on_parent_close=wait.op.on_parent_close)
    if child is not None:
        feed(turn, loaded, wait, EntryStatus.OK, json.dumps(child.id))


def give_up_spawn(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """A body stops waiting before it gets the answer that its child was started in another shard: cancel that child.

    Otherwise the child would run, and no body could ever refer to it.
    """
    if wait.position in loaded.rows:
        cancel_awaited(turn, loaded, wait)


def check_result(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """Feed the end of a spawned child to the body, or store a row, so that the child's end finds the wait."""
    if not turn.state.shard.owns_workflow(wait.name):
        if not is_answered(turn, loaded, wait):
            question = note_question(turn, loaded, wait, wait.name)
            turn.send(AwaitChild(question, wait.name, _fork_sources(loaded)))
        return
    child = _spawned(turn, loaded, wait, shared=True)
    if child is None:
        return
    if child.status.is_terminal:
        hand_over_child(turn, loaded, wait, child)
    else:
        register(turn, loaded, wait.position, name=END, event_key=str(child.key))


def check_cancel_child(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """A body cancels a spawned child. The cancel follows in this decision, behind the events that the body has sent."""
    turn.messages.send(CancelSpawned(loaded.record.key, wait.position, turn.state.serial))


def cancel_spawned(turn: Turn, loaded: Loaded, wait: WaitCondition, *, message: CancelSpawned) -> None:
    """Cancel a spawned child; the body gets whether the child was still running.

    A child in the middle of a long decision first takes what was sent to it before, as long as it makes progress with
    that. Later events do not delay the cancel, nor do events that the child does not take.
    """
    assert isinstance(wait.op, CancelChild)
    if not turn.state.shard.owns_workflow(wait.name):
        _cancel_elsewhere(turn, loaded, wait, wait.op.reason)
        return
    child = _spawned(turn, loaded, wait)
    if child is None:
        return
    unheard = _count_unheard(turn, child, message.after)
    if child.status is WorkflowStatus.RUNNING and child.key not in turn.state.loaded:
        # After a crash the list of what was put off is gone. Loading the child looks at all of its waits first.
        load(turn, child)
        turn.messages.send(message)
    elif unheard and (message.unheard is None or unheard < message.unheard):
        put_off_one(turn, message._replace(unheard=unheard))
    else:
        is_accepted = cancel_workflow(turn, child, wait.op.reason)
        feed(turn, loaded, wait, EntryStatus.OK, json.dumps(is_accepted))


def _count_unheard(turn: Turn, child: WorkflowRecord, until: int) -> int:
    """How many events up to a serial are in the mailbox of a child that continues in the next batch; 0 for others."""
    if child.key not in turn.state.put_off:
        return 0
    return sum(event.serial <= until for event in turn.state.post.mailbox(target=child.key))


def _spawned(turn: Turn, loaded: Loaded, wait: WaitCondition, *, shared: bool = False) -> WorkflowRecord | None:
    """The child that a handle refers to; None if there is none: then the body was fed the error, or is parked.

    `shared`: a child of a workflow whose history this one has copied counts as well.
    """
    try:
        child = turn.state.find(wait.name)
    except CodecError as problem:
        park(turn, loaded.record, ParkReason.UNREADABLE, f"child {wait.name!r}: {problem}", wait.position)
        return None
    is_own = child is not None and child.parent_key == loaded.record.key
    if child is None or not (is_own or (shared and is_child_of(turn, child, _fork_sources(loaded)))):
        # A purge never removes a child before its parent, so this one was removed by hand, or was never a child of it.
        feed(turn, loaded, wait, EntryStatus.ERROR, pack_error(WorkflowNotFound(wait.name)))
        return None
    return child


def _fork_sources(loaded: Loaded) -> tuple[str, ...]:
    """The ids of the workflows whose history this one has copied."""
    return tuple(source for _, source in loaded.session.past.forks)


# --- a child that lives in another shard ----------------------------------------------------------------------------


def _call_elsewhere(turn: Turn, loaded: Loaded, wait: WaitCondition, on_parent_close: OnParentClose | None) -> bool:
    """Whether the child that a workflow calls or spawns here belongs to another shard. If so, ask for it there."""
    state, parent = turn.state, loaded.record
    id = child_id_of(parent, wait.op, wait.position)
    if state.shard.owns_workflow(id):
        return False
    definition: WorkflowDef[Any, Any] = wait.op.definition  # type: ignore[attr-defined]  # it is the call of a child
    if is_answered(turn, loaded, wait) or not _may_start(turn, loaded, wait, definition):
        return True
    message = StartChild(
        wait=note_question(turn, loaded, wait, id),
        child_id=id,
        place=place(parent.round, wait.position),
        name=definition.name,
        version=definition.version,
        input=wait.input,
        on_parent_close=on_parent_close,
        depth=parent.depth + 1,
    )
    if on_parent_close is not OnParentClose.KEEP:
        state.outbox.tie(parent.key, workflow_home(id, state.shard.count))
    turn.send(message)
    return True


def _cancel_elsewhere(turn: Turn, loaded: Loaded, wait: WaitCondition, reason: str | None) -> None:
    """Cancel a child in another shard. Letters keep their order, so events that were sent to it before come first."""
    if not is_answered(turn, loaded, wait):
        parent, id = loaded.record, wait.name
        question = note_question(turn, loaded, wait, id)
        turn.send(CancelMessage(id, parent.key, parent.id, None, CancelCause.REQUESTED, reason, question))


# --- a workflow ends ------------------------------------------------------------------------------------------------


def workflow_ended(turn: Turn, message: WorkflowEnded) -> None:
    """A workflow has ended, earlier in this decision: its children end with it, and its parent wakes up.

    This is the way of a child's end to its parent, in this file and in one decision: `wake_parent` has the parent's
    wait looked at, `check_child` or `check_result` finds that the child has ended, and `hand_over_child` feeds the
    outcome to the parent's body.
    """
    close_children(turn, message)
    wake_parent(turn, message.record)


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


def hand_over_child(turn: Turn, loaded: Loaded, wait: WaitCondition, child: WorkflowRecord) -> None:
    """Feed a child's end to its parent. The parent is parked if the child's error cannot be read."""
    try:
        outcome = outcome_of(child)
    except CodecError as problem:
        park(turn, loaded.record, ParkReason.UNREADABLE, f"the error of child {child.id!r}: {problem}", wait.position)
        return
    feed(turn, loaded, wait, *outcome)


# --- children end with their parent ----------------------------------------------------------------------------------


def close_children(turn: Turn, message: WorkflowEnded) -> None:
    """Cancel the children of a workflow that has ended, except those that were spawned to be kept.

    The children that its body was waiting for are being cancelled already (`endings.leave_work`). The store is searched
    only if there may be others.
    """
    parent = ParentEnded(message.record.key, message.record.id)
    if turn.state.shard.count > 1:
        for shard in turn.state.outbox.tied(parent.parent_key):
            turn.send_to(shard, parent)
    if message.may_have_children:
        close_children_here(turn, parent)


def close_children_here(turn: Turn, parent: ParentEnded) -> None:
    """Cancel the children in this shard of a workflow of any shard, except those that are kept."""
    for child in living_children(turn.state, parent.parent_key):
        if not is_kept(child):
            where = child.parent_place or ""
            turn.messages.send(CancelMessage(child.id, *parent, where, CancelCause.PARENT_ENDED))


def is_kept(child: WorkflowRecord) -> bool:
    """Whether a child continues when its parent has ended."""
    return child.on_parent_close is OnParentClose.KEEP


def reason_of(cause: CancelCause, parent_id: str) -> str:
    """Why a child is cancelled, in words: its parent has ended, or continues without it."""
    if cause is CancelCause.PARENT_ENDED:
        return f"parent {parent_id!r} has ended"
    return f"workflow {parent_id!r} no longer waits for it"


# --- a workflow of another shard waits for a child ------------------------------------------------------------------


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
        turn.send(ChildEnded(wait, *outcome_of(child)))
    except CodecError as problem:
        turn.send(ChildRefused(wait, pack_error(problem)))


def is_child_of(turn: Turn, child: WorkflowRecord, parents: tuple[str, ...]) -> bool:
    """Whether a child was spawned by one of these workflows, which may live in another shard."""
    parent = None if child.parent_key is None or not parents else turn.state.readable(child.parent_key)
    return parent is not None and parent.id in parents

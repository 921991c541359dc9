"""A workflow starts a child, waits for its end, or cancels it.

If the child belongs to this shard, all of that happens in the decision of the parent. If it belongs to another shard,
the parent's shard asks for it by letter (`children_elsewhere` is the other side): the child's row is stored there, its
body runs after that commit, and its end comes back as a letter.

A child is found by its id and its *place*, which is the round and the position of the call. So a replay finds the child
that is already there and never starts a second one.
"""

from __future__ import annotations

import json
from typing import Any

from durable.engine.decide import router
from durable.engine.decide.body import advance, cancel_awaited, feed, is_answered, load
from durable.engine.decide.cancel import cancel_workflow
from durable.engine.decide.elsewhere import note_question
from durable.engine.decide.endings import check_payload, child_id_of, park
from durable.engine.decide.kinship import END, is_child_of, outcome_of
from durable.engine.decide.long_decisions import put_off_one
from durable.engine.decide.start import register_workflow
from durable.engine.decide.turn import Turn
from durable.engine.decide.wait_rows import register
from durable.engine.operations.messages import AwaitChild, CancelSpawned, StartChild
from durable.engine.operations.messages import CancelChild as CancelLetter
from durable.engine.state.bodies import Loaded
from durable.errors import (
    ChildDepthExceeded,
    CodecError,
    TooManyChildren,
    WorkflowAlreadyExists,
    WorkflowNotFound,
)
from durable.model.error_codec import pack_error
from durable.model.homes import workflow_home
from durable.model.position import place
from durable.model.records import (
    CancelCause,
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


def hand_over_child(turn: Turn, loaded: Loaded, wait: WaitCondition, child: WorkflowRecord) -> None:
    """Feed a child's end to its parent. The parent is parked if the child's error cannot be read."""
    try:
        outcome = outcome_of(child)
    except CodecError as problem:
        park(turn, loaded.record, ParkReason.UNREADABLE, f"the error of child {child.id!r}: {problem}", wait.position)
        return
    feed(turn, loaded, wait, *outcome)


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
            router.send(turn, AwaitChild(question, wait.name, _fork_sources(loaded)))
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
    router.send(turn, message)
    return True


def _cancel_elsewhere(turn: Turn, loaded: Loaded, wait: WaitCondition, reason: str | None) -> None:
    """Cancel a child in another shard. Letters keep their order, so events that were sent to it before come first."""
    if not is_answered(turn, loaded, wait):
        parent, id = loaded.record, wait.name
        question = note_question(turn, loaded, wait, id)
        router.send(turn, CancelLetter(id, parent.key, parent.id, None, CancelCause.REQUESTED, reason, question))

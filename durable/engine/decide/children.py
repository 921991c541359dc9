"""A workflow starts a child, waits for its end, or tells it to stop.

Here the child is started, and its end is handed over, in the decision of the parent. In another shard it is asked for
by letter (`children_elsewhere` has the other side): its row is stored there, its body runs after that commit, and its
end comes back as a letter.
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
    """A workflow waits for a child: start it, or hand its end over if it has ended. Replay never starts a second."""
    if turn.state.shard.count > 1 and _call_elsewhere(turn, loaded, wait, None):
        return
    child = own_child(turn, loaded, wait)
    if child is not None and child.status.is_terminal:
        hand_over_child(turn, loaded, wait, child)


def own_child(
    turn: Turn, loaded: Loaded, wait: WaitCondition, on_parent_close: OnParentClose | None = None
) -> WorkflowRecord | None:
    """The child that a workflow calls here, as it was or just started; None if the body is told why not, or parked."""
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
    """Whether a workflow may start one more child. If not, the body is told why, or ends."""
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
        # Not raised in the body, which could catch it and never come to the end of this step.
        advance(turn, loaded, Failed(TooManyChildren(parent.name, state.config.max_children_per_step)))
        return False
    return True


def hand_over_child(turn: Turn, loaded: Loaded, wait: WaitCondition, child: WorkflowRecord) -> None:
    """Feed a child's end to its parent."""
    try:
        outcome = outcome_of(child)
    except CodecError as problem:
        park(turn, loaded.record, ParkReason.UNREADABLE, f"the error of child {child.id!r}: {problem}", wait.position)
        return
    feed(turn, loaded, wait, *outcome)


def check_spawn(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """Start a child, and let the body go on at once. Replay never starts a second one."""
    assert isinstance(wait.op, Spawn)
    if turn.state.shard.count > 1 and _call_elsewhere(turn, loaded, wait, wait.op.on_parent_close):
        return
    child = own_child(turn, loaded, wait, on_parent_close=wait.op.on_parent_close)
    if child is not None:
        feed(turn, loaded, wait, EntryStatus.OK, json.dumps(child.id))


def give_up_spawn(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """A body gives up before it has heard that its child was started in another shard: nobody will ever know of it."""
    if wait.position in loaded.rows:
        cancel_awaited(turn, loaded, wait)


def check_result(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """Hand over the end of a spawned child, or note who waits for it, so that its end finds the wait."""
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
    """A body tells a spawned child to stop: that follows behind what it has sent before."""
    turn.messages.send(CancelSpawned(loaded.record.key, wait.position, turn.state.serial))


def cancel_spawned(turn: Turn, loaded: Loaded, wait: WaitCondition, *, message: CancelSpawned) -> None:
    """Cancel a spawned child; the body learns whether it was still there to be cancelled.

    A child that is in the middle of a long decision first takes what it was sent before, as long as it gets ahead with
    that. What is sent later does not hold the cancellation up, nor do events that the child does not care for.
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
    if child is None or not (is_own or (shared and is_child_of(turn, child, _fork_sources(loaded)))):
        # No child goes before its parent, unless somebody has removed it by hand.
        feed(turn, loaded, wait, EntryStatus.ERROR, pack_error(WorkflowNotFound(wait.name)))
        return None
    return child


def _fork_sources(loaded: Loaded) -> tuple[str, ...]:
    """The ids of the workflows whose history this one has copied."""
    return tuple(source for _, source in loaded.session.past.forks)


# --- a child that lives in another shard ----------------------------------------------------------------------------


def _call_elsewhere(turn: Turn, loaded: Loaded, wait: WaitCondition, on_parent_close: OnParentClose | None) -> bool:
    """Whether the child that a workflow calls or spawns here lives in another shard. If so it is asked for there."""
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
    """Tell a child in another shard to stop. What was sent to it before arrives before this."""
    if not is_answered(turn, loaded, wait):
        parent, id = loaded.record, wait.name
        question = note_question(turn, loaded, wait, id)
        router.send(turn, CancelLetter(id, parent.key, parent.id, None, CancelCause.REQUESTED, reason, question))

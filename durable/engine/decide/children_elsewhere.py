"""Children of this shard whose parents belong to another shard: they are started, awaited and cancelled by letter.

These functions handle the messages that `children` of the parent's shard has sent. Every question names
the wait that asks (`WaitId`), and every answer repeats it.
"""

from __future__ import annotations

from durable.engine.decide.cancel import cancel_workflow
from durable.engine.decide.children import close_children_here, is_child_of, reason_of, tell_or_note
from durable.engine.decide.start import store_workflow
from durable.engine.decide.turn import Turn
from durable.engine.operations.messages import (
    AwaitChild,
    CancelAnswered,
    CancelChild,
    ChildRefused,
    ChildStarted,
    ParentEnded,
    StartChild,
)
from durable.errors import CodecError, WorkflowAlreadyExists, WorkflowNotFound
from durable.model.error_codec import pack_error
from durable.model.records import WorkflowRecord


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

"""Waiting for a workflow to change: `AwaitChange` and the sight that answers it.

The decision only returns a promise. The coordinator (`callers`) answers it after a commit that shows something new.
"""

from __future__ import annotations

import attrs

from durable.engine.decide.turn import Turn
from durable.engine.operations import AwaitChange, Sight


@attrs.frozen
class Watched:
    """A promise instead of an answer: the answer comes when this workflow shows something new to the caller."""

    key: int


def decide_await_change(turn: Turn, op: AwaitChange) -> Watched:
    """Always a promise, because the rest of the batch may still change the workflow. Raises `WorkflowNotFound`."""
    return Watched(turn.state.record(op.id).key)


def sight_of(turn: Turn, id: str) -> Sight:
    """The status and progress of a workflow. Raises `WorkflowNotFound`."""
    record = turn.state.record(id)
    progress = turn.state.chronicle.progress_of(record.key)
    return Sight(record.status, None if progress is None else progress.value, turn.now)

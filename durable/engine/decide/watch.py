"""What is to be seen of a workflow, for those who wait for it to change."""

from __future__ import annotations

import attrs

from durable.engine.decide.turn import Turn
from durable.engine.operations import AwaitChange, Sight


@attrs.frozen
class Watched:
    """Not an answer yet: it comes when there is something to see of this workflow that the caller has not seen."""

    key: int


def decide_await_change(turn: Turn, op: AwaitChange) -> Watched:
    """A promise, if there is such a workflow. Not at once: the rest of the batch may still change it."""
    return Watched(turn.state.record(op.id).key)


def sight_of(turn: Turn, id: str) -> Sight:
    """What is to be seen of a workflow. Raises `WorkflowNotFound`."""
    record = turn.state.record(id)
    progress = turn.state.chronicle.progress_of(record.key)
    return Sight(record.status, None if progress is None else progress.value, turn.now)

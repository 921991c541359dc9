"""What leaves the coordinator after the commit.

A decision appends effects to its turn. If the commit fails for good, all of them are dropped with the batch, so no
activity runs, no caller is answered and no observer is told of something that is not stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from durable.engine.operations.base import Operation
from durable.engine.operations.facts import Fact
from durable.model.records import WorkflowRecord
from durable.runner.definitions import ActivityDef


class RunActivity(NamedTuple):
    """Run one attempt of an activity on the loop. A tuple: every step makes one."""

    key: int
    workflow_id: str
    round: int
    position: str
    attempt: int
    definition: ActivityDef[Any, Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    # How often the workflow had been retried and repaired when this was decided. A repair may change the arguments, so
    # an answer with an older count is ignored.
    mends: int = 0
    # Whether the pool must submit a `BeginAttempt` when it starts: this workflow may be what crashes the process.
    on_trial: bool = False
    workflow_name: str = ""
    # The trace context of the workflow, and when it was started.
    trace: str | None = None
    started_at: int = 0


class StopActivity(NamedTuple):
    """Cancel an activity whose result is no longer wanted. One that does not run is ignored."""

    key: int
    round: int
    position: str


class Follow(NamedTuple):
    """Put an operation of the engine itself into the queue, after the commit."""

    operation: Operation[Any]


class Ended(NamedTuple):
    """A workflow has ended: answer every caller that waits for its end."""

    record: WorkflowRecord


class Parked(NamedTuple):
    """A workflow was parked: answer the callers that wait for its end with `wait_if_parked=False`."""

    record: WorkflowRecord


Effect = RunActivity | StopActivity | Follow | Ended | Parked | Fact

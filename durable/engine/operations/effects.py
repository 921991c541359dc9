"""What leaves the coordinator after the commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from durable.engine.operations.base import Operation
from durable.engine.operations.log_lines import Tell
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
    # How often the workflow had been retried and repaired when this was decided: its arguments may be others since.
    mends: int = 0
    # Whether the coordinator wants to know when it begins.
    on_trial: bool = False
    workflow_name: str = ""


class StopActivity(NamedTuple):
    """Cancel an activity that nobody waits for any more."""

    key: int
    round: int
    position: str


class Follow(NamedTuple):
    """Put an operation into the queue, after the commit."""

    operation: Operation[Any]


class Ended(NamedTuple):
    """A workflow has ended: answer those who wait for it."""

    record: WorkflowRecord


class Parked(NamedTuple):
    """A workflow was parked: answer those who wait for its end and do not want to wait for a parked one."""

    record: WorkflowRecord


Effect = RunActivity | StopActivity | Follow | Ended | Parked | Tell

"""What callers ask of workflows: start, cancel, wait for the end, look."""

from __future__ import annotations

from typing import Any, NamedTuple

import attrs

from durable.backends.base import Background, Workflows
from durable.engine.operations.base import Operation
from durable.engine.operations.views import Description
from durable.model.codec import Arguments
from durable.model.records import HistoryEntry, Progress, WorkflowRecord, WorkflowStatus
from durable.runner.definitions import WorkflowDef


# The two that callers make by the thousand are not frozen, like `RecordActivity` below: it would double their cost.
@attrs.define(kw_only=True)
class StartWorkflow(Operation[WorkflowRecord]):
    """Begin a workflow, or find the one that was begun with the same call."""

    id: str
    name: str
    version: int = 1
    input: str
    # What the caller has at hand in this process, and what does not travel: the code, and the arguments as read back.
    definition: WorkflowDef[Any, Any] | None = attrs.field(default=None, eq=False)
    arguments: Arguments | None = attrs.field(default=None, eq=False)
    delay: int = 0
    tags: tuple[str, ...] = ()


@attrs.frozen
class CancelWorkflow(Operation[bool]):
    """Raise `Cancelled` in a workflow."""

    id: str
    reason: str | None = None


@attrs.frozen
class TerminateWorkflow(Operation[bool]):
    """End a workflow at once, without its cleanup."""

    id: str
    reason: str | None = None


@attrs.frozen
class FindWorkflow(Operation[WorkflowRecord | None]):
    """How a workflow stands."""

    id: str


@attrs.frozen
class AwaitEnd(Operation[WorkflowRecord]):
    """The record of a workflow once it has ended; the answer may take months."""

    id: str
    # If not, the record of a parked workflow is an answer too.
    wait_if_parked: bool = True


@attrs.frozen
class ReadProgress(Operation[Progress | None]):
    """What a workflow has published last."""

    id: str


@attrs.frozen
class Sight:
    """What is to be seen of a workflow at one moment; two are the same if nothing has changed in between."""

    status: WorkflowStatus
    # JSON text, None if nothing was published.
    progress: str | None
    at: int = attrs.field(eq=False)


@attrs.frozen
class AwaitChange(Operation[Sight]):
    """What is to be seen of a workflow once it is something else than what was seen; the answer may take months."""

    id: str
    seen: Sight | None = None


class Listed(NamedTuple):
    """One workflow of a list, and what is shown of it that does not stand in its own row."""

    record: WorkflowRecord
    background: Background

    @property
    def id(self) -> str:
        """The workflow's id."""
        return self.record.id


@attrs.frozen
class ListWorkflows(Operation[list[Listed]]):
    """A page of workflows; `after` is the id of the last one seen."""

    is_list = True

    query: Workflows
    after: str | None = None


@attrs.frozen
class CountWorkflows(Operation[int]):
    """How many workflows there are."""

    is_list = True

    query: Workflows


@attrs.frozen
class ReadHistory(Operation[list[HistoryEntry]]):
    """All that is recorded of a workflow."""

    id: str


@attrs.frozen
class DescribeWorkflow(Operation[Description]):
    """What a workflow waits for, since when, and where in its source."""

    id: str


@attrs.frozen
class PurgeWorkflows(Operation[int]):
    """Remove a bounded number of workflows that ended before an instant; the answer says how many."""

    finished_before: int
    limit: int = 500

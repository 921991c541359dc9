"""Operations on workflows: start, cancel, wait for the end or a change, list, read."""

from __future__ import annotations

from typing import Any, NamedTuple

import attrs

from durable.backends.base import Background, Workflows
from durable.engine.operations.base import OfWorkflow, Operation
from durable.engine.operations.views import Description
from durable.model.codec import Arguments
from durable.model.records import HistoryEntry, Progress, WorkflowRecord, WorkflowStatus
from durable.runner.definitions import WorkflowDef


# Callers make these by the thousand. Like `SendEvent`, it is not frozen: that would double the cost of making one.
@attrs.define(kw_only=True)
class StartWorkflow(OfWorkflow[WorkflowRecord]):
    """Start a workflow, or find the one that the same call started.

    An id that belongs to a workflow with another name or other arguments is refused with `WorkflowAlreadyExists`.
    `input` is the arguments as JSON, `delay` is in microseconds. The `version` may be `NEWEST` on the way to an engine.
    """

    id: str
    name: str
    version: int = 1
    input: str
    # Only for calls from this process, and never sent: the code, and the arguments as they were read back.
    definition: WorkflowDef[Any, Any] | None = attrs.field(default=None, eq=False)
    arguments: Arguments | None = attrs.field(default=None, eq=False)
    delay: int = 0
    tags: tuple[str, ...] = ()
    # The trace context of the caller. Two calls that differ only here are the same call.
    trace: str | None = attrs.field(default=None, eq=False)


@attrs.frozen
class CancelWorkflow(OfWorkflow[bool]):
    """Raise `Cancelled` in a workflow. The answer is False if it had ended."""

    id: str
    reason: str | None = None


@attrs.frozen
class TerminateWorkflow(OfWorkflow[bool]):
    """End a workflow at once, without its cleanup. The answer is False if it had ended."""

    id: str
    reason: str | None = None


@attrs.frozen
class FindWorkflow(OfWorkflow[WorkflowRecord | None]):
    """The record of a workflow, or None."""

    id: str


@attrs.frozen
class AwaitEnd(OfWorkflow[WorkflowRecord]):
    """Wait for the record of a workflow at its end; the answer may take months."""

    id: str
    # If False, the record of a parked workflow is an answer too.
    wait_if_parked: bool = True


@attrs.frozen
class ReadProgress(OfWorkflow[Progress | None]):
    """The progress that a workflow published last."""

    id: str


@attrs.frozen
class Sight:
    """What a watcher sees of a workflow at one moment. Two sights are equal if nothing visible changed in between."""

    status: WorkflowStatus
    # The published progress as JSON text, or None.
    progress: str | None
    at: int = attrs.field(eq=False)


@attrs.frozen
class AwaitChange(OfWorkflow[Sight]):
    """Wait until a workflow differs from the last sight of it; the answer may take months.

    It comes at once if the workflow differs already, or has ended.
    """

    id: str
    seen: Sight | None = None


class Listed(NamedTuple):
    """One workflow of a list, and what is shown of it from other rows: its parent's id and its progress."""

    record: WorkflowRecord
    background: Background

    @property
    def id(self) -> str:
        """The workflow's id."""
        return self.record.id


@attrs.frozen
class ListWorkflows(Operation[list[Listed]]):
    """A page of workflows. `after` is the id of the last one seen, if not the query itself has its key."""

    is_list = True

    query: Workflows
    after: str | None = None


@attrs.frozen
class CountWorkflows(Operation[int]):
    """How many workflows match a query."""

    is_list = True

    query: Workflows


@attrs.frozen
class ReadHistory(OfWorkflow[list[HistoryEntry]]):
    """All history entries of a workflow's present round, in order."""

    id: str


@attrs.frozen
class DescribeWorkflow(OfWorkflow[Description]):
    """A workflow's waits, with their start and the place in its source, and what else operators need to know."""

    id: str


@attrs.frozen
class PurgeWorkflows(Operation[int]):
    """Remove up to `limit` workflows that ended before an instant; the answer says how many were removed."""

    finished_before: int
    limit: int = 500

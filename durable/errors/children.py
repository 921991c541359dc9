"""What a parent learns of a child that did not succeed."""

from __future__ import annotations

import attrs

from durable.errors.base import DurableError
from durable.errors.workflows import WorkflowCancelled, WorkflowFailed


class ChildWorkflowFailed(WorkflowFailed):
    """An awaited child ended with an error; `__cause__` is the original one."""

    def __str__(self) -> str:
        return f"child {super().__str__()}"


class ChildWorkflowCancelled(WorkflowCancelled):
    """An awaited child was cancelled."""

    def __str__(self) -> str:
        return f"child {super().__str__()}"


@attrs.frozen(slots=False)
class ChildDepthExceeded(DurableError):
    """Children have started children beyond the limit."""

    workflow_id: str
    limit: int

    says = (
        "workflow {workflow_id!r} is {limit} children deep (max_child_depth): "
        "does a workflow start itself? Use continue_as for endless work"
    )

"""What a parent sees when its child did not succeed.

Both outcomes are subclasses of what a client gets for the same end, so one `except` serves parents and clients.
"""

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
    """Starting this child would nest children deeper than `EngineConfig.max_child_depth`."""

    workflow_id: str
    limit: int

    says = (
        "workflow {workflow_id!r} is {limit} children deep (max_child_depth): "
        "check whether it starts itself, and use continue_as for endless work"
    )

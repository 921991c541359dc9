"""Where a workflow is in its life. On the ground floor: errors name statuses, and records hold them."""

from __future__ import annotations

import enum


class WorkflowStatus(enum.Enum):
    """Where a workflow is in its life."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    PARKED = "parked"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    # Whether nothing can happen to the workflow any more. Set on each member below: every decision asks, and a property
    # is a call each time.
    is_terminal: bool

    # By identity, as enums are compared: the hash of their names is computed in Python, at every look into a table.
    __hash__ = object.__hash__


ENDS = frozenset({WorkflowStatus.SUCCEEDED, WorkflowStatus.FAILED, WorkflowStatus.CANCELLED})
for _status in WorkflowStatus:
    _status.is_terminal = _status in ENDS


class EndedWorkflow(Exception):
    """The fields of an error about a workflow that has ended.

    They are read from `args`, which hold plain text: that is what is stored of an error and what it is restored from.
    """

    def __init__(self, workflow_id: str, status: WorkflowStatus | str) -> None:
        super().__init__(workflow_id, WorkflowStatus(status).value)

    @property
    def workflow_id(self) -> str:
        """Which workflow."""
        id: str = self.args[0]
        return id

    @property
    def status(self) -> WorkflowStatus:
        """How it ended."""
        return WorkflowStatus(self.args[1])

    def __str__(self) -> str:
        return f"workflow {self.workflow_id!r} has ended ({self.status.value}) and takes nothing more"

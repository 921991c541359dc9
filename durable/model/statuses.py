"""Where a workflow is in its life. Errors name statuses, and records hold them."""

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

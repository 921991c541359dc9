"""The statuses of a workflow.

In a file without imports from durable, because errors name statuses and records, which import errors, hold them.
"""

from __future__ import annotations

import enum


class WorkflowStatus(enum.Enum):
    """Where a workflow is in its life. The values are stored. `records.TRANSITIONS` says which may follow which.

    RUNNING: an activity is open, or the body has yet to run. SUSPENDED: it waits for time, events, people or children.
    PARKED: it cannot run until its code or its data fits again. The other three are ends.
    """

    RUNNING = "running"
    SUSPENDED = "suspended"
    PARKED = "parked"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    # Whether the workflow has ended. An attribute of each member, set below: every decision reads it, and a property
    # would cost a call each time.
    is_terminal: bool

    # Enums compare by identity, so they can hash by identity. The default hashes the name in Python, at every lookup.
    __hash__ = object.__hash__


ENDS = frozenset({WorkflowStatus.SUCCEEDED, WorkflowStatus.FAILED, WorkflowStatus.CANCELLED})
for _status in WorkflowStatus:
    _status.is_terminal = _status in ENDS

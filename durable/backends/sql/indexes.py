"""Conditions that partial indexes and queries must spell the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable.model.records import OnParentClose, WorkflowStatus

if TYPE_CHECKING:
    pass


# The statuses that have an index: those that recovery and people look for and that few rows have. Sleeping and
# finished workflows are the millions; an index over them would cost every write and help nobody.
INDEXED_STATUSES = (WorkflowStatus.RUNNING, WorkflowStatus.PARKED)


def status_is(status: WorkflowStatus) -> str:
    """SQL for "has this status", with a literal: SQLite uses a partial index only when it can read its condition."""
    return f"status = '{status.value}'"


# SQL for "ends with its parent": not kept, and not ended yet. Few rows are children, and most of them have ended.
IS_TIED = f"finished_at IS NULL AND on_parent_close IS NOT '{OnParentClose.KEEP.value}'"

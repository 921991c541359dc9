"""Conditions that partial indexes and queries must spell alike.

SQLite uses a partial index only if the condition of the query implies that of the index, and it sees that only if both
are spelled alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable.model.records import OnParentClose, WorkflowStatus

if TYPE_CHECKING:
    pass


# The statuses with an index: those that recovery and people look for and that few rows have. Sleeping and finished
# workflows may be millions. An index over them would cost every write and help no query.
INDEXED_STATUSES = (WorkflowStatus.RUNNING, WorkflowStatus.PARKED)


def status_is(status: WorkflowStatus) -> str:
    """SQL for "has this status". A literal, because SQLite cannot match a bound parameter with a partial index."""
    return f"status = '{status.value}'"


# SQL for "ends with its parent": not kept, and not ended yet. Few rows match, because most children have ended.
IS_TIED = f"finished_at IS NULL AND on_parent_close IS NOT '{OnParentClose.KEEP.value}'"

"""A workflow whose row cannot be read, shown with what can be.

It is PARKED as UNREADABLE, and its detail names the columns: so people find it in lists, can look at it and can end it.
Once the row is put right by hand it is read as it is. Knows rows and records; must not know connections.
"""

from __future__ import annotations

import attrs

from durable.backends import rows
from durable.backends.tables import Row
from durable.errors import CodecError
from durable.records import ParkReason, WorkflowRecord, WorkflowStatus

# What stands in for a column that cannot be read.
_STAND_IN = rows.workflow_row(
    WorkflowRecord(key=0, id="?", name="?", status=WorkflowStatus.PARKED, input="{}", created_at=0, start_at=0)
)
_COLUMNS = ", ".join(f"{column} = ?" for column in rows.WORKFLOW.columns)
# Writes a whole row: the parameters of its insert, and the key once more.
MEND = f"UPDATE workflow SET {_COLUMNS} WHERE key = ?"


def workflow_of(row: Row) -> WorkflowRecord:
    """The record of a row, also of one that is damaged. Raises `CodecError` if not even its id can be read."""
    try:
        return rows.WORKFLOW.record(row)
    except CodecError as error:
        return _parked(row, error)


def _parked(row: Row, error: CodecError) -> WorkflowRecord:
    sound = list(_STAND_IN)
    problems: list[str] = []
    for place, column in enumerate(rows.WORKFLOW.columns):
        # Each column by itself, in a row that is sound otherwise.
        probe = (*_STAND_IN[:place], row[place], *_STAND_IN[place + 1 :])
        try:
            rows.WORKFLOW.record(probe)
        except CodecError as problem:
            if column in ("key", "id"):
                raise error from None
            problems.append(f"{column} ({problem.problem})")
        else:
            sound[place] = row[place]
    detail = f"its row cannot be read: {', '.join(problems)}; put it right in the store, or terminate the workflow"
    return attrs.evolve(
        rows.WORKFLOW.record(tuple(sound)),
        status=WorkflowStatus.PARKED,
        park_reason=ParkReason.UNREADABLE,
        park_detail=detail,
        # Parking takes the deadline away, and what has not ended has no end.
        wake_at=None,
        finished_at=None,
        result=None,
        error=None,
        is_damaged=True,
    )

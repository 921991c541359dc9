"""A workflow whose row cannot be read, shown with its readable columns.

It is shown as PARKED with the reason UNREADABLE, and its detail names the unreadable columns. So people find it in
lists, can look at it and can end it. When the row has been repaired by hand, it is read as it is. Knows rows and
records, and nothing about connections.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, TypeGuard

import attrs
from msgspec.json import encode

from durable.backends.base import Query, R, Workflows
from durable.backends.sql import rows
from durable.backends.sql.tables import Row
from durable.errors import CodecError
from durable.model.records import CancelCause, OnParentClose, ParkReason, WorkflowRecord, WorkflowStatus

# The values shown in place of columns that cannot be read.
_STAND_IN = rows.workflow_row(
    WorkflowRecord(key=0, id="?", name="?", status=WorkflowStatus.PARKED, input="{}", created_at=0, start_at=0)
)
_COLUMNS = ", ".join(f"{column} = ?" for column in rows.WORKFLOW.columns)
# Writes a whole row: the parameters of its insert, and the key once more.
MEND = f"UPDATE workflow SET {_COLUMNS} WHERE key = ?"
# The columns that say how a workflow ended and which parent may ask. If one of them is damaged, the end is unknown.
_ENDING = {"status", "finished_at", "result", "error", "parent_key", "parent_place"}


# --- finding them -------------------------------------------------------------------------------------------------


def _is_strange(column: str, kind: type[enum.Enum]) -> str:
    return f"{column} NOT IN ({', '.join(repr(member.value) for member in kind)})"


_ENUMS = {
    "status": WorkflowStatus,
    "park_reason": ParkReason,
    "on_parent_close": OnParentClose,
    "cancel_cause": CancelCause,
}
# Finds texts that this version would not write as tags. A JSON list with other values between two texts is not found:
# that would take too long.
_TAGS = (
    "tags <> '[]' AND (tags NOT GLOB '[[]\"*\"]' OR instr(tags, '\"\"') OR instr(tags, '\\u') OR NOT json_valid(tags))"
)
_SELECT = f"SELECT {rows.WORKFLOW.select()} FROM workflow WHERE "
# Every damaged row that SQL can recognise, and a few sound ones: rows with old cursors are read to be sure.
_SUSPICIOUS = _SELECT + " OR ".join(
    [
        *rows.WORKFLOW.strange(),
        *(_is_strange(column, kind) for column, kind in _ENUMS.items()),
        _TAGS,
        "cursors <> '[]'",
        # The part after the round, if there is one, and the round.
        "substr(parent_place, instr(parent_place, ':') + 1) = ''",
        "substr(parent_place, instr(parent_place, ':') + 1) GLOB '*[^0-9A-Za-z_.%~]*'",
        "substr(parent_place, 1, instr(parent_place, ':') - 1) GLOB '*[^0-9]*' AND instr(parent_place, ':')",
    ]
)
_KNOWN = f"{_SELECT}key IN (SELECT value FROM json_each(:keys))"


class Damage:
    """The keys of the workflows whose rows could not be read, of the rows that were read so far."""

    def __init__(self) -> None:
        self.keys: set[int] = set()
        self._has_looked = False

    def record(self, row: Row) -> WorkflowRecord:
        """The record of a row, damaged or not; updates `keys`. Raises `CodecError` if its id or key cannot be read."""
        record = workflow_of(row)
        if record.is_damaged:
            self.keys.add(record.key)
        elif self.keys:
            self.keys.discard(record.key)
        return record

    def for_query(self, query: object, read: Callable[[str, dict[str, Any]], list[Row]]) -> set[int]:
        """The keys that affect a question: none, unless it filters by the shown status.

        Rows that were damaged are read again, because they may have been repaired. The first question for parked
        workflows searches the whole table. Later damage, and text that is not UTF-8, is found when the row is read for
        another reason.
        """
        if not is_by_shown_status(query):
            return set()
        looks_at_all = not self._has_looked and WorkflowStatus.PARKED in query.statuses
        if not looks_at_all and not self.keys:
            return self.keys
        suspicious = read(_KNOWN, {"keys": encode(sorted(self.keys)).decode()})
        if looks_at_all:
            suspicious += read(_SUSPICIOUS, {})
            self._has_looked = True
        self.keys.clear()
        for row in suspicious:
            try:
                self.record(row)
            except CodecError:
                # Without an id there is nothing to show. The store logs the row when it reads it.
                continue
        return self.keys


def is_by_shown_status(query: object) -> TypeGuard[Workflows]:
    """Whether a question filters workflows by the status that people see."""
    return isinstance(query, Workflows) and query.as_shown and bool(query.statuses)


def fitting(query: Query[R], records: list[R]) -> list[R]:
    """The records that fit the question. The damage, or the repair, of some rows is only noticed when they are read."""
    if not is_by_shown_status(query):
        return records
    return [record for record in records if isinstance(record, WorkflowRecord) and record.status in query.statuses]


# --- showing one --------------------------------------------------------------------------------------------------


def workflow_of(row: Row) -> WorkflowRecord:
    """The record of a row, even if it is damaged. Raises `CodecError` if its id or key cannot be read."""
    try:
        return rows.WORKFLOW.record(row)
    except CodecError as error:
        return _parked(row, error)


def _parked(row: Row, error: CodecError) -> WorkflowRecord:
    """The record shown for a damaged row: PARKED, with all columns that can be read.

    `error` is raised again if the id or the key is damaged, because then there is nothing to show.
    """
    values = list(_STAND_IN)
    problems: dict[str, str] = {}
    for place, column in enumerate(rows.WORKFLOW.columns):
        # Test each column alone, in a row that is otherwise sound.
        probe = (*_STAND_IN[:place], row[place], *_STAND_IN[place + 1 :])
        try:
            rows.WORKFLOW.record(probe)
        except CodecError as problem:
            if column in ("key", "id"):
                raise error from None
            problems[column] = problem.problem
        else:
            values[place] = row[place]
    columns = ", ".join(f"{column} ({problem})" for column, problem in problems.items())
    detail = f"its row cannot be read: {columns}; repair it in the store, or terminate the workflow"
    legible = rows.WORKFLOW.record(tuple(values))
    has_ended = legible.status.is_terminal and legible.finished_at is not None and _ENDING.isdisjoint(problems)
    return attrs.evolve(
        legible,
        status=WorkflowStatus.PARKED,
        park_reason=ParkReason.UNREADABLE,
        park_detail=detail,
        # A parked workflow has no deadline, and one that has not ended has no end.
        wake_at=None,
        finished_at=None,
        result=None,
        error=None,
        is_damaged=True,
        mended=legible if has_ended else None,
    )

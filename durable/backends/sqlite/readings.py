"""The questions of the engine, answered from a connection: what the store that writes and its readers have in common.

Knows the tables and what damaged rows mean. Knows nothing about how a connection is opened, or what an error means.
"""

from __future__ import annotations

import abc
import logging
from collections.abc import Iterable, Sequence
from typing import TypeVar, cast

from durable.backends.base import HistoryLength, PendingCount, Query, R, Workflows
from durable.backends.sql import damaged, queries, rows
from durable.backends.sql.tables import Row, Table
from durable.errors import CodecError
from durable.model.records import HistoryEntry, WorkflowRecord

_log = logging.getLogger("durable")
T = TypeVar("T")
_WORKFLOW_BY = {column: f"SELECT {rows.WORKFLOW.select()} FROM workflow WHERE {column} = ?" for column in ("id", "key")}
HISTORY_SQL = f"SELECT {rows.HISTORY.select()} FROM history WHERE workflow = ? ORDER BY seq"


class Readings(abc.ABC):
    """The reading half of a store. A subclass says how a statement runs."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._logged: set[str] = set()
        self._damage = damaged.Damage()

    @abc.abstractmethod
    def _rows(self, sql: str, params: queries.Params | Row) -> list[Row]:
        """All rows of a statement. Text that is not UTF-8 is returned as bytes, which `Table.record` refuses."""

    def workflow(self, id: str) -> WorkflowRecord | None:
        """The workflow with this id; None if none is stored."""
        return self._workflow("id", id)

    def workflow_by_key(self, key: int) -> WorkflowRecord | None:
        """The workflow with this key; None if none is stored."""
        return self._workflow("key", key)

    def history(self, key: int) -> list[HistoryEntry]:
        """The history of a workflow, ordered by `seq`. Raises `CodecError` if an entry is damaged."""
        return rows.HISTORY.records(self._rows(HISTORY_SQL, (key,)))

    def find(self, query: Query[R]) -> Sequence[R]:
        """The rows that answer a question, without damaged ones. A page is full unless it is the last."""
        select = queries.select(query, self._damage.for_query(query, self._rows))
        if select.limit is None:
            return self._readable(select.table, self._rows(select.sql, {**select.params, "limit": -1}))
        fetch = select.limit
        while True:
            fetched = self._rows(select.sql, {**select.params, "limit": fetch})
            records = damaged.fitting(query, self._readable(select.table, fetched))
            if len(records) >= select.limit or len(fetched) < fetch:
                return records[: select.limit]
            # Rows were left out. Fetch more: the caller would take a short page for the last one.
            fetch *= 2

    def count(self, query: Workflows | PendingCount | HistoryLength) -> int:
        """The number of rows that answer a question. Its limit and its cursor are ignored."""
        sql, params = queries.count(query, self._damage.for_query(query, self._rows))
        return cast(int, self._rows(sql, params)[0][0])

    def _workflow(self, column: str, value: str | int) -> WorkflowRecord | None:
        fetched = self._rows(_WORKFLOW_BY[column], (value,))
        return self._record(rows.WORKFLOW, fetched[0]) if fetched else None

    def _readable(self, table: Table[T], fetched: Iterable[Row]) -> list[T]:
        """The records of the sound rows. Damaged rows stay in the store; each is logged once."""
        records: list[T] = []
        for row in fetched:
            try:
                records.append(self._record(table, row))
            except CodecError as error:
                self._log_once("a row cannot be read and is left out", error.where, error.problem)
        return records

    def _record(self, table: Table[T], row: Row) -> T:
        """The record of a row. A damaged workflow is shown as parked. Raises `CodecError` for other damaged rows."""
        if table is not rows.WORKFLOW:
            return table.record(row)
        record = self._damage.record(row)
        if record.is_damaged:
            self._log_once("a workflow is parked", f"{table.name} {record.id}", record.park_detail)
        return cast(T, record)

    def _log_once(self, subject: str, where: str, problem: object) -> None:
        """Log a problem once per place, because a damaged row is read again and again."""
        if where not in self._logged:
            self._logged.add(where)
            _log.error("%s: %s: %s: %s", self._path, subject, where, problem)

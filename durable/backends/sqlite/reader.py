"""Reads a store file without opening it as a store: beside a running engine, and without leaving a trace.

Takes no lock, migrates nothing and writes nothing; a file that needs a migration is refused. Knows the connection, and
how to read a workflow as it is at one moment. Knows nothing about what its callers look for.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import pathlib
import sqlite3
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

import attrs

from durable.backends.sql import indexes, queries, rows
from durable.backends.sql.tables import Row
from durable.backends.sqlite import generation, owner, schema, storefile
from durable.backends.sqlite.readings import Readings
from durable.errors import CodecError, DurableError, StorageUnavailable, StoreInUse, StoreUnusable
from durable.model.records import WorkflowHistory, WorkflowStatus

_log = logging.getLogger("durable")
T = TypeVar("T")
# Shows whether a file has changed: its inode, size and time of change, and whether it has a log.
Marks = tuple[int, int, int, bool]

# Short pages, because each statement reads one moment of the store. A long one would prevent the engine's checkpoints
# from restarting the log.
_PAGE = 500
# How often a closed file may change during a read before the reader gives up.
_TRIES = 10
_UNFINISHED = f"({' OR '.join(indexes.status_is(status) for status in WorkflowStatus if not status.is_terminal)})"
_WORKFLOW = f"SELECT {rows.WORKFLOW.select()} FROM workflow WHERE key = ? AND {_UNFINISHED}"
_HISTORY = f"SELECT {rows.HISTORY.select()} FROM history WHERE workflow = ? ORDER BY seq"


class StoreReader:
    """The unfinished workflows of a SQLite store. Use it as `with StoreReader("orders.db") as reader`.

    With `any_schema=True` it also opens stores of earlier versions, for questions that do not depend on the schema.

    Raises `StoreUnusable` or `StoreTooNew` for a file that is not a store of this version, `StorageUnavailable` for a
    file that cannot be read now. Not thread-safe.
    """

    def __init__(self, path: str | os.PathLike[str], *, any_schema: bool = False) -> None:
        self._path = os.fsdecode(path)
        self._any_schema = any_schema
        self._real = os.path.realpath(self._path)
        if not os.path.isfile(self._real):
            raise StoreUnusable(self._path, "there is no such file")
        self._connection: sqlite3.Connection | None = None
        self._is_immutable = False
        self._seen: Marks | None = None

    def __enter__(self) -> Self:
        # The first question opens and checks the file.
        self.look(id)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. May be called twice."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def keys(self, name: str | None = None) -> Iterator[int]:
        """The keys of all unfinished workflows, the oldest first. Read in pages, so later changes may be seen."""
        name_term = "" if name is None else " AND name = :name"
        sql = f"SELECT key FROM workflow WHERE key > :after AND {_UNFINISHED}{name_term} ORDER BY key LIMIT {_PAGE}"
        page: list[tuple[int]] = [(0,)]
        while page:
            params = {"after": page[-1][0], "name": name}
            page = self.look(functools.partial(_rows, sql=sql, params=params))
            yield from (key for (key,) in page)

    def read(self, key: int) -> WorkflowHistory | None:
        """A workflow and its history, both from the same moment; None if it has ended meanwhile.

        Raises `CodecError` if the row of the workflow is damaged. If an entry is damaged, the result says so instead.
        """
        rows_read = self.look(functools.partial(_read, key=key))
        if rows_read is None:
            return None
        row, entries = rows_read
        record = rows.WORKFLOW.record(row)
        try:
            return WorkflowHistory(record, tuple(map(rows.HISTORY.record, entries)))
        except CodecError as error:
            return WorkflowHistory(record, damage=str(error))

    def ask(self, question: Callable[[Readings], T]) -> T:
        """Ask questions of the engine, all of them at one moment. Raises what `question` raises."""

        def asked(connection: sqlite3.Connection) -> T | _Raised:
            connection.execute("BEGIN")
            try:
                return question(_AtOneMoment(self._path, connection))
            except DurableError as error:
                # Not raised before it is known that the file has not changed meanwhile.
                return _Raised(error)
            finally:
                connection.execute("COMMIT")

        answer = self.look(asked)
        if isinstance(answer, _Raised):
            raise answer.error
        return answer

    # --- the connection -------------------------------------------------------------------------------------------

    def look(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Ask the store a question, at one moment.

        A file that was closed in order has no log, and must be opened as immutable: otherwise SQLite would create a
        log. SQLite reads such a file without any lock, so it does not notice an engine that opens the file meanwhile.
        This method notices, and asks again.
        """
        for _ in range(_TRIES):
            before = self._marks()
            if self._is_immutable and before != self._seen:
                self.close()
            try:
                answer = question(self._connected(before))
            except sqlite3.Error as error:
                if self._is_settled(before):
                    raise storefile.refusal(self._path, error) from error
            else:
                if self._is_settled(before):
                    return answer
        raise StorageUnavailable(f"{self._path}: it keeps changing; try again")

    def _is_settled(self, before: Marks) -> bool:
        """Whether an answer is valid: the file has not changed while SQLite read it without a lock."""
        return not self._is_immutable or self._marks() == before

    def _marks(self) -> Marks:
        """The present marks of the file. Raises `StoreUnusable` if the file is gone."""
        try:
            status = os.stat(self._real)
        except OSError as error:
            raise StoreUnusable(self._path, f"it cannot be examined: {error.strerror}") from error
        try:
            has_wal = os.stat(f"{self._real}-wal").st_size > 0
        except OSError:
            has_wal = False
        return status.st_ino, status.st_size, status.st_mtime_ns, has_wal

    def _connected(self, marks: Marks) -> sqlite3.Connection:
        """The connection, opened and checked if there is none. It is immutable if the file has no log."""
        if self._connection is None:
            self._seen = marks
            has_wal = marks[-1]
            if has_wal:
                self._check_log()
            uri = f"{pathlib.Path(self._real).as_uri()}?mode=ro{'' if has_wal else '&immutable=1'}"
            self._is_immutable = not has_wal
            connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=5.0)
            try:
                connection.text_factory = _text_or_bytes
                self._check(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _check_log(self) -> None:
        # Skipped if an engine of this process has the store: it has checked the log, and would lose its locks if the
        # file were opened and closed here.
        with contextlib.suppress(StoreInUse), owner.unowned(self._real):
            generation.check_log(self._path, self._real)

    def _check(self, connection: sqlite3.Connection) -> None:
        """Raise `StoreUnusable` or `StoreTooNew` unless the schema is exactly the one that this durable reads."""
        schema.check(connection, self._path)
        if not self._any_schema and not schema.is_current(connection):
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            problem = f"it has schema version {version}, this durable reads {schema.SCHEMA_VERSION}"
            fix = "read it with the durable that wrote it, or read a migrated copy"
            raise StoreUnusable(self._path, f"{problem}; {fix}")


class _AtOneMoment(Readings):
    """The questions of the engine, in the transaction of a reader."""

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        super().__init__(path)
        self._connection = connection

    def _rows(self, sql: str, params: queries.Params | Row) -> list[Row]:
        return self._connection.execute(sql, params).fetchall()


@attrs.frozen
class _Raised:
    """An answer that is an error."""

    error: DurableError


def export_histories(
    path: str | os.PathLike[str], *, name: str | None = None, limit: int | None = None
) -> Iterator[WorkflowHistory]:
    """The unfinished workflows of a store file with their histories, the oldest first, one at a time.

    The file is only read, and an engine may be using it. A workflow with damaged rows is logged and left out. Raises
    `StoreUnusable`, `StoreTooNew` or `StorageUnavailable`.
    """
    count = 0
    with StoreReader(path) as reader:
        for key in reader.keys(name):
            if limit is not None and count >= limit:
                return
            try:
                history = reader.read(key)
                problem = None if history is None else history.damage
            except CodecError as error:
                history, problem = None, str(error)
            if problem is not None:
                _log.error("%s: a workflow cannot be read and is left out: %s", path, problem)
            elif history is not None:
                count += 1
                yield history


def _rows(connection: sqlite3.Connection, sql: str, params: dict[str, Any]) -> list[Any]:
    return connection.execute(sql, params).fetchall()


def _read(connection: sqlite3.Connection, key: int) -> tuple[Any, list[Any]] | None:
    """The rows of a workflow and its history, from one moment; None if the workflow has ended."""
    # One transaction: between two statements the workflow could call `continue_as`, and then has another history.
    connection.execute("BEGIN")
    try:
        row = connection.execute(_WORKFLOW, (key,)).fetchone()
        return None if row is None else (row, connection.execute(_HISTORY, (key,)).fetchall())
    finally:
        connection.execute("COMMIT")


def _text_or_bytes(raw: bytes) -> str | bytes:
    """Text as str, damaged text as bytes. `Table.record` then refuses the row with the damaged text only."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw

"""The store in a SQLite file, for one engine on one machine.

Knows the connection: how it is opened, what one transaction holds and what SQLite's errors mean. Must not know why
anything is stored or read; it has no clock and no policy. The SQL of reads is in `queries`, the shape of rows in
`rows`, the tables in `schema`, the checks of the file in `storefile`, its lock in `owner`.

SQLite before 3.51.3 can corrupt a WAL file when two connections write or checkpoint at the same moment ("WAL-reset"),
and common Pythons bundle such versions. So exactly one connection writes and checkpoints, this one; whoever else looks
at the file must open it with mode=ro.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeVar, cast

from durable.backends import owner, queries, rows, schedules, schema, storefile
from durable.backends.base import Batch, Opened, PendingCount, Query, R, Workflows
from durable.backends.tables import Row, Table
from durable.backends.wal import CHECKPOINT_FRAMES, Log
from durable.errors import (
    CodecError,
    InvalidValue,
    InvariantViolated,
    StoreFenced,
    StoreInUse,
    StoreUnusable,
    WrongType,
)
from durable.records import HistoryEntry, WorkflowRecord

_log = logging.getLogger("durable")
T = TypeVar("T")

# What a commit can meet only through a bug of ours: a key that exists, a value that no column takes.
_BUGS = (
    sqlite3.IntegrityError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    sqlite3.DataError,
    OverflowError,
    UnicodeEncodeError,
)

# The number must follow the last one of this incarnation. The serial never goes back: a key given out twice would mix
# up two workflows.
_BY = {column: f"SELECT {rows.WORKFLOW.select()} FROM workflow WHERE {column} = ?" for column in ("id", "key")}
_HISTORY = f"SELECT {rows.HISTORY.select()} FROM history WHERE workflow = ? ORDER BY seq"
_FENCE = (
    "UPDATE meta SET batch = ?1, serial = max(serial, ?2), clean = ?3 WHERE id = 1 AND incarnation = ?4 AND batch = ?5"
)
_INSERT_TAG = "INSERT INTO workflow_tag (tag, workflow) VALUES (?, ?)"
_INSERT_WORKFLOW = rows.WORKFLOW.insert()
_INSERT_HISTORY = rows.HISTORY.insert()
_PUT_WAIT = rows.WAIT.insert("INSERT OR REPLACE", without=rows.QUESTION)
_PUT_PAUSE = rows.WAIT.insert("INSERT OR REPLACE")
_PUT_EVENT = rows.EVENT.insert("INSERT OR REPLACE")
_PUT_LETTER = rows.LETTER.insert("INSERT OR REPLACE")
_PUT_SENT = rows.SENT.insert("INSERT OR REPLACE")
_PUT_PROGRESS = rows.PROGRESS.insert("INSERT OR REPLACE")
_PUT_SCHEDULE = schedules.SCHEDULE.insert("INSERT OR REPLACE")


# For people who watch a row. Nobody here reads it, so whatever it holds must not make a commit fail.
_REVISION = f"revision = (ifnull(revision, 0) + 1) & {(1 << 62) - 1}"
# A column that is set anew, and stays as it is, still costs its time, and that of its index.
_CHANGE_WORKFLOW = f"UPDATE workflow SET {', '.join(f'{one} = ?' for one in rows.CHANGING)}, {_REVISION} WHERE key = ?"


def _restart_workflow() -> str:
    """The update of a workflow that begins anew, with the same parameters as its insert: column n is ?n."""
    never = {"key", "id", "created_at", "parent_key", "parent_place", "on_parent_close", "tags"}
    numbered = enumerate(rows.WORKFLOW.columns, start=1)
    changes = ", ".join(f"{column} = ?{number}" for number, column in numbered if column not in never)
    return f"UPDATE workflow SET {changes}, {_REVISION} WHERE key = ?1"


_RESTART_WORKFLOW = _restart_workflow()

_PURGE = (
    "DELETE FROM workflow WHERE key = ?",
    "DELETE FROM history WHERE workflow = ?",
    "DELETE FROM event_wait WHERE workflow = ?",
    "DELETE FROM pending_event WHERE target = ?",
    "DELETE FROM workflow_tag WHERE workflow = ?",
    "DELETE FROM progress WHERE workflow = ?",
)


class SqliteBackend:
    """A store in one SQLite file. `synchronous="FULL"` survives a power cut, "NORMAL" only the end of the process."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
        busy_timeout: float = 5.0,
    ) -> None:
        given: object = path
        if not isinstance(given, (str, os.PathLike)):
            raise WrongType("path", f"must be a path, not {type(given).__name__}")
        if synchronous not in ("FULL", "NORMAL"):
            raise InvalidValue("synchronous", f"must be 'FULL' or 'NORMAL', not {synchronous!r}")
        if not 0 <= busy_timeout <= 3600 or math.isnan(busy_timeout):
            raise InvalidValue("busy_timeout", f"must be 0 to 3600 seconds, not {busy_timeout}")
        self._path = os.fsdecode(path)
        self._synchronous = synchronous
        self._busy_timeout = busy_timeout
        self._incarnation = ""
        self._connection: sqlite3.Connection | None = None
        self._owner: owner.Owner | None = None
        self._log = Log(self._path)
        self._told: set[str] = set()

    def __repr__(self) -> str:
        return f"SqliteBackend({self._path!r})"

    # --- open and close -------------------------------------------------------------------------------------------

    def open(self, incarnation: str) -> Opened:
        if self._connection is not None:
            raise StoreInUse(self._path, f"another engine in this process, {os.getpid()}")
        real = storefile.check(self._path)
        self._owner = owner.take(real)
        try:
            self._connection = self._connect(real)
            self._log = Log(real)
            opened = self._take(self._connection, incarnation)
        except sqlite3.Error as error:
            self.close()
            raise storefile.refusal(self._path, error) from error
        except BaseException:
            self.close()
            raise
        self._incarnation = incarnation
        return opened

    def _connect(self, real: str) -> sqlite3.Connection:
        """The one connection. A method, so that tests of power loss can put a disk that forgets under it."""
        return sqlite3.connect(
            real,
            timeout=self._busy_timeout,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )

    def _take(self, connection: sqlite3.Connection, incarnation: str) -> Opened:
        # Again, now that nobody else can change it: the first look was before the lock.
        schema.check(connection, self._path)
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise StoreUnusable(self._path, f"this file system does not support WAL (journal mode {mode!r})")
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.execute("PRAGMA foreign_keys = OFF")
        # A WAL that one great batch has blown up is cut back at the next checkpoint.
        connection.execute("PRAGMA journal_size_limit = 67108864")
        # A checkpoint writes every changed page once, so fewer of them write less; 16 MB of WAL are read quickly.
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_FRAMES}")
        connection.execute("BEGIN IMMEDIATE")
        if not schema.is_current(connection):
            schema.migrate(connection)
        row = connection.execute("SELECT serial, clean FROM meta WHERE id = 1").fetchone()
        if row is None:
            raise StoreUnusable(self._path, "it was altered by hand: the row of the table meta is missing")
        # Not clean from the first moment on: an engine may die of what it loads before it commits anything.
        connection.execute("UPDATE meta SET incarnation = ?, batch = 0, clean = 0 WHERE id = 1", (incarnation,))
        connection.execute("COMMIT")
        return Opened(serial=row[0], clean=bool(row[1]))

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            _roll_back(connection)
            # PASSIVE does not wait for readers. Nothing is lost if it fails: the WAL holds everything.
            with contextlib.suppress(sqlite3.Error):
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        # Last, so that the next owner finds no connection of ours at work.
        held, self._owner = self._owner, None
        if held is not None:
            held.release()

    # --- write ----------------------------------------------------------------------------------------------------

    def commit(self, batch: Batch) -> None:
        connection = self._taken()
        fence = (batch.number, batch.serial, int(batch.clean_stop), self._incarnation, batch.number - 1)
        try:
            connection.execute("BEGIN IMMEDIATE")
            self._log.lay_out()
            if connection.execute(_FENCE, fence).rowcount != 1:
                raise StoreFenced(self._path)
            _drop(connection, batch)
            _put(connection, batch)
            connection.execute("COMMIT")
        except BaseException:
            # Only what goes wrong goes through there: the way in and out takes longer than many a statement.
            with self._translated():
                raise

    def last_batch(self) -> int:
        with self._translated() as connection:
            sql = "SELECT batch FROM meta WHERE id = 1 AND incarnation = ?"
            row = connection.execute(sql, (self._incarnation,)).fetchone()
        if row is None:
            raise StoreFenced(self._path)
        return cast(int, row[0])

    # --- read -----------------------------------------------------------------------------------------------------

    def workflow(self, id: str) -> WorkflowRecord | None:
        return self._workflow("id", id)

    def workflow_by_key(self, key: int) -> WorkflowRecord | None:
        return self._workflow("key", key)

    def history(self, key: int) -> list[HistoryEntry]:
        return [rows.HISTORY.record(row) for row in self._rows(_HISTORY, (key,))]

    def find(self, query: Query[R]) -> Sequence[R]:
        select = queries.select(query)
        if select.limit is None:
            return self._readable(select.table, self._rows(select.sql, {**select.params, "limit": -1}))
        fetch = select.limit
        while True:
            found = self._rows(select.sql, {**select.params, "limit": fetch})
            good: list[R] = self._readable(select.table, found)
            if len(good) >= select.limit or len(found) < fetch:
                return good[: select.limit]
            # Rows were left out. A page must not come out short for that: its reader would take it for the last.
            fetch *= 2

    def count(self, query: Workflows | PendingCount) -> int:
        sql, params = queries.count(query)
        return cast(int, self._rows(sql, params)[0][0])

    def _workflow(self, column: str, value: str | int) -> WorkflowRecord | None:
        found = self._rows(_BY[column], (value,))
        return rows.WORKFLOW.record(found[0]) if found else None

    def _rows(self, sql: str, params: queries.Params | Row) -> list[Row]:
        if self._connection is not None:
            # The short way first: what goes wrong is asked once more below, where errors are told in our words.
            try:
                return self._connection.execute(sql, params).fetchall()
            except sqlite3.Error:
                pass
        with self._translated() as connection:
            try:
                return connection.execute(sql, params).fetchall()
            except sqlite3.OperationalError as error:
                if "decode to UTF-8" not in str(error):
                    raise
            # Damaged text in one row must not hide the others, nor look like a store that may come back.
            connection.text_factory = _text_or_bytes
            try:
                return connection.execute(sql, params).fetchall()
            finally:
                connection.text_factory = str

    def _readable(self, table: Table[T], found: Iterable[Row]) -> list[T]:
        """The records of the rows that hold one. The others stay where they are and are logged, each once."""
        records: list[T] = []
        for row in found:
            try:
                records.append(table.record(row))
            except CodecError as error:
                if error.where not in self._told:
                    self._told.add(error.where)
                    _log.error("%s: a row cannot be read and is left out: %s", self._path, error)
        return records

    def _taken(self) -> sqlite3.Connection:
        if self._connection is None:
            raise InvariantViolated(f"{self!r} is used while it is not open")
        return self._connection

    @contextlib.contextmanager
    def _translated(self) -> Iterator[sqlite3.Connection]:
        """The connection; no transaction and no bare error of SQLite gets out of this block."""
        connection = self._taken()
        try:
            yield connection
        except _BUGS as error:
            _roll_back(connection)
            raise InvariantViolated(f"{self._path}: {error}") from error
        except sqlite3.Error as error:
            _roll_back(connection)
            raise storefile.trouble(self._path, error) from error
        except BaseException:
            _roll_back(connection)
            raise


def _roll_back(connection: sqlite3.Connection) -> None:
    # SQLite ends the transaction by itself on some errors (a full disk), and a broken disk can fail here as well; the
    # error that led here is the one to tell.
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _text_or_bytes(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _drop(connection: sqlite3.Connection, batch: Batch) -> None:
    run = connection.executemany
    if batch.workflows_purged:
        keys = [(key,) for key in batch.workflows_purged]
        for statement in _PURGE:
            run(statement, keys)
    if batch.history_cleared:
        run("DELETE FROM history WHERE workflow = ?", [(key,) for key in batch.history_cleared])
    if batch.waits_dropped:
        run("DELETE FROM event_wait WHERE workflow = ? AND position = ?", batch.waits_dropped)
    if batch.events_dropped:
        run("DELETE FROM pending_event WHERE serial = ?", [(serial,) for serial in batch.events_dropped])
    if batch.letters_dropped:
        run("DELETE FROM dead_letter WHERE id = ?", [(id,) for id in batch.letters_dropped])
    if batch.sent_dropped:
        run("DELETE FROM sent_event WHERE event_id = ?", [(event_id,) for event_id in batch.sent_dropped])
    if batch.schedules_dropped:
        run("DELETE FROM schedule WHERE key = ?", [(key,) for key in batch.schedules_dropped])


def _put(connection: sqlite3.Connection, batch: Batch) -> None:
    run = connection.executemany
    if batch.workflows_new:
        run(_INSERT_WORKFLOW, [rows.workflow_row(record) for record in batch.workflows_new.values()])
        tagged = [(key, record.tags) for key, record in batch.workflows_new.items() if record.tags]
        if tagged:
            run(_INSERT_TAG, [(tag, key) for key, tags in tagged for tag in dict.fromkeys(tags)])
    if batch.workflows_changed:
        _update_workflows(connection, batch)
    if batch.history:
        run(_INSERT_HISTORY, rows.history_rows(batch.history))
    if batch.history_trimmed:
        run("DELETE FROM history WHERE workflow = ? AND seq = ?", batch.history_trimmed)
    if batch.waits_put:
        waits = batch.waits_put.values()
        run(_PUT_WAIT, [rows.wait_row(wait) for wait in waits if wait.question is None])
        run(_PUT_PAUSE, rows.pause_rows(waits))
    if batch.events_put:
        run(_PUT_EVENT, [rows.event_row(event) for event in batch.events_put.values()])
    if batch.letters_put:
        run(_PUT_LETTER, [rows.letter_row(letter) for letter in batch.letters_put.values()])
    if batch.sent_put:
        run(_PUT_SENT, [rows.sent_row(sent) for sent in batch.sent_put.values()])
    if batch.progress_put:
        run(_PUT_PROGRESS, [rows.progress_row(one) for one in batch.progress_put.values()])
    if batch.schedules_put:
        run(_PUT_SCHEDULE, [schedules.schedule_row(one) for one in batch.schedules_put.values()])


def _update_workflows(connection: sqlite3.Connection, batch: Batch) -> None:
    changed, anew = batch.workflows_changed.values(), batch.history_cleared
    going_on = [rows.change_row(record) for record in changed if record.key not in anew]
    count = connection.executemany(_CHANGE_WORKFLOW, going_on).rowcount if going_on else 0
    if anew:
        begun = [rows.workflow_row(record) for record in changed if record.key in anew]
        count += connection.executemany(_RESTART_WORKFLOW, begun).rowcount if begun else 0
    # An update of a row that is not there says nothing by itself, and the change would be lost.
    if count != len(changed):
        raise InvariantViolated("a batch changes a workflow that is not stored")

"""`SqliteBackend`: the store in a SQLite file, for one engine on one machine.

Knows the connection: how it is opened, what a transaction contains and what SQLite's errors mean. Knows nothing about
why rows are stored or read; it has no clock and no policy. The essay of this folder lists the modules that it uses.

SQLite before 3.51.3 can corrupt a WAL file if two connections write or checkpoint at the same moment ("WAL-reset"),
and common Pythons bundle such versions. So exactly one connection writes and checkpoints, the one in this module. Any
other connection to the file must be opened with mode=ro.

Errors have three meanings here. A bug in durable (`_BUGS`) becomes `InvariantViolated`. Damage becomes
`StoreUnusable`, and a repeat cannot help. Everything else, such as a full disk or a lock, becomes `StorageUnavailable`,
and the coordinator tries the commit again. In all three cases no transaction is left open.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import sqlite3
from collections.abc import Callable, Iterator
from typing import Literal, TypeVar, cast

import attrs

from durable.backends.base import Batch, Opened
from durable.backends.sql import queries, rows, writing
from durable.backends.sql.tables import Row
from durable.backends.sqlite import generation, opening, owner, schema, storefile, vacuum
from durable.backends.sqlite.copying import Copies
from durable.backends.sqlite.filewatch import FileWatch
from durable.backends.sqlite.reader import StoreReader
from durable.backends.sqlite.readings import HISTORY_SQL, Readings
from durable.backends.sqlite.stepmark import StepMark
from durable.backends.sqlite.vacuum import Shrinking
from durable.backends.sqlite.wal import Log
from durable.errors import (
    EngineClosed,
    InvalidValue,
    InvariantViolated,
    StoreFenced,
    StoreInUse,
    StoreUnusable,
    WrongType,
)
from durable.model.records import HistoryEntry

_log = logging.getLogger("durable")
T = TypeVar("T")
# After this many commits the backend checks whether its files are still there.
_LOOK_EVERY = 10

# Errors that only a bug in durable can cause: a key that exists already, a value that no column accepts.
_BUGS = (
    sqlite3.IntegrityError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    sqlite3.DataError,
    OverflowError,
    UnicodeEncodeError,
)

# So many rows of a history are read at once.
_PAGE = 500
# The batch number must follow the last one of this incarnation. The serial never goes back: a key that is used twice
# would mix up two workflows.
_FENCE = "UPDATE meta SET batch = ?, serial = max(serial, ?), clean = ? WHERE id = 1 AND incarnation = ? AND batch = ?"


def _check_options(path: object, synchronous: object, busy_timeout: float) -> None:
    """Check the arguments of `SqliteBackend`. Raises `WrongType` or `InvalidValue`."""
    if not isinstance(path, (str, os.PathLike)):
        raise WrongType("path", f"must be a path, not {type(path).__name__}")
    if synchronous not in ("FULL", "NORMAL"):
        raise InvalidValue("synchronous", f"must be 'FULL' or 'NORMAL', not {synchronous!r}")
    if not 0 <= busy_timeout <= 3600 or math.isnan(busy_timeout):
        raise InvalidValue("busy_timeout", f"must be 0 to 3600 seconds, not {busy_timeout}")


class SqliteBackend(Readings):
    """A store in one SQLite file.

    With `synchronous="FULL"` a commit survives a power cut, with "NORMAL" only the end of the process. `busy_timeout`
    is how many seconds to wait for a lock of another process. `vacuum=True` rewrites a file of an earlier version when
    it is opened, so that the file can shrink.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
        busy_timeout: float = 5.0,
        vacuum: bool = False,
    ) -> None:
        _check_options(path, synchronous, busy_timeout)
        super().__init__(os.fsdecode(path))
        self._synchronous, self._busy_timeout, self._must_vacuum = synchronous, busy_timeout, vacuum
        self._incarnation = ""
        self._is_brief = False
        self._connection: sqlite3.Connection | None = None
        self.held: owner.Owner | None = None
        self._mark: StepMark | None = None
        self._log = Log(self._path)
        self._watch: FileWatch | None = None
        # The backups while the store is open here, and those while another process has it open.
        self._copies: Copies | None = None
        self._copies_beside = Copies(self._path)
        self._shrinking = Shrinking()
        self._commits = 0

    def __repr__(self) -> str:
        return f"SqliteBackend({self._path!r})"

    @property
    def path(self) -> str:
        """The path, as it was passed."""
        return self._path

    # --- open and close -------------------------------------------------------------------------------------------

    def open(self, incarnation: str) -> Opened:
        """Take the store: check, lock, connect, migrate, watch. A failure closes everything that was opened."""
        self._is_brief = False
        return self._open(incarnation)

    def open_briefly(self, incarnation: str) -> Opened:
        """Like `open`, for a moment in which an engine that starts waits instead of being refused."""
        self._is_brief = True
        return self._open(incarnation)

    def _open(self, incarnation: str) -> Opened:
        if self._connection is not None:
            raise StoreInUse(self._path, f"another engine in this process, {os.getpid()}")
        # Their connections close the file, which would drop the locks that are taken now.
        self._copies_beside.end()
        try:
            real, self.held = owner.patiently(self._claim)
        except BaseException:
            self._copies_beside = Copies(self._path)
            raise
        try:
            self._connection = self._connect(real)
            self._log = Log(real)
            opened = self._take(self._connection, incarnation)
            self._mark = StepMark(real)
            self._watch = FileWatch(self._path, real, self.held, self._connection)
            self._copies = Copies(real)
        except sqlite3.Error as error:
            self.close()
            raise storefile.refusal(self._path, error) from error
        except BaseException:
            self.close()
            raise
        self._incarnation = incarnation
        return attrs.evolve(opened, marked=self._mark.left, mark=self._mark.cell)

    def _claim(self) -> tuple[str, owner.Owner]:
        """The real path, and the locks."""
        real = storefile.check(self._path)
        return real, owner.take(real, is_brief=self._is_brief)

    def _connect(self, real: str) -> sqlite3.Connection:
        """The only connection that writes. A method, so that tests of power loss can simulate the disk under it."""
        return sqlite3.connect(
            real, timeout=self._busy_timeout, isolation_level=None, check_same_thread=False, cached_statements=256
        )

    def _take(self, connection: sqlite3.Connection, incarnation: str) -> Opened:
        """Set up the connection and record this incarnation, in one transaction with the migration."""
        # Check again, now that the lock is held: the first check was before it.
        schema.check(connection, self._path)
        opening.prepare(connection, self._path, self._synchronous)
        assert self.held is not None
        if self._must_vacuum:
            vacuum.convert(connection, self.held)
        number = generation.announce(connection, self.held, incarnation)
        connection.execute("BEGIN IMMEDIATE")
        if not schema.is_current(connection):
            schema.migrate(connection)
        row = connection.execute("SELECT serial, clean FROM meta WHERE id = 1").fetchone()
        if row is None:
            raise StoreUnusable(self._path, "it was changed by hand: the row of the table meta is missing")
        # Mark it as not clean from the start: a body that is loaded may kill the engine before its first commit.
        clean = int(self._is_brief and bool(row[1]))
        connection.execute("UPDATE meta SET incarnation = ?, batch = 0, clean = ? WHERE id = 1", (incarnation, clean))
        connection.execute(f"PRAGMA schema_version = {number}")
        connection.execute("COMMIT")
        # Checkpoint now, so that the file itself has the new generation.
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        return Opened(serial=row[0], clean=bool(row[1]))

    def close(self) -> None:
        """Close in the reverse order of dependence: backups, connection, mark, and the locks last."""
        if self._copies is not None:
            self._copies.end()
        connection, self._connection = self._connection, None
        watch, self._watch = self._watch, None
        if connection is not None:
            opening.close(connection, watch)
        if self._mark is not None:
            self._mark.close()
        # Last, so that this connection is closed before another engine can take the store.
        held, self.held = self.held, None
        if held is not None:
            held.release()

    # --- write ----------------------------------------------------------------------------------------------------

    def commit(self, batch: Batch) -> None:
        """Apply a batch in one transaction, which the fence checks first: another engine may have taken over."""
        connection = self._taken()
        fence = (batch.number, batch.serial, int(batch.clean_stop), self._incarnation, batch.number - 1)
        try:
            connection.execute("BEGIN IMMEDIATE")
            self._log.lay_out()
            if connection.execute(_FENCE, fence).rowcount != 1:
                raise StoreFenced(self._path)
            writing.drop(connection, batch)
            writing.put(connection, batch, self._damage.keys)
            connection.execute("COMMIT")
            self._commits += 1
            if not self._commits % _LOOK_EVERY and self._watch is not None:
                self._watch.look()
        except BaseException:
            # Only failures enter the context manager: entering and leaving it takes longer than many a statement.
            with self._translated():
                raise

    def check(self) -> None:
        if self._watch is not None:
            self._watch.check()

    def limit_wait(self, seconds: float) -> None:
        with self._translated() as connection:
            connection.execute(f"PRAGMA busy_timeout = {int(1000 * min(seconds, self._busy_timeout))}")

    def shrink(self) -> bool:
        with self._translated() as connection:
            return self._shrinking.step(connection)

    def backup(self, target: str, *, overwrite: bool, is_stopped: Callable[[], bool]) -> None:
        copies = self._copies or self._copies_beside
        if copies is self._copies_beside and not self.is_taken():
            raise EngineClosed("nobody has the store open")
        copies.make(target, overwrite=overwrite, is_stopped=is_stopped)

    def control_path(self) -> str | None:
        return owner.control_path(self._path)

    def is_taken(self) -> bool:
        return owner.is_taken(os.path.realpath(self._path))

    def last_batch(self) -> int:
        """The number of the last commit. Raises `StoreFenced` if another incarnation has taken the store."""
        with self._translated() as connection:
            sql = "SELECT batch FROM meta WHERE id = 1 AND incarnation = ?"
            row = connection.execute(sql, (self._incarnation,)).fetchone()
        if row is None:
            raise StoreFenced(self._path)
        return cast(int, row[0])

    # --- read -----------------------------------------------------------------------------------------------------

    def history(self, key: int) -> list[HistoryEntry]:
        # An error is translated when the statement runs again.
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                return _history(self._connection, key)
        return super().history(key)

    def read(self, question: Callable[[Readings], T]) -> T:
        with StoreReader(self._path) as reader:
            return reader.ask(question)

    def _rows(self, sql: str, params: queries.Params | Row) -> list[Row]:
        """All rows of a statement. Text that is not UTF-8 is returned as bytes, which `Table.record` refuses."""
        if self._connection is not None:
            # The fast path. A statement that fails runs again below, where its errors are translated.
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
            # Damaged text in one row must not hide the other rows, or look like a store that is unavailable for now.
            return _with_damaged_text(connection, sql, params)

    def _taken(self) -> sqlite3.Connection:
        if self._connection is None:
            raise InvariantViolated(f"{self!r} is used but is not open")
        return self._connection

    @contextlib.contextmanager
    def _translated(self) -> Iterator[sqlite3.Connection]:
        """The connection. After an error no transaction is open, and the error is one of durable."""
        connection = self._taken()
        try:
            yield connection
        except _BUGS as error:
            opening.roll_back(connection)
            raise InvariantViolated(f"{self._path}: {error}") from error
        except sqlite3.Error as error:
            opening.roll_back(connection)
            raise storefile.trouble(self._path, error) from error
        except BaseException:
            opening.roll_back(connection)
            raise


def _history(connection: sqlite3.Connection, key: int) -> list[HistoryEntry]:
    """The history of a workflow, read in pages: rows and entries in memory side by side would double the work of the
    garbage collector."""
    with contextlib.closing(connection.execute(HISTORY_SQL, (key,))) as cursor:
        page = cursor.fetchmany(_PAGE)
        entries = rows.HISTORY.records(page)
        while len(page) == _PAGE:
            page = cursor.fetchmany(_PAGE)
            entries += rows.HISTORY.records(page)
    return entries


def _with_damaged_text(connection: sqlite3.Connection, sql: str, params: queries.Params | Row) -> list[Row]:
    """All rows of a statement, with text that is not UTF-8 as bytes."""
    connection.text_factory = _text_or_bytes
    try:
        return connection.execute(sql, params).fetchall()
    finally:
        connection.text_factory = str


def _text_or_bytes(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw

"""Our SQLite backend over a disk that keeps a diary, with a fingerprint of the store at every commit.

The standard sqlite3 module cannot use another file layer, but apsw can. So the backend's one connection is an apsw
connection behind the few methods of `sqlite3.Connection` that the backend uses. Everything else is the real backend.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, cast

import apsw
import apsw.ext
import attrs

from durable.backends.base import Batch, Opened
from durable.backends.sqlite import SqliteBackend
from durable.backends.sqlite.wal import Log
from tests.power.disk import Act, DiaryVFS, Write

_numbers = itertools.count()


@contextlib.contextmanager
def _told_as_sqlite3() -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise sqlite3.OperationalError(str(error)) from error


@attrs.define
class _Cursor:
    """The rows of a statement."""

    rows: list[tuple[Any, ...]]
    rowcount: int
    lastrowid: int = 0
    _describe: Callable[[], Any] = tuple

    @property
    def description(self) -> Any:
        """The columns, which are needed only when a schema is created."""
        return self._describe()

    def fetchone(self) -> tuple[Any, ...] | None:
        return self.rows[0] if self.rows else None

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        page, self.rows = self.rows[:size], self.rows[size:]
        return page

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self.rows

    def close(self) -> None:
        """Nothing is open: all rows were read."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)


class _Connection:
    """The part of `sqlite3.Connection` that the backend and its migrations use."""

    text_factory: Any = str

    def __init__(self, path: str, vfs: str) -> None:
        self._inner = apsw.Connection(path, vfs=vfs)

    @property
    def in_transaction(self) -> bool:
        return self._inner.in_transaction

    def execute(self, sql: str, parameters: Any = ()) -> _Cursor:
        with _told_as_sqlite3():
            before = self._inner.total_changes()
            rows = self._inner.execute(sql, parameters).fetchall()
            changes = self._inner.total_changes() - before
            last = self._inner.last_insert_rowid()
        return _Cursor(rows, changes, last, lambda: apsw.ext.query_info(self._inner, sql).description)

    def executemany(self, sql: str, parameters: Iterable[Any]) -> _Cursor:
        with _told_as_sqlite3():
            before = self._inner.total_changes()
            self._inner.executemany(sql, parameters)
            return _Cursor([], self._inner.total_changes() - before)

    def close(self) -> None:
        with _told_as_sqlite3():
            self._inner.close()


@attrs.frozen
class Commit:
    """A commit that has returned: the length of the diary at that moment, and what the store held."""

    at: int
    contents: str


@attrs.define(eq=False)
class Recording:
    """Everything that happened to one store, by any number of engines in turn."""

    diary: list[Act] = attrs.field(factory=list)
    # By incarnation and batch number. Batch 0 is the opening.
    commits: dict[tuple[str, int], Commit] = attrs.field(factory=dict)
    # The acknowledgements, each with the length of the diary at that moment.
    acks: list[tuple[int, str, str]] = attrs.field(factory=list)

    def acknowledge(self, kind: str, id: str) -> None:
        """A client got an acknowledgement."""
        self.acks.append((len(self.diary), kind, id))


class _Log(Log):
    """The log of a store. The backend extends it without SQLite, so the diary must record that too."""

    def __init__(self, database: str, diary: list[Act]) -> None:
        super().__init__(database)
        self._diary = diary

    def _append(self, length: int, count: int) -> None:
        super()._append(length, count)
        self._diary.append(Write(os.path.basename(self._path), length, bytes(count)))


class RecordedBackend(SqliteBackend):
    """A SQLite store on a disk that keeps a diary. Checkpoints come often, so that everything that can happen does."""

    def __init__(
        self, path: Path, recording: Recording, *, synchronous: Literal["FULL", "NORMAL", "OFF"], checkpoint_pages: int
    ) -> None:
        # OFF is not offered to users. Here it shows that the judge notices its losses.
        super().__init__(path, synchronous="NORMAL" if synchronous == "OFF" else synchronous)
        self._recording = recording
        self._settings = [f"wal_autocheckpoint = {checkpoint_pages}"]
        if synchronous == "OFF":
            self._settings.append("synchronous = OFF")
        self._vfs = DiaryVFS(f"diary-{next(_numbers)}", recording.diary)

    def _connect(self, real: str) -> sqlite3.Connection:
        return cast(sqlite3.Connection, _Connection(real, self._vfs.name))

    def open(self, incarnation: str) -> Opened:
        opened = super().open(incarnation)
        self._log = _Log(self._path, self._recording.diary)
        assert self._connection is not None
        for setting in self._settings:
            self._connection.execute(f"PRAGMA {setting}")
        self._note(incarnation, 0)
        return opened

    def commit(self, batch: Batch) -> None:
        super().commit(batch)
        self._note(self._incarnation, batch.number)

    def _note(self, incarnation: str, number: int) -> None:
        assert self._connection is not None
        at = len(self._recording.diary)
        self._recording.commits[incarnation, number] = Commit(at, contents(self._connection))


def contents(connection: sqlite3.Connection) -> str:
    """A fingerprint of every row of every table."""
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    whole = hashlib.blake2b(digest_size=16)
    for (table,) in tables:
        whole.update(repr(connection.execute(f'SELECT * FROM "{table}" ORDER BY 1, 2').fetchall()).encode())
    return whole.hexdigest()

"""What an operator does with a store file from outside: back it up, restore it, migrate it.

Each function takes the owner's lock unless it only reads, so none of them can work on a file that an engine is writing.
Knows files, locks and the schema. Knows nothing about what is stored.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator

import attrs

from durable.backends.sqlite import generation, opening, owner, schema, storefile
from durable.backends.sqlite.copying import Copies
from durable.backends.sqlite.reader import StoreReader
from durable.errors import StorageUnavailable, StoreInUse, StoreUnusable
from durable.model.ids import new_id

_WRITES = ("CREATE", "ALTER", "DROP", "INSERT", "UPDATE", "DELETE", "REPLACE")


@attrs.frozen
class Migration:
    """What a migration does: from which schema version to which, and the names of its steps."""

    before: int
    after: int
    steps: tuple[str, ...]


def back_up(path: str, target: str, *, overwrite: bool) -> None:
    """Copy a store to a file, while an engine is using it or not.

    Raises a `StorageError`; the target is then unchanged. Without an engine the owner's lock is held meanwhile, so that
    none starts in the middle of the copy.
    """
    real = os.path.realpath(path)
    with StoreReader(path, any_schema=True):
        # It checks that the file is a store, and that its log belongs to it. Before the lock is taken: closing a file
        # would drop it.
        pass
    with contextlib.ExitStack() as opened:
        with contextlib.suppress(StoreInUse):
            opened.callback(owner.take(real, is_brief=True).release)
        Copies(real).make(target, overwrite=overwrite, is_stopped=lambda: False)


def restore(backup: str, path: str, *, overwrite: bool) -> None:
    """Put a backup in the place of a store. The backup stays. Raises a `StorageError`; the store is then unchanged."""
    _check_backup(backup)
    real = os.path.realpath(path)
    if os.path.exists(real):
        if os.path.samefile(backup, real):
            raise StoreUnusable(path, "it is the backup itself; name the store that it should replace")
        if not overwrite:
            raise StoreUnusable(path, "it already exists; pass --overwrite to replace it")
    elif not os.path.isdir(os.path.dirname(real)):
        raise StoreUnusable(path, f"the directory {os.path.dirname(real)!r} does not exist; create it first")
    existed = os.path.exists(real)
    held = owner.patiently(lambda: owner.take(real))
    partial = f"{real}-partial"
    try:
        mode = stat.S_IMODE(os.stat(real if existed else backup).st_mode)
        shutil.copyfile(backup, partial)
        os.chmod(partial, mode)
        _sync(partial)
        # The file before its old log: if this process dies in between, the next open finds that the log belongs to
        # another file, and says what to remove.
        os.replace(partial, real)
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(real + suffix)
        _sync(os.path.dirname(real))
    except OSError as error:
        raise StorageUnavailable(f"{path}: the restore failed: {error}") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)
        if not existed and os.path.exists(real) and os.path.getsize(real) == 0:
            # Taking the lock has created an empty file.
            os.unlink(real)
        held.release()


def _check_backup(backup: str) -> None:
    """Raise a `StorageError` unless the file is a whole store without a log beside it."""
    if os.path.exists(f"{backup}-wal") and os.path.getsize(f"{backup}-wal"):
        raise StoreUnusable(backup, "there is a log beside it, so it is in use and not a backup; use durable backup")
    with StoreReader(backup, any_schema=True) as reader:
        problem = reader.look(lambda connection: connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    if problem != "ok":
        raise StoreUnusable(backup, f"it is damaged ({problem}); take another backup")


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- migrations -----------------------------------------------------------------------------------------------------


def plan(path: str) -> Migration:
    """What `migrate` would do. Only reads. Raises a `StorageError`."""
    with StoreReader(path, any_schema=True) as reader:
        return reader.look(_plan)


def _plan(connection: sqlite3.Connection) -> Migration:
    before = schema.version(connection)
    steps = () if schema.is_current(connection) else tuple(schema.pending(connection))
    return Migration(before, schema.SCHEMA_VERSION, steps)


def migration_sql(path: str) -> list[str]:
    """The statements that `migrate` would run, found by running them on an empty copy of the schema in memory."""
    with StoreReader(path, any_schema=True) as reader:
        return [] if not reader.look(_plan).steps else reader.look(_rehearse)


def _rehearse(connection: sqlite3.Connection) -> list[str]:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as copy:
        tables = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        for (sql,) in connection.execute(f"{tables} ORDER BY rowid").fetchall():
            copy.execute(sql)
        with contextlib.suppress(sqlite3.OperationalError):
            # Which migrations the store has run; a store of the first version has no such table.
            for row in connection.execute("SELECT * FROM _sqlite_migrations").fetchall():
                copy.execute(f"INSERT INTO _sqlite_migrations VALUES ({', '.join('?' * len(row))})", row)
        copy.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        statements: list[str] = []
        copy.execute("BEGIN IMMEDIATE")
        copy.set_trace_callback(statements.append)
        schema.migrate(copy)
        copy.set_trace_callback(None)
        copy.execute("ROLLBACK")
    marks = ("PRAGMA application_id =", "PRAGMA user_version =")
    return [text.strip() for text in statements if text.lstrip().upper().startswith(_WRITES) or text.startswith(marks)]


def migrate(path: str) -> Migration:
    """Bring the schema of a store up to date, under the owner's lock. Raises a `StorageError`.

    Nothing else about the store changes: not its owner, and not whether its last engine stopped in order.
    """
    real = storefile.check(path)
    with _owned(real) as held, _writing(path, real) as connection:
        schema.check(connection, path)
        todo = _plan(connection)
        if todo.steps:
            opening.prepare(connection, path, "FULL")
            number = generation.announce(connection, held, new_id())
            connection.execute("BEGIN IMMEDIATE")
            schema.migrate(connection)
            connection.execute(f"PRAGMA schema_version = {number}")
            connection.execute("COMMIT")
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        return todo


@contextlib.contextmanager
def _owned(real: str) -> Iterator[owner.Owner]:
    held = owner.patiently(lambda: owner.take(real))
    try:
        yield held
    finally:
        held.release()


@contextlib.contextmanager
def _writing(path: str, real: str) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(real, timeout=5.0, isolation_level=None)
    try:
        yield connection
    except sqlite3.Error as error:
        raise storefile.refusal(path, error) from error
    finally:
        opening.close(connection, None)

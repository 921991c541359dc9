"""Which paths can hold a store, decided before anything is opened for writing.

Knows files and SQLite's header. Knows nothing about what is stored. Every refusal is a `StorageError` with one sentence
that says what is wrong. It leaves the file and its directory unchanged: no lock file, no `-wal`, no `-shm`.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import sqlite3
import stat

from durable.backends.sqlite import generation, owner, schema
from durable.errors import StorageError, StorageUnavailable, StoreUnusable

_MAGIC = b"SQLite format 3\0"
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
# SQLITE_CORRUPT, SQLITE_NOTADB: a repeat cannot help.
_DAMAGED = {11, 26}
# SQLITE_ERROR: for example, a table is missing.
_HOPELESS = {1, *_DAMAGED}


def check(path: str) -> str:
    """The real path of a store that may be opened or created there. Raises a `StorageError`; changes nothing."""
    if path == ":memory:":
        raise StoreUnusable(path, "a database in memory cannot be a store; use memory:// for a store that is not kept")
    if not path or "\0" in path or path.startswith("file:"):
        raise StoreUnusable(path, "it is not the path of a file")
    real = os.path.realpath(path)
    parent = os.path.dirname(real)
    if os.path.isdir(real):
        raise StoreUnusable(path, "it is a directory; name a file in it")
    if not os.path.isdir(parent):
        raise StoreUnusable(path, f"the directory {parent!r} does not exist; create it first")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise StoreUnusable(path, f"there is no permission to create files in {parent!r}")
    _check_side_files(path, real)
    try:
        status = os.stat(real)
    except FileNotFoundError:
        return real
    except OSError as error:
        raise StoreUnusable(path, f"it cannot be examined: {error.strerror}") from error
    with owner.unowned(real):
        _check_file(path, real, status)
    return real


def _check_side_files(path: str, real: str) -> None:
    """A pipe in the place of a log would block in the middle of an open, and SQLite follows no link there."""
    for name in (f"{real}{suffix}" for suffix in ("-wal", "-shm", "-journal")):
        # Anything else that is wrong with the path is reported below.
        with contextlib.suppress(OSError):
            if not stat.S_ISREG(os.lstat(name).st_mode):
                raise StoreUnusable(path, f"{name!r} beside it is not a plain file; remove it")


def _check_file(path: str, real: str, status: os.stat_result) -> None:
    """Check an existing file: its kind, its permissions, its links, its header, its log, its schema. In this order."""
    if not stat.S_ISREG(status.st_mode):
        raise StoreUnusable(path, "it is not a regular file")
    # For root os.access always says yes. But a file without any write bit is not meant to be changed.
    if not os.access(real, os.R_OK | os.W_OK) or not status.st_mode & 0o222:
        raise StoreUnusable(path, "there is no permission to write to it")
    if status.st_nlink > 1:
        # SQLite's log is named after the database. Opened by another name, a log with commits would be missed.
        problem = f"it has {status.st_nlink} hard links, and its log belongs to one name only"
        parent = os.path.dirname(real)
        fix = f"find the others with 'find {parent} -samefile {real}' and remove them, or copy the file"
        raise StoreUnusable(path, f"{problem}; {fix}")
    if status.st_size == 0 or _is_cut_off(real):
        return
    if _start(real, len(_MAGIC)) != _MAGIC:
        raise StoreUnusable(path, "it is a file, but not an SQLite database")
    generation.check_log(path, real)
    _check_database(path, real)


def _is_cut_off(real: str) -> bool:
    """Whether a writer was interrupted before the file was in WAL mode, as by a power cut while a store is created.

    The file may then contain anything, and only SQLite can restore it, by writing. So it is checked after the open.
    """
    journal = f"{real}-journal"
    return os.path.isfile(journal) and _start(journal, len(_JOURNAL_MAGIC)) == _JOURNAL_MAGIC


def _start(file: str, length: int) -> bytes:
    """The first bytes of a file. Raises `StorageUnavailable` if it cannot be read."""
    try:
        with open(file, "rb") as opened:
            return opened.read(length)
    except OSError as error:
        # Out of descriptors, or a read error of the disk. This may pass.
        raise StorageUnavailable(f"{file}: it cannot be read: {error.strerror}") from error


def _check_database(path: str, real: str) -> None:
    """Check the schema through a connection that leaves nothing beside the file."""
    # mode=ro alone creates -wal and -shm beside a file that was closed in order, and leaves them there. immutable does
    # not, but it ignores an existing -wal. So it is for files without one.
    wal = f"{real}-wal"
    plain = not (os.path.exists(wal) and os.path.getsize(wal))
    uri = f"{pathlib.Path(real).as_uri()}?mode=ro{'&immutable=1' if plain else ''}"
    try:
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        try:
            schema.check(connection, path)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise refusal(path, error) from error


def refusal(path: str, error: sqlite3.Error) -> StorageError:
    """The error of durable for an error of SQLite while this file is being opened."""
    if _code(error) in _HOPELESS:
        return StoreUnusable(path, f"it is damaged or was changed by hand ({error})")
    return StorageUnavailable(f"{path}: {error}")


def trouble(path: str, error: sqlite3.Error) -> StorageError:
    """The error of durable for an error of SQLite while this file is open. Damage is permanent; the rest may pass."""
    if _code(error) in _DAMAGED:
        return StoreUnusable(path, f"it is damaged ({error}); restore it from a backup, or try sqlite3's .recover")
    return StorageUnavailable(f"{path}: {error}")


def _code(error: sqlite3.Error) -> int:
    """The primary error code, the low byte. Errors of the Python module itself have no code; 0 for those."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF

"""Which paths can hold a store, judged before anything is opened for writing.

Knows files and SQLite's header. Must not know what is stored. Every refusal is a `StorageError` with one sentence that
says what is wrong, and leaves the file and its directory as they were: no lock file, no `-wal`, no `-shm`.
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
# SQLITE_CORRUPT, SQLITE_NOTADB: a repeat cannot cure these.
_DAMAGED = {11, 26}
# SQLITE_ERROR: a table is missing, say.
_HOPELESS = {1, *_DAMAGED}


def check(path: str) -> str:
    """The real path of a store that may be opened or created there. Raises a `StorageError`; nothing changed."""
    if path == ":memory:":
        raise StoreUnusable(path, "a database in memory is no store; use memory:// for one that is not kept")
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
        found = os.stat(real)
    except FileNotFoundError:
        return real
    except OSError as error:
        raise StoreUnusable(path, f"it cannot be looked at: {error.strerror}") from error
    with owner.unowned(real):
        _check_file(path, real, found)
    return real


def _check_side_files(path: str, real: str) -> None:
    """A pipe in the place of a log would keep us waiting in the middle of an open, and SQLite follows no link there."""
    for name in (f"{real}{suffix}" for suffix in ("-wal", "-shm", "-journal")):
        # Whatever else is wrong with the path is told below.
        with contextlib.suppress(OSError):
            if not stat.S_ISREG(os.lstat(name).st_mode):
                raise StoreUnusable(path, f"{name!r} beside it is not a plain file; remove it")


def _check_file(path: str, real: str, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise StoreUnusable(path, "it is not a regular file")
    # Root may write to anything, so os.access says yes; a file without any write bit is meant to stay as it is.
    if not os.access(real, os.R_OK | os.W_OK) or not found.st_mode & 0o222:
        raise StoreUnusable(path, "there is no permission to write to it")
    if found.st_nlink > 1:
        # SQLite's log is named after the database: under another name a log with commits would not be seen.
        problem = f"it has {found.st_nlink} hard links, and its log belongs to one name only"
        parent = os.path.dirname(real)
        fix = f"find the others with 'find {parent} -samefile {real}' and remove them, or copy the file"
        raise StoreUnusable(path, f"{problem}; {fix}")
    if found.st_size == 0 or _is_cut_off(real):
        return
    if _start(real, len(_MAGIC)) != _MAGIC:
        raise StoreUnusable(path, "it is a file, but not an SQLite database")
    generation.check_log(path, real)
    _check_database(path, real)


def _is_cut_off(real: str) -> bool:
    """Whether a writer was cut off before the file was in WAL mode, as by a power cut while a store is created.

    The file may then hold anything, and only SQLite can bring it back, by writing; so it is judged when it is open.
    """
    journal = f"{real}-journal"
    return os.path.isfile(journal) and _start(journal, len(_JOURNAL_MAGIC)) == _JOURNAL_MAGIC


def _start(file: str, length: int) -> bytes:
    try:
        with open(file, "rb") as opened:
            return opened.read(length)
    except OSError as error:
        # No descriptor left, or a disk that cannot be read: this may pass.
        raise StorageUnavailable(f"{file}: it cannot be read: {error.strerror}") from error


def _check_database(path: str, real: str) -> None:
    # mode=ro alone creates -wal and -shm next to a file that had been closed in order, and leaves them there.
    # immutable does not, but does not see a -wal; so it is for the files that have none.
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
    """What an error of SQLite means for someone who wants to open this file."""
    if _code(error) in _HOPELESS:
        return StoreUnusable(path, f"it is damaged or was altered by hand ({error})")
    return StorageUnavailable(f"{path}: {error}")


def trouble(path: str, error: sqlite3.Error) -> StorageError:
    """What an error of SQLite means for someone who has this file open: damage does not go away, the rest may."""
    if _code(error) in _DAMAGED:
        return StoreUnusable(path, f"it is damaged ({error}); restore it from a backup, or try sqlite3's .recover")
    return StorageUnavailable(f"{path}: {error}")


def _code(error: sqlite3.Error) -> int:
    """The low byte is the error, the rest its finer kind. Errors of the Python module itself carry no code."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF

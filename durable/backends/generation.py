"""Which opening of a store wrote a file: a number in SQLite's header that is new at each opening.

SQLite's log carries no mark of the database it belongs to. If an engine is killed and a backup is copied over its file,
the log that was left behind fits page by page and is mixed into the backup. So each opening sets the schema version of
the database, the four bytes at offset 40, to a number of its own. Before that reaches the file, the lock file beside
the store says durably which numbers the file may have from now on. A file with any other number is not the one that
the log was written for. SQLite itself gives another number to whatever `.backup` and `VACUUM INTO` write.

Knows the header and the lock file. Must not know what is stored.
"""

from __future__ import annotations

import os
import sqlite3
import zlib

from durable.backends import owner
from durable.errors import StorageUnavailable, StoreUnusable

_OFFSET, _LENGTH = 40, 4
_LOG_MAGICS = (bytes.fromhex("377f0682"), bytes.fromhex("377f0683"))


def read(file: int) -> int:
    """The generation in an open database file, past the log and SQLite's cache; 0 if the file is empty."""
    os.lseek(file, _OFFSET, os.SEEK_SET)
    return int.from_bytes(os.read(file, _LENGTH), "big")


def version(connection: sqlite3.Connection) -> int:
    """The generation as SQLite sees it, with the log."""
    number: int = connection.execute("PRAGMA schema_version").fetchone()[0]
    return number


def announce(connection: sqlite3.Connection, held: owner.Owner, incarnation: str) -> int:
    """The generation of a new opening. The lock file names it, and whatever the file may hold until then."""
    number = zlib.crc32(incarnation.encode()) & 0x7FFFFFFF or 1
    held.remember({read(held.file), version(connection), number})
    return number


def check_log(path: str, real: str) -> None:
    """Raise `StoreUnusable` if the log beside a database was written for another file, `StorageUnavailable` if unread.

    No lock is held yet. So the lock file is read twice: an engine that opens the store meanwhile writes to it before
    it changes the database, and whoever is refused here by mistake would not learn that the store is in use.
    """
    known = owner.remembered(real)
    try:
        with open(real, "rb") as file:
            found = read(file.fileno())
        is_foreign = bool(known) and found not in known and _has_log(real)
    except OSError as error:
        raise StorageUnavailable(f"{real}: it cannot be read: {error.strerror}") from error
    if not is_foreign or owner.remembered(real) != known:
        return
    raise StoreUnusable(
        path,
        f"it is not the file that the log {real + '-wal'!r} was written for: an engine was ended without a stop, and "
        f"then the file was replaced. If it is a backup that you have restored, remove the old log: "
        f"rm {real}-wal {real}-shm. If you have brought the file and its log here together, keep both and remove the "
        f"old lock file: rm {real}-owner",
    )


def _has_log(real: str) -> bool:
    """Whether SQLite would read a log; it ignores one without a header."""
    try:
        with open(f"{real}-wal", "rb") as log:
            return log.read(4) in _LOG_MAGICS
    except FileNotFoundError:
        return False

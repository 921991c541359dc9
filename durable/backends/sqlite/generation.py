"""Which opening of a store wrote a file: a number in SQLite's header that is new at each opening.

SQLite's log carries no mark of the database it belongs to. If an engine is killed and a backup is copied over its file,
the log that was left behind fits page by page and is mixed into the backup. So each opening sets the schema version of
the database, the four bytes at offset 40, to a number of its own. Before that reaches the file, the lock file beside
the store says durably which numbers the file may have from now on. A file with any other number is not the one that
the log was written for. SQLite itself gives another number to whatever `.backup` and `VACUUM INTO` write.

The log has a number too, its first salt. SQLite draws it when it creates the log and adds one whenever it writes the
log from the start again. Once the store is open, the lock file names the salt. A log with a lower one, or a much higher
one, is an older log or the log of another store.

Knows the header and the lock file. Must not know what is stored.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import zlib

from durable.backends.sqlite import owner
from durable.errors import StorageUnavailable, StoreUnusable

_OFFSET, _LENGTH = 40, 4
_LOG_MAGICS = (bytes.fromhex("377f0682"), bytes.fromhex("377f0683"))
_SALT_START, _SALT_END = 16, 20
# How often SQLite may start a log again before the lock file must name its salt again: after some 30 GB.
_RESTARTS = 2048


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
    # So that the first commit starts the log again, under another salt than the one of the last engine. It need not
    # succeed: a reader can be in the way too.
    with contextlib.suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    # The log may get another salt with the first commit, so for the moment any will do.
    held.remember({read(held.file), version(connection), number}, None)
    return number


def log_salt(real: str) -> int | None:
    """The salt of the log beside a database; None if there is no log, or one without a header, which SQLite ignores."""
    start = _log_start(real)
    has_header = len(start) == _SALT_END and start[:4] in _LOG_MAGICS
    return int.from_bytes(start[_SALT_START:], "big") if has_header else None


def is_log_cut(real: str) -> bool:
    """Whether the log has contents and no header: it was cut off, and SQLite has written to it where it had stopped.

    An empty log is nothing special: SQLite writes a header to it with the next commit.
    """
    return bool(_log_start(real)) and log_salt(real) is None


def _log_start(real: str) -> bytes:
    try:
        with open(f"{real}-wal", "rb") as log:
            return log.read(_SALT_END)
    except FileNotFoundError:
        return b""


def is_later(salt: int, noted: int, restarts: int = _RESTARTS) -> bool:
    """Whether a log with this salt can be the one that was noted, started again some times since."""
    return (salt - noted) % 2**32 < restarts


def check_log(path: str, real: str) -> None:
    """Raise `StoreUnusable` if the log beside a database was written for another file, `StorageUnavailable` if unread.

    No lock is held yet. So the lock file is read twice: an engine that opens the store meanwhile writes to it before
    it changes the database, and whoever is refused here by mistake would not learn that the store is in use.
    """
    noted = owner.remembered(real)
    try:
        with open(real, "rb") as file:
            found = read(file.fileno())
        salt = log_salt(real)
    except OSError as error:
        raise StorageUnavailable(f"{real}: it cannot be read: {error.strerror}") from error
    if salt is None or _fits(noted, found, salt) or owner.remembered(real) != noted:
        return
    raise StoreUnusable(
        path,
        f"it is not the file that the log {real + '-wal'!r} was written for: the file was replaced after an engine "
        f"had ended without a stop, or an older log or the log of another file was put beside it. If it is a backup "
        f"that you have restored, or the file of an engine that had stopped, remove the log: rm {real}-wal {real}-shm. "
        f"If you have brought the file and its log here together, keep both and remove the old lock file: "
        f"rm {real}-owner",
    )


def _fits(noted: owner.Note, found: int, salt: int) -> bool:
    """Whether a database with this generation and a log with this salt are those of the last engine."""
    is_file = not noted.generations or found in noted.generations
    return is_file and (noted.log is None or is_later(salt, noted.log))

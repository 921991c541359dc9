"""The generation of a store file: a number in SQLite's header that changes each time the store is opened.

SQLite's log does not say which database it belongs to. If an engine is killed and a backup is copied over its file,
the old log fits page by page, and SQLite mixes it into the backup. So each open sets the schema version of the
database, the four bytes at offset 40, to a new number. Before that reaches the file, the lock file beside the store
says durably which numbers the file may have from now on. A file with any other number is not the one that the log was
written for. SQLite itself gives another number to files that `.backup` and `VACUUM INTO` write.

The log has a number too, its first salt. SQLite draws it when it creates the log, and adds one whenever it starts the
log again. Once the store is open, the lock file names the salt. A log with a lower salt, or a much higher one, is an
older log or the log of another store.

Knows the header and the lock file. Knows nothing about what is stored.
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
# How often SQLite may restart a log before the lock file must name its salt again: after about 30 GB.
_RESTARTS = 2048


def read(file: int) -> int:
    """The generation in the database file itself, bypassing the log and SQLite's cache; 0 if the file is empty."""
    os.lseek(file, _OFFSET, os.SEEK_SET)
    return int.from_bytes(os.read(file, _LENGTH), "big")


def version(connection: sqlite3.Connection) -> int:
    """The generation as SQLite sees it, including the log."""
    number: int = connection.execute("PRAGMA schema_version").fetchone()[0]
    return number


def announce(connection: sqlite3.Connection, held: owner.Owner, incarnation: str) -> int:
    """Choose the generation of a new open, and record it in the lock file with those that the file may still have."""
    number = zlib.crc32(incarnation.encode()) & 0x7FFFFFFF or 1
    # After a checkpoint the first commit starts the log again, with another salt than that of the last engine. The
    # checkpoint may fail, because a reader can prevent it.
    with contextlib.suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    # The log may get another salt with the first commit, so for now any salt is allowed.
    held.remember({read(held.file), version(connection), number}, None)
    return number


def log_salt(real: str) -> int | None:
    """The salt of the log beside a database; None without a log, or for one without a header, which SQLite ignores."""
    start = _log_start(real)
    has_header = len(start) == _SALT_END and start[:4] in _LOG_MAGICS
    return int.from_bytes(start[_SALT_START:], "big") if has_header else None


def is_log_cut(real: str) -> bool:
    """Whether the log has content but no header: it was truncated, and SQLite continued to write at its old position.

    An empty log is normal: SQLite writes a header with the next commit.
    """
    return bool(_log_start(real)) and log_salt(real) is None


def _log_start(real: str) -> bytes:
    """The start of the log beside a database, up to its first salt; empty if there is no log."""
    try:
        with open(f"{real}-wal", "rb") as log:
            return log.read(_SALT_END)
    except FileNotFoundError:
        return b""


def is_later(salt: int, noted: int, restarts: int = _RESTARTS) -> bool:
    """Whether a log with this salt can be the noted log after up to `restarts` restarts."""
    return (salt - noted) % 2**32 < restarts


def check_log(path: str, real: str) -> None:
    """Check that the log beside a database was written for this file.

    Raises `StoreUnusable` if it was not, `StorageUnavailable` if one of them cannot be read. No lock is held yet, so
    the lock file is read twice: an engine that opens the store meanwhile writes to the lock file before it changes the
    database. Without the second read, the caller would get this error instead of `StoreInUse`.
    """
    noted = owner.remembered(real)
    try:
        with open(real, "rb") as file:
            file_generation = read(file.fileno())
        salt = log_salt(real)
    except OSError as error:
        raise StorageUnavailable(f"{real}: it cannot be read: {error.strerror}") from error
    if salt is None or _fits(noted, file_generation, salt) or owner.remembered(real) != noted:
        return
    raise StoreUnusable(
        path,
        f"it is not the file that the log {real + '-wal'!r} was written for: the file was replaced after an engine "
        f"crashed, or an older log or the log of another file was put beside it. If the file is a restored backup, or "
        f"from an engine that had stopped in order, remove the log: rm {real}-wal {real}-shm. "
        f"If you copied the file and its log here together, keep both and remove the old lock file: "
        f"rm {real}-owner",
    )


def _fits(noted: owner.Note, file_generation: int, salt: int) -> bool:
    """Whether the last engine could have left a database with this generation and a log with this salt."""
    is_file = not noted.generations or file_generation in noted.generations
    return is_file and (noted.log is None or is_later(salt, noted.log))

"""Backups of a store while its engine is using it.

A backup is a copy that SQLite makes, through a separate read-only connection, in a thread of the caller. It contains
the store at one moment. It is written under another name first, so that a file with the name of the backup is always
complete. Knows SQLite's backup interface, and files. Knows nothing about what is stored.

The copy differs from the store in two ways. It is marked as cleanly stopped, and it has a generation that depends on
the moment of the copy, so that a log of the original can never be mixed into it (see `generation`).
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import sqlite3
import stat
import threading
import zlib
from collections.abc import Callable

from durable.errors import EngineClosed, StorageUnavailable, StoreUnusable

# The copy checks after each step of this many pages whether it should stop.
_STEP = 500
# The suffixes of the files beside an open store.
_SIDE_FILES = ("-wal", "-shm", "-journal", "-owner", "-step")


class Copies:
    """The backups of one open store: one at a time, and none when the store is closed."""

    def __init__(self, store: str) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._is_over = False

    @property
    def _real(self) -> str:
        # Not in the constructor: an object is made for any path. One that names no file is refused when it is opened.
        return os.path.realpath(self._store)

    def end(self) -> None:
        """Stop the current backup, if any, and wait until its connection is closed. No other backup can start."""
        self._is_over = True
        with self._lock:
            pass

    def make(self, target: str, *, overwrite: bool, is_stopped: Callable[[], bool]) -> None:
        """Copy the store to a file. May be called from any thread.

        Raises `StoreUnusable` for a target that cannot be written, `StorageUnavailable` if the copy fails, and
        `EngineClosed` if the store is closed meanwhile. Then the target is unchanged.
        """
        partial = f"{target}-partial"

        def check(*_: int) -> None:
            if self._is_over or is_stopped():
                raise EngineClosed("the engine was closed before the backup was finished")

        with self._lock:
            check()
            _check_target(target, self._real, overwrite=overwrite)
            try:
                _remove(partial)
                self._copy(partial, check)
                _check_target(target, self._real, overwrite=overwrite)
                os.replace(partial, target)
                # Not every operating system can sync a directory.
                with contextlib.suppress(OSError):
                    _sync(os.path.dirname(target) or ".")
            except (OSError, sqlite3.Error) as error:
                raise StorageUnavailable(f"{target}: the backup failed: {error}") from error
            finally:
                _remove(partial)

    def _copy(self, partial: str, check: Callable[..., None]) -> None:
        """Write the copy to `partial`: private while it grows, marked as cleanly stopped, and synced to disk."""
        mode = stat.S_IMODE(os.stat(self._real).st_mode)
        # Readable only by its owner while it is being written.
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        uri = f"{pathlib.Path(self._real).as_uri()}?mode=ro"
        with (
            contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as source,
            contextlib.closing(sqlite3.connect(partial, isolation_level=None)) as copy,
        ):
            # One transaction, so that the copy shows one moment. Without it SQLite would start the copy again after
            # each commit of the engine.
            source.execute("BEGIN")
            moment = source.execute("SELECT incarnation, batch FROM meta").fetchone()
            copy.execute("PRAGMA synchronous = OFF")
            source.backup(copy, pages=_STEP, progress=check)
            source.execute("COMMIT")
            # Mark the copy as cleanly stopped: bodies that ran at that moment must not be blamed for a crash.
            copy.execute("UPDATE meta SET incarnation = '', batch = 0, clean = 1")
            copy.execute(f"PRAGMA schema_version = {zlib.crc32(repr(moment).encode()) & 0x7FFFFFFF or 1}")
        os.chmod(partial, mode)
        _sync(partial)


def _check_target(target: str, store: str, *, overwrite: bool) -> None:
    """Raise `StoreUnusable` for a target that a backup must not or cannot replace. Called before and after the copy."""
    if not target or "\0" in target:
        raise StoreUnusable(target, "it is not the path of a file")
    parent = os.path.dirname(os.path.abspath(target))
    if os.path.isdir(target):
        raise StoreUnusable(target, "it is a directory; name a file in it")
    if not os.path.isdir(parent):
        raise StoreUnusable(target, f"the directory {parent!r} does not exist; create it first")
    if os.path.realpath(target) == store or (os.path.exists(target) and os.path.samefile(target, store)):
        raise StoreUnusable(target, "it is the store itself; give the backup another name")
    if os.path.realpath(target) in {store + suffix for suffix in _SIDE_FILES}:
        raise StoreUnusable(target, "the engine uses that file itself; give the backup another name")
    if os.path.exists(f"{target}-wal"):
        raise StoreUnusable(target, f"there is a log beside it, {target + '-wal'!r}: another program may be using it")
    if os.path.lexists(target) and not overwrite:
        raise StoreUnusable(target, "it already exists; pass overwrite=True to replace it")


def _remove(partial: str) -> None:
    """Remove a partial copy, with the files that SQLite may have left beside it."""
    for suffix in ("", "-journal", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial + suffix)


def _sync(path: str) -> None:
    """Flush a file, or the entries of a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

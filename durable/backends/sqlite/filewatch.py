"""Whether the files of an open store are still the ones that were opened.

SQLite keeps writing to a file that was deleted, moved or replaced, and everything it acknowledges then is lost. So the
engine looks now and then. Knows paths, inodes and the header. Must not know what is stored.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import sqlite3
from collections.abc import Iterator

from durable.backends.sqlite import generation
from durable.backends.sqlite.owner import Identity, Owner
from durable.errors import StoreUnusable

# The lock file names the salt of the log again after so many restarts of it; it would refuse twice as many.
_NOTE_AFTER = 1024
_STOP = "The engine has stopped and acknowledges nothing more"


class FileWatch:
    """The files of one open store, as they were when it was opened."""

    def __init__(self, path: str, real: str, held: Owner, connection: sqlite3.Connection) -> None:
        self._path = path
        self._real = real
        self._log = f"{real}-wal"
        self._held = held
        self._connection = connection
        self._log_identity = _identity(self._log)
        self._index = f"{real}-shm"
        self._index_identity = _identity(self._index)
        self._current = generation.version(connection)
        self._generations = {generation.read(held.file), self._current}
        self._salt: int | None = None
        self._note()

    def look(self) -> None:
        """Raise `StoreUnusable` if a name no longer leads to the file that is open. For every tenth commit.

        The log is not looked at by `stat`, which makes the next fsync of it more expensive; see `wal`.
        """
        self._compare(self._real, self._held.identity, "it")
        if not os.access(self._log, os.F_OK):
            self._compare(self._log, self._log_identity, f"its log {self._log!r}")

    def check(self) -> None:
        """The same, and also whether somebody has replaced the log or overwritten the database. For once a second."""
        self.look()
        self._compare(self._log, self._log_identity, f"its log {self._log!r}")
        # The locks on the log are in there: programs that open the store from now on would not see ours.
        self._compare(self._index, self._index_identity, f"its index {self._index!r}")
        if self._is_overwritten():
            fix = "stop the service, restore the backup again, and remove the old log before you start it"
            raise StoreUnusable(self._path, f"it was overwritten while an engine worked on it. {_STOP}: {fix}")
        if self._is_log_cut():
            fix = "restart it, or restore a backup: what was not written back to the database by then is lost"
            raise StoreUnusable(
                self._path, f"its log {self._log!r} was cut off while an engine worked on it. {_STOP}; {fix}"
            )
        self._note()

    def is_spoilt(self) -> bool:
        """Whether the log must not be written back: it is not whole, or the file is not the one it was written for."""
        return self._is_overwritten() or self._is_log_cut()

    def _is_log_cut(self) -> bool:
        """Whether somebody has emptied the log, as `> store.db-wal` does, and something was written to it since."""
        with contextlib.suppress(OSError):
            return generation.is_log_cut(self._real)
        return False

    def _is_overwritten(self) -> bool:
        """Whether the file has the header of another one, as after `cp backup.db store.db`."""
        found = generation.read(self._held.file)
        if found in self._generations:
            return False
        with contextlib.suppress(sqlite3.Error):
            # Somebody may have changed the schema through SQLite, which then knows of it.
            self._current = generation.version(self._connection)
        self._generations.add(self._current)
        return found not in self._generations

    @contextlib.contextmanager
    def keeping_log(self) -> Iterator[None]:
        """While this lasts, closing the connection does not write the log back: a reader is there as well."""
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(sqlite3.Error):
                uri = f"{pathlib.Path(self._real).as_uri()}?mode=ro"
                reader = stack.enter_context(contextlib.closing(sqlite3.connect(uri, uri=True)))
                generation.version(reader)
            yield

    def _compare(self, name: str, expected: Identity | None, what: str) -> None:
        found = _identity(name, expected)
        if found == expected:
            return
        happened = "deleted or moved" if found is None else "replaced by another file"
        raise StoreUnusable(self._path, f"{what} was {happened} while an engine worked on it. {_STOP}; restart it")

    def _note(self) -> None:
        """Tell the lock file what the store and its log may be when they are opened next, if that has changed.

        Once the file has this opening's generation, it can have no other.
        """
        try:
            salt = generation.log_salt(self._real)
        except OSError:
            # No descriptor is left, say. The next look comes in a second.
            return
        generations = self._generations
        if generation.read(self._held.file) == self._current:
            generations = {self._current}
        is_noted = salt is None or (self._salt is not None and generation.is_later(salt, self._salt, _NOTE_AFTER))
        if generations != self._generations or not is_noted:
            self._generations = generations
            self._salt = self._salt if is_noted else salt
            self._held.remember(self._generations, self._salt)


def _identity(name: str, unknown: Identity | None = None) -> Identity | None:
    """The device and inode behind a name, None if there is none, and `unknown` if that cannot be found out now."""
    try:
        found = os.stat(name)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return unknown
    return found.st_dev, found.st_ino

"""Whether the files of an open store are still the files that were opened.

SQLite keeps writing to a file that was deleted, moved or replaced, and everything that it acknowledges then is lost. So
the engine checks from time to time. Knows paths, inodes and the header. Knows nothing about what is stored.
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

# After this many restarts of the log the lock file names its salt again. It would refuse a log after twice as many.
_NOTE_AFTER = 1024
_STOP = "The engine has stopped and acknowledges nothing more"


class FileWatch:
    """The files of one open store, as they were when it was opened.

    There are two checks. `look` is cheap and runs with every tenth commit. `check` is complete and runs once a second.
    """

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
        """Raise `StoreUnusable` if a name no longer leads to the open file. For every tenth commit.

        It does not call `stat` on the log, which would make the next fsync of the log more expensive; see `wal`.
        """
        self._compare(self._real, self._held.identity, "it")
        if not os.access(self._log, os.F_OK):
            self._compare(self._log, self._log_identity, f"its log {self._log!r}")

    def check(self) -> None:
        """Also raise `StoreUnusable` if the log was replaced or cut off, or the database overwritten. Once a second."""
        self.look()
        self._compare(self._log, self._log_identity, f"its log {self._log!r}")
        # The locks on the log are in there: programs that open the store from now on would not see ours.
        self._compare(self._index, self._index_identity, f"its index {self._index!r}")
        if self._is_overwritten():
            fix = "stop the service, restore the backup again, and remove the old log before you start it"
            raise StoreUnusable(self._path, f"it was overwritten while an engine was using it. {_STOP}: {fix}")
        if self._is_log_cut():
            fix = "restart it, or restore a backup: what was not yet written back to the database is lost"
            raise StoreUnusable(
                self._path, f"its log {self._log!r} was cut off while an engine was using it. {_STOP}; {fix}"
            )
        self._note()

    def is_spoilt(self) -> bool:
        """Whether the log must not be written back: it is incomplete, or it was not written for this file."""
        return self._is_overwritten() or self._is_log_cut()

    def _is_log_cut(self) -> bool:
        """Whether the log was emptied, as by `> store.db-wal`, and was written to since."""
        with contextlib.suppress(OSError):
            return generation.is_log_cut(self._real)
        return False

    def _is_overwritten(self) -> bool:
        """Whether the file has the header of another file, as after `cp backup.db store.db`."""
        generation_in_file = generation.read(self._held.file)
        if generation_in_file in self._generations:
            return False
        with contextlib.suppress(sqlite3.Error):
            # The schema may have been changed through SQLite. Then SQLite reports the new number too.
            self._current = generation.version(self._connection)
        self._generations.add(self._current)
        return generation_in_file not in self._generations

    @contextlib.contextmanager
    def keeping_log(self) -> Iterator[None]:
        """Keeps a second connection open, so that closing the main one does not write the log back."""
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(sqlite3.Error):
                uri = f"{pathlib.Path(self._real).as_uri()}?mode=ro"
                reader = stack.enter_context(contextlib.closing(sqlite3.connect(uri, uri=True)))
                generation.version(reader)
            yield

    def _compare(self, name: str, expected: Identity | None, subject: str) -> None:
        """Raise `StoreUnusable` unless the name still leads to the expected file. `subject` starts the message."""
        identity = _identity(name, expected)
        if identity == expected:
            return
        happened = "deleted or moved" if identity is None else "replaced by another file"
        raise StoreUnusable(self._path, f"{subject} was {happened} while an engine was using it. {_STOP}; restart it")

    def _note(self) -> None:
        """Record in the lock file which generations and which log are valid at the next open, if that has changed.

        Once the file has the generation of this open, no other generation is valid.
        """
        try:
            salt = generation.log_salt(self._real)
        except OSError:
            # For example, out of descriptors. The next check comes in a second.
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
    """The device and inode behind a name; None if there is no file; `unknown` if the question fails for now."""
    try:
        status = os.stat(name)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return unknown
    return status.st_dev, status.st_ino

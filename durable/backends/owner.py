"""The lock that says which engine owns a store file.

Knows a sidecar file, `<store>-owner`, and the locks of the operating system. Must not know SQLite. The lock belongs
to the process: the kernel frees it at its death, whatever way it dies, and a fork does not inherit it. The file names
the holder for the one who is refused.

After a release the file stays. Unlinking it would race with the next holder: one process could hold a lock on the
file that was just unlinked while another creates and locks a new one, and both would think that they are alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
import threading
from collections.abc import Iterator

from durable.errors import StoreInUse, StoreUnusable

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        # Windows locks keep others from reading the range too; a byte far behind the text leaves the holder readable.
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


# Which stores this process owns, with the process id at that time: after a fork the child has a copy of this table but
# none of the locks. A table is needed at all because the locks are per process: a second engine in this process would
# get the lock as well, and closing its descriptor would drop the lock of the first.
_owned: dict[str, int] = {}
# Reentrant, because garbage collection may run `__del__` while it is held.
_guard = threading.RLock()


class Owner:
    """The right to use a store file; held until `release`, or until nobody refers to it any more."""

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._process = os.getpid()
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Let the next one in; harmless when repeated."""
        with _guard:
            descriptor, self._descriptor = self._descriptor, None
            # In a forked child the descriptor is a copy and the lock is not ours. Closing the copy would drop a lock
            # that the child may have taken itself since, so it is left open.
            if descriptor is not None and self._process == os.getpid():
                _owned.pop(self._path, None)
                os.close(descriptor)

    def __del__(self) -> None:
        # An engine that was dropped without a close must not block the file for the rest of the process.
        self.release()


@contextlib.contextmanager
def unowned(path: str) -> Iterator[None]:
    """While this lasts, no engine of this process takes the store at this real path. Raises `StoreInUse` if one has.

    Whoever closes a descriptor of a file drops every POSIX lock that the process has on it. For the sidecar that is
    our own; for the store it is SQLite's, and then the next reader from outside takes itself for the last one and
    deletes the WAL under the engine that works on it.
    """
    with _guard:
        if _owned.get(path) == os.getpid():
            raise StoreInUse(path, f"another engine in this process, {os.getpid()}")
        yield


def take(path: str) -> Owner:
    """Own the store at this real path. Raises `StoreInUse` naming the holder, `StoreUnusable` where locks fail."""
    with unowned(path):
        sidecar = f"{path}-owner"
        try:
            descriptor = os.open(sidecar, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise StoreUnusable(path, f"its lock file {sidecar!r} cannot be opened: {error.strerror}") from error
        try:
            _claim(path, descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        _owned[path] = os.getpid()
        return Owner(path, descriptor)


def _claim(path: str, descriptor: int) -> None:
    try:
        _lock(descriptor)
    except (BlockingIOError, PermissionError) as error:
        raise StoreInUse(path, _holder(descriptor)) from error
    except OSError as error:
        raise StoreUnusable(path, f"this file system has no locks: {error.strerror}") from error
    # The text is only for people. The lock counts, so a full disk here is no reason to fail.
    with contextlib.suppress(OSError):
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps({"pid": os.getpid(), "host": platform.node()}).encode())


def _holder(descriptor: int) -> str:
    """Who holds the lock, as far as the file says; it may be read just before the holder has written it."""
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        holder = json.loads(os.read(descriptor, 1000))
        return f"process {holder['pid']} on host {holder['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"

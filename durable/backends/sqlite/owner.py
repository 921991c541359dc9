"""The lock that says which engine owns a store file.

Knows a sidecar file, `<store>-owner`, and the locks of the operating system. Must not know SQLite. The lock belongs
to the process: the kernel frees it at its death, whatever way it dies, and a fork does not inherit it. The file names
the holder for the one who is refused.

There are two locks. The one on the sidecar comes first and is tied to the path. The one on the store itself is tied to
the file: it keeps out a process that reaches the same file by another path, where another sidecar lies beside it.

After a release the file stays. Unlinking it would race with the next holder: one process could hold a lock on the
file that was just unlinked while another creates and locks a new one, and both would think that they are alone.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import stat
import sys
import threading
from collections.abc import Iterable, Iterator

import attrs

from durable.errors import StorageError, StorageUnavailable, StoreInUse, StoreUnusable

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        # Windows locks keep others from reading the range too; a byte far behind the text leaves the holder readable.
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _lock_store(descriptor: int) -> None:
        """Nothing: a lock in the store would keep readers out of that range."""

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _lock_store(descriptor: int) -> None:
        # One byte far behind everything that is ever written or locked there by others.
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 1 << 62)


# The device and inode of a file: the same for all its names and mounts.
Identity = tuple[int, int]
_NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT: int = getattr(os, "O_NONBLOCK", 0)
# Enough for what we write into a sidecar, many times over.
_NOTE_MAX = 4000

# Which stores this process owns, by path and by identity, with the process id at that time: after a fork the child has
# a copy of this table but none of the locks. A table is needed at all because the locks are per process: a second
# engine in this process would get the lock as well, and closing its descriptor would drop the lock of the first.
_owned: dict[str | Identity, int] = {}
# Reentrant, because garbage collection may run `__del__` while it is held.
_guard = threading.RLock()


@attrs.frozen
class Note:
    """What the last owner wrote down: the generations that the store may have, and the salt of its log.

    No generations or no salt: any will do. `generation` says what they are.
    """

    generations: frozenset[int] = frozenset()
    log: int | None = None


class Owner:
    """The right to use a store file; held until `release`, or until nobody refers to it any more."""

    def __init__(self, path: str, sidecar: int, file: int) -> None:
        # A descriptor of the store itself, for reading. Others must neither close it nor open and close another one:
        # that would drop the locks that this process has on the file, SQLite's among them.
        self.file = file
        self.identity = _identity(os.fstat(file))
        self._path = path
        self._process = os.getpid()
        self._sidecar: int | None = sidecar

    def release(self) -> None:
        """Let the next one in; harmless when repeated."""
        with _guard:
            sidecar, self._sidecar = self._sidecar, None
            # In a forked child the descriptors are copies and the locks are not ours. Closing the copies would drop
            # locks that the child may have taken itself since, so they are left open.
            if sidecar is not None and self._process == os.getpid():
                _owned.pop(self._path, None)
                _owned.pop(self.identity, None)
                os.close(self.file)
                os.close(sidecar)

    def remember(self, generations: Iterable[int], log: int | None) -> None:
        """Write down durably what the store and its log may be when it is opened next."""
        if self._sidecar is not None:
            _write(self._sidecar, Note(frozenset(generations), log))

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
        try:
            identity = _identity(os.stat(path))
        except OSError:
            identity = None
        if os.getpid() in (_owned.get(path), identity and _owned.get(identity)):
            raise StoreInUse(path, f"another engine in this process, {os.getpid()}")
        yield


def take(path: str) -> Owner:
    """Own the store at this real path; an empty file is created if there is none.

    Raises `StoreInUse` naming the holder, `StoreUnusable` where locks fail.
    """
    with unowned(path), contextlib.ExitStack() as opened:
        sidecar = _open_sidecar(path)
        opened.callback(os.close, sidecar)
        _claim(path, sidecar)
        try:
            # The mode that SQLite gives to a new file, less the umask.
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise _refusal(path, "it", error) from error
        opened.callback(os.close, file)
        _claim_store(path, file)
        opened.pop_all()
        taken = Owner(path, sidecar, file)
        _owned[path] = _owned[taken.identity] = os.getpid()
        return taken


def remembered(path: str) -> Note:
    """What the last owner of a store wrote down; nothing if nobody did."""
    try:
        # A pipe in its place must not keep us waiting for a writer.
        descriptor = os.open(f"{path}-owner", os.O_RDONLY | _NO_FOLLOW | _NO_WAIT)
    except OSError:
        return Note()
    try:
        return _note(_read(descriptor))
    finally:
        os.close(descriptor)


def _open_sidecar(path: str) -> int:
    """The lock file, open. It must be a plain file of its own: we write to it, and whoever can open it can lock it."""
    name = f"{path}-owner"
    try:
        if os.path.islink(name):
            raise StoreUnusable(path, f"its lock file {name!r} is a symbolic link; remove the link")
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | _NO_FOLLOW, 0o600)
    except OSError as error:
        raise _refusal(path, f"its lock file {name!r}", error) from error
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(descriptor)
        raise StoreUnusable(path, f"its lock file {name!r} is not a plain file or has hard links; remove it")
    if found.st_mode & 0o077 and hasattr(os, "fchmod"):
        # Earlier versions created it for everybody to read. Only its owner may change that.
        with contextlib.suppress(PermissionError):
            os.fchmod(descriptor, 0o600)
    return descriptor


def _refusal(path: str, what: str, error: OSError) -> StorageError:
    """Too few descriptors are a trouble that passes; anything else is about this path."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return StorageUnavailable(f"{path}: {what} cannot be opened: {error.strerror}")
    return StoreUnusable(path, f"{what} cannot be opened: {error.strerror}")


def _claim(path: str, sidecar: int) -> None:
    try:
        _lock(sidecar)
    except (BlockingIOError, PermissionError) as error:
        raise StoreInUse(path, _holder(sidecar)) from error
    except OSError as error:
        raise StoreUnusable(path, f"this file system has no locks: {error.strerror}") from error
    _write(sidecar, _note(_read(sidecar)))


def _claim_store(path: str, file: int) -> None:
    try:
        _lock_store(file)
    except (BlockingIOError, PermissionError) as error:
        holder = "another process, which has opened the same file by another path (a hard link or a bind mount)"
        raise StoreInUse(path, holder) from error
    except OSError as error:
        raise StoreUnusable(path, f"this file system has no locks: {error.strerror}") from error


def _write(sidecar: int, note: Note) -> None:
    holder = {"pid": os.getpid(), "host": platform.node()}
    data = json.dumps({**holder, "generations": sorted(note.generations), "log": note.log}).encode()
    # The lock counts and not the text, so a full disk here is no reason to fail. But no text is better than an old
    # one: an old one would make the next engine refuse a store that is sound.
    try:
        os.lseek(sidecar, 0, os.SEEK_SET)
        os.write(sidecar, data)
        os.ftruncate(sidecar, len(data))
        os.fsync(sidecar)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(sidecar, 0)


def _read(sidecar: int) -> dict[str, object]:
    """What the sidecar says; empty if it says nothing that can be read, as just before its holder has written it."""
    try:
        os.lseek(sidecar, 0, os.SEEK_SET)
        note = json.loads(os.read(sidecar, _NOTE_MAX))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def _note(text: dict[str, object]) -> Note:
    generations, log = text.get("generations"), text.get("log")
    if not isinstance(generations, list) or not all(isinstance(number, int) for number in generations):
        return Note()
    return Note(frozenset(generations), log if isinstance(log, int) else None)


def _holder(sidecar: int) -> str:
    """Who holds the lock, as far as the file says."""
    note = _read(sidecar)
    pid, host = note.get("pid"), note.get("host")
    if not isinstance(pid, int) or pid <= 0 or not isinstance(host, str):
        return "another process"
    if host == platform.node() and not _is_alive(pid):
        return f"another process that holds its lock; the lock file names process {pid}, which is gone"
    return f"process {pid} on host {host}"


def _is_alive(pid: int) -> bool:
    try:
        # Signal 0 asks and sends nothing. Not on Windows, where it would end the process.
        if sys.platform != "win32":
            os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        # It belongs to somebody else.
        pass
    return True


def _identity(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino

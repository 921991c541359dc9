"""The locks that say which engine owns a store file.

Knows a sidecar file, `<store>-owner`, and the locks of the operating system. Knows nothing about SQLite. The locks
belong to the process: the kernel releases them when it dies, in whatever way, and a fork does not inherit them. The
sidecar names the holder, so that a refused engine can report it.

There are two locks. The lock on the sidecar comes first and is tied to the path. The lock on the store itself is tied
to the file: it keeps out a process that reaches the same file by another path, with another sidecar beside it.

After a release the sidecar stays. Unlinking it would race with the next holder: one process could hold a lock on the
unlinked file while another creates and locks a new one, and each would believe that it is alone.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import stat
import struct
import sys
import threading
from collections.abc import Iterable, Iterator

import attrs

from durable.errors import StorageError, StorageUnavailable, StoreInUse, StoreUnusable

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        # On Windows a lock also prevents reading. A byte far after the text keeps the name of the holder readable.
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _lock_store(descriptor: int) -> None:
        """Does nothing: on Windows a lock in the store would prevent reading."""

    def _is_locked(descriptor: int) -> bool:
        """Whether another process has the lock. Windows cannot tell without trying."""
        try:
            _lock(descriptor)
        except OSError:
            return True
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
        return False

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _lock_store(descriptor: int) -> None:
        # One byte far after everything that SQLite writes or locks.
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 1 << 62)

    # The fields of `struct flock`: on Linux the type comes first, on the systems of the BSD family it comes later.
    _IS_LINUX = sys.platform.startswith("linux")
    _FLOCK = "hhqqi" if _IS_LINUX else "qqihh"
    _NO_FIELDS = 0, 0, 0

    def _is_locked(descriptor: int) -> bool:
        """Whether another process has the lock."""
        asked = (fcntl.F_WRLCK, os.SEEK_SET)
        fields = (*asked, *_NO_FIELDS) if _IS_LINUX else (*_NO_FIELDS, *asked)
        # With room at the end: some systems add a field.
        question = struct.pack(_FLOCK, *fields).ljust(64, b"\0")
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, question)
        kind = struct.unpack_from(_FLOCK, answer)[0 if _IS_LINUX else 3]
        return bool(kind != fcntl.F_UNLCK)


# The device and inode of a file: the same for all its names and mounts.
Identity = tuple[int, int]
_NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT: int = getattr(os, "O_NONBLOCK", 0)
# Many times the length of what is written to a sidecar.
_NOTE_MAX = 4000

# The stores that this process owns, by path and by identity, each with the pid at that time: after a fork the child
# has a copy of this table but none of the locks. The table exists because locks are per process: a second engine in
# this process would also get the lock, and closing its descriptor would drop the lock of the first.
_owned: dict[str | Identity, int] = {}
# Reentrant, because the garbage collector may run `__del__` while the lock is held.
_guard = threading.RLock()


@attrs.frozen
class Note:
    """What the last owner recorded: the generations that the store may have, and the salt of its log.

    No generations means any generation, and no salt any salt. `generation` explains both.
    """

    generations: frozenset[int] = frozenset()
    log: int | None = None


class Owner:
    """The right to use a store file, held until `release` or until the object is garbage."""

    def __init__(self, path: str, sidecar: int, file: int) -> None:
        # A descriptor of the store itself, for reading. No other code may close it, or open and close another one: that
        # would drop all locks that this process has on the file, including SQLite's.
        self.file = file
        self.identity = _identity(os.fstat(file))
        self._path = path
        self._process = os.getpid()
        self._sidecar: int | None = sidecar

    def release(self) -> None:
        """Release the locks. May be called twice."""
        with _guard:
            sidecar, self._sidecar = self._sidecar, None
            # In a forked child the descriptors are copies, and the locks belong to the parent. Closing the copies would
            # drop locks that the child may have taken since, so they stay open.
            if sidecar is not None and self._process == os.getpid():
                _owned.pop(self._path, None)
                _owned.pop(self.identity, None)
                os.close(self.file)
                os.close(sidecar)

    def remember(self, generations: Iterable[int], log: int | None) -> None:
        """Record durably which generations and which log the store may have when it is opened next."""
        if self._sidecar is not None:
            _write(self._sidecar, Note(frozenset(generations), log))

    def __del__(self) -> None:
        # An engine that was dropped without `close` must not block the file until the process ends.
        self.release()


@contextlib.contextmanager
def unowned(path: str) -> Iterator[None]:
    """Prevents engines of this process from taking the store at this real path. Raises `StoreInUse` if one has it.

    Closing a descriptor of a file drops every POSIX lock that the process has on the file. On the sidecar that is the
    lock of this module. On the store it is SQLite's, and then the next reader in another process believes that it is
    the last connection, and deletes the log while the engine is using it.
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
    """Take the store at this real path. Creates an empty file if there is none.

    Raises `StoreInUse`, which names the holder, or `StoreUnusable` if the file system has no locks.
    """
    with unowned(path), contextlib.ExitStack() as opened:
        sidecar = _open_sidecar(path)
        opened.callback(os.close, sidecar)
        _claim(path, sidecar)
        try:
            # The mode that SQLite gives to a new file, before the umask.
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
    """The note of the last owner of a store; an empty note if there is none."""
    try:
        # A pipe in its place must not keep us waiting for a writer.
        descriptor = os.open(f"{path}-owner", os.O_RDONLY | _NO_FOLLOW | _NO_WAIT)
    except OSError:
        return Note()
    try:
        return _note(_read(descriptor))
    finally:
        os.close(descriptor)


def holder(path: str) -> str | None:
    """A description of the process that owns the store at this real path; None if no process does. Takes no lock.

    Where a lock cannot be examined, it answers None.
    """
    with _guard:
        if _owned.get(path) == os.getpid():
            return f"this process, {os.getpid()}"
        try:
            descriptor = os.open(f"{path}-owner", os.O_RDWR | _NO_FOLLOW | _NO_WAIT)
        except OSError:
            return None
        try:
            return _holder(descriptor) if _is_locked(descriptor) else None
        finally:
            os.close(descriptor)


def _open_sidecar(path: str) -> int:
    """Open the lock file. It is written to, and anyone who can open it can lock it, so it must be plain and private."""
    name = f"{path}-owner"
    try:
        if os.path.islink(name):
            raise StoreUnusable(path, f"its lock file {name!r} is a symbolic link; remove the link")
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | _NO_FOLLOW, 0o600)
    except OSError as error:
        raise _refusal(path, f"its lock file {name!r}", error) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        raise StoreUnusable(path, f"its lock file {name!r} is not a plain file or has hard links; remove it")
    if status.st_mode & 0o077 and hasattr(os, "fchmod"):
        # Earlier versions made it readable by everyone. Only its owner may change the mode.
        with contextlib.suppress(PermissionError):
            os.fchmod(descriptor, 0o600)
    return descriptor


def _refusal(path: str, subject: str, error: OSError) -> StorageError:
    """The error for a file that cannot be opened. A lack of descriptors may pass; anything else is about this path."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return StorageUnavailable(f"{path}: {subject} cannot be opened: {error.strerror}")
    return StoreUnusable(path, f"{subject} cannot be opened: {error.strerror}")


def _claim(path: str, sidecar: int) -> None:
    """Lock the sidecar, then name this process in it and keep the note of the last owner."""
    try:
        _lock(sidecar)
    except (BlockingIOError, PermissionError) as error:
        raise StoreInUse(path, _holder(sidecar)) from error
    except OSError as error:
        raise StoreUnusable(path, f"this file system has no locks: {error.strerror}") from error
    _write(sidecar, _note(_read(sidecar)))


def _claim_store(path: str, file: int) -> None:
    """Lock the store itself. Raises `StoreInUse` if another process has reached the file by another path."""
    try:
        _lock_store(file)
    except (BlockingIOError, PermissionError) as error:
        holder = "another process, which has opened the same file by another path (a hard link or a bind mount)"
        raise StoreInUse(path, holder) from error
    except OSError as error:
        raise StoreUnusable(path, f"this file system has no locks: {error.strerror}") from error


def _write(sidecar: int, note: Note) -> None:
    """Replace the text of the sidecar durably, or empty it. It never fails."""
    holder = {"pid": os.getpid(), "host": platform.node()}
    data = json.dumps({**holder, "generations": sorted(note.generations), "log": note.log}).encode()
    # Only the lock matters, so a full disk must not cause a failure here. But an empty file is better than an old text,
    # which would make the next engine refuse a sound store.
    try:
        os.lseek(sidecar, 0, os.SEEK_SET)
        os.write(sidecar, data)
        os.ftruncate(sidecar, len(data))
        os.fsync(sidecar)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(sidecar, 0)


def _read(sidecar: int) -> dict[str, object]:
    """The content of the sidecar; empty if it cannot be read, as just before its holder has written it."""
    try:
        os.lseek(sidecar, 0, os.SEEK_SET)
        note = json.loads(os.read(sidecar, _NOTE_MAX))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def _note(text: dict[str, object]) -> Note:
    """The note in the text of a sidecar; empty if the text is from an earlier version or damaged."""
    generations, log = text.get("generations"), text.get("log")
    if not isinstance(generations, list) or not all(isinstance(number, int) for number in generations):
        return Note()
    return Note(frozenset(generations), log if isinstance(log, int) else None)


def _holder(sidecar: int) -> str:
    """A description of the process that holds the lock, as far as the sidecar says."""
    note = _read(sidecar)
    pid, host = note.get("pid"), note.get("host")
    if not isinstance(pid, int) or pid <= 0 or not isinstance(host, str):
        return "another process"
    if host == platform.node() and not _is_alive(pid):
        return f"another process that holds its lock; the lock file names process {pid}, which is gone"
    return f"process {pid} on host {host}"


def _is_alive(pid: int) -> bool:
    """Whether a process with this id exists on this machine. When in doubt, it does."""
    try:
        # Signal 0 only checks. Not on Windows, where it would end the process.
        if sys.platform != "win32":
            os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        # The process exists, but belongs to another user.
        pass
    return True


def _identity(status: os.stat_result) -> Identity:
    """The identity of a file, from its status."""
    return status.st_dev, status.st_ino

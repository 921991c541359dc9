"""The locks that say which engine owns a store file.

Knows a sidecar file, `<store>-owner`, and the locks of the operating system. Knows nothing about SQLite. The locks
belong to the process: the kernel releases them when it dies, in whatever way, and a fork does not inherit them. The
sidecar names the holder, so that a refused engine can report it, and the socket at which the holder can be asked.

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
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

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
        """In doubt: a lock cannot be examined without taking it."""
        return True

else:
    import fcntl
    import struct

    # `struct flock`: the fields before the start and the length, those behind them, and the place of the kind of lock.
    _FLOCK, _KIND = ("@qqihh", 3) if sys.platform == "darwin" else ("@hhqqi", 0)

    def _lock(descriptor: int) -> None:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _lock_store(descriptor: int) -> None:
        # One byte far after everything that SQLite writes or locks.
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 1 << 62)

    def _is_locked(descriptor: int) -> bool:
        """Whether another process has a lock that would keep this one out. Takes none."""
        fields = [0] * 5
        fields[_KIND] = fcntl.F_WRLCK
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(_FLOCK, *fields))
        return bool(struct.unpack(_FLOCK, answer)[_KIND] != fcntl.F_UNLCK)


T = TypeVar("T")
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
# Those among them that are owned only for the moment that it takes to write something into the store.
_owned_briefly: set[str | Identity] = set()
# How often, and how many seconds apart, the owner of such a moment is waited for.
_TRIES, _PAUSE = 200, 0.01
# Reentrant, because the garbage collector may run `__del__` while the lock is held.
_guard = threading.RLock()
# The sockets that engines of this process announced for these stores: the sidecar must not be opened to find them.
_announced: dict[str | Identity, str] = {}


class _HeldBriefly(StoreInUse):
    """The store is in use, but only for a moment."""


@attrs.frozen
class Note:
    """What the last owner recorded: the generations that the store may have, and the salt of its log.

    No generations means any generation, and no salt any salt. `generation` explains both.
    """

    generations: frozenset[int] = frozenset()
    log: int | None = None


class Owner:
    """The right to use a store file, held until `release` or until the object is garbage."""

    def __init__(self, path: str, sidecar: int, file: int, note: Note) -> None:
        # A descriptor of the store itself, for reading. No other code may close it, or open and close another one: that
        # would drop all locks that this process has on the file, including SQLite's.
        self.file = file
        self.identity = _identity(os.fstat(file))
        # The real path of the store.
        self.path = path
        self._note = note
        self._control: str | None = None
        self._process = os.getpid()
        self._sidecar: int | None = sidecar

    def release(self) -> None:
        """Release the locks. May be called twice."""
        with _guard:
            sidecar, self._sidecar = self._sidecar, None
            # In a forked child the descriptors are copies, and the locks belong to the parent. Closing the copies would
            # drop locks that the child may have taken since, so they stay open.
            if sidecar is not None and self._process == os.getpid():
                for key in (self.path, self.identity):
                    _owned.pop(key, None)
                    _announced.pop(key, None)
                    _owned_briefly.discard(key)
                os.close(self.file)
                os.close(sidecar)

    def remember(self, generations: Iterable[int], log: int | None) -> None:
        """Record durably which generations and which log the store may have when it is opened next."""
        with _guard:
            self._note = Note(frozenset(generations), log)
            self._rewrite()

    def announce(self, control: str) -> None:
        """Record the path of the socket at which this process can be asked, "" for none. For any thread."""
        with _guard:
            self._control = control
            self._rewrite()
            if self._sidecar is not None:
                _announced[self.path] = _announced[self.identity] = control

    def _rewrite(self) -> None:
        if self._sidecar is not None:
            _write(self._sidecar, self._note, self._control, is_brief=self.path in _owned_briefly)

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
            kind = _HeldBriefly if {path, identity} & _owned_briefly else StoreInUse
            raise kind(path, f"another engine in this process, {os.getpid()}")
        yield


def patiently(attempt: Callable[[], T]) -> T:
    """Do something that needs the store. If it is owned only for a moment, wait until that is over and try again."""
    tries = _TRIES
    while True:
        try:
            return attempt()
        except _HeldBriefly as error:
            tries -= 1
            if not tries:
                raise StoreInUse(error.store, error.holder) from error
            threading.Event().wait(_PAUSE)


def take(path: str, *, is_brief: bool = False) -> Owner:
    """Take the store at this real path. Creates an empty file if there is none.

    With `is_brief`, those who take it `patiently` wait. Raises `StoreInUse`, which names the holder, or `StoreUnusable`
    if the file system has no locks.
    """
    with unowned(path), contextlib.ExitStack() as opened:
        sidecar = _open_sidecar(path)
        opened.callback(os.close, sidecar)
        note = _claim(path, sidecar, is_brief=is_brief)
        try:
            # The mode that SQLite gives to a new file, before the umask.
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise _refusal(path, "it", error) from error
        opened.callback(os.close, file)
        _claim_store(path, file)
        opened.pop_all()
        taken = Owner(path, sidecar, file, note)
        _owned[path] = _owned[taken.identity] = os.getpid()
        if is_brief:
            _owned_briefly.update((path, taken.identity))
        return taken


def is_taken(path: str) -> bool:
    """Whether a process owns the store at this real path, for longer than a moment. In doubt, one does."""
    return holder(path) is not None


def holder(path: str) -> str | None:
    """A description of the process that owns the store at this real path for longer than a moment. Takes no lock."""
    try:
        with unowned(path):
            descriptor = os.open(f"{path}-owner", os.O_RDONLY | _NO_FOLLOW | _NO_WAIT)
            try:
                is_held = _is_locked(descriptor) and not _read(descriptor).get("brief")
                return _holder(descriptor) if is_held else None
            finally:
                os.close(descriptor)
    except (FileNotFoundError, _HeldBriefly):
        return None
    except StoreInUse as error:
        return error.holder
    except OSError:
        return "a process of another user, perhaps"


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


def control_path(path: str | os.PathLike[str]) -> str | None:
    """The socket of the engine that owns a store, as it announced it; "" if it has none, None if nobody announced one.

    Takes no lock, and believes no file of another user. The engine may be gone: that shows when it is asked.
    """
    real = os.path.realpath(os.fsdecode(path))
    with _guard:
        try:
            identity = _identity(os.stat(real))
        except OSError:
            return None
        if os.getpid() in (_owned.get(real), _owned.get(identity)):
            # Closing the sidecar would drop the lock.
            return _announced.get(real) or _announced.get(identity)
        try:
            descriptor = os.open(f"{real}-owner", os.O_RDONLY | _NO_FOLLOW | _NO_WAIT)
        except OSError:
            return None
        try:
            is_ours = _is_ours(os.fstat(descriptor), stat.S_IFREG)
            control = _read(descriptor).get("control") if is_ours else None
        finally:
            os.close(descriptor)
    try:
        if isinstance(control, str) and (not control or _is_ours(os.lstat(control), stat.S_IFSOCK)):
            return control
    except (OSError, ValueError):
        pass
    return None


def _is_ours(status: os.stat_result, kind: int) -> bool:
    """Whether this is a file of this kind that belongs to this user, and that nobody else may change."""
    if sys.platform == "win32":
        return False
    is_private = status.st_nlink == 1 and not status.st_mode & 0o022
    return stat.S_IFMT(status.st_mode) == kind and is_private and status.st_uid == os.geteuid()


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


def _claim(path: str, sidecar: int, *, is_brief: bool) -> Note:
    """Lock the sidecar, then name this process in it and keep the note of the last owner, which is returned."""
    try:
        _lock(sidecar)
    except (BlockingIOError, PermissionError) as error:
        raise (_HeldBriefly if _read(sidecar).get("brief") else StoreInUse)(path, _holder(sidecar)) from error
    except OSError as error:
        raise StoreUnusable(path, f"this file system has no locks: {error.strerror}") from error
    note = _note(_read(sidecar))
    _write(sidecar, note, None, is_brief=is_brief)
    return note


def _claim_store(path: str, file: int) -> None:
    """Lock the store itself. Raises `StoreInUse` if another process has reached the file by another path."""
    try:
        _lock_store(file)
    except (BlockingIOError, PermissionError) as error:
        holder = "another process, which has opened the same file by another path (a hard link or a bind mount)"
        raise StoreInUse(path, holder) from error
    except OSError as error:
        raise StoreUnusable(path, f"this file system has no locks: {error.strerror}") from error


def _write(sidecar: int, note: Note, control: str | None, *, is_brief: bool = False) -> None:
    """Replace the text of the sidecar durably, or empty it. It never fails."""
    holder = {"pid": os.getpid(), "host": platform.node(), "control": control, "brief": is_brief}
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
        pass  # it exists, but belongs to another user
    return True


def _identity(status: os.stat_result) -> Identity:
    """The identity of a file, from its status."""
    return status.st_dev, status.st_ino

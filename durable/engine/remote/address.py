"""Where the socket of an engine is: in a private directory, beside the store if its path is short enough.

The kernel limits the path of a socket to about a hundred bytes. If the store lies deeper, the socket goes into a
private directory below that for temporary files. Its clients find it in the lock file of the store.

Every engine makes a name of its own. So one that ends late removes its own socket, not that of its successor.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import stat
import tempfile

import attrs

from durable.engine.remote import sockets

# With the final NUL, BSD and macOS have room for 104 bytes, Linux for 108.
PATH_MAX = 100
_BACKLOG = 128


@attrs.frozen
class Place:
    """A directory for sockets, and how the names of those that belong to one store begin."""

    directory: str
    prefix: str


@attrs.define
class Listener:
    """A socket that listens, and its file."""

    socket: socket.socket
    path: str
    _process: int = attrs.field(factory=os.getpid)

    def close(self) -> None:
        """Stop listening and remove the file, unless this is a forked child: the file belongs to its parent."""
        if self._process == os.getpid():
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        self.socket.close()


def places(store: str) -> list[Place]:
    """Where the socket of the store at this real path may be, the best place first.

    Raises `OSError` on a system without Unix sockets.
    """
    if not hasattr(socket, "AF_UNIX"):
        raise OSError("this system has no Unix sockets")
    digest = hashlib.blake2b(os.fsencode(store), digest_size=8).hexdigest()
    shared = os.path.join(tempfile.gettempdir(), f"durable-{os.geteuid()}")
    return [Place(f"{store}-control", ""), Place(shared, f"{digest}-")]


def listen(places: list[Place], name: str) -> Listener:
    """Listen in the first place that allows it, and remove the sockets that dead engines of this store left there.

    Only the owner of the store may call this. Raises `OSError`, which names each place and what is wrong with it.
    """
    problems = []
    for place in places:
        try:
            return _listen(place, name)
        except OSError as error:
            problems.append(f"{place.directory}: {error.strerror or error}")
    raise OSError("; ".join(problems))


def _listen(place: Place, name: str) -> Listener:
    path = os.path.join(place.directory, place.prefix + name)
    if len(os.fsencode(path)) > PATH_MAX:
        raise OSError(f"the path of the socket would have more than {PATH_MAX} bytes")
    _make_private(place.directory)
    for stale in _left_behind(place):
        with contextlib.suppress(OSError):
            os.unlink(stale)
    listening = sockets.make()
    try:
        listening.bind(path)
        # Nobody could reach it before: the directory is private. Some systems ask for this permission, some do not.
        os.chmod(path, 0o600)
        listening.listen(_BACKLOG)
    except BaseException:
        listening.close()
        raise
    return Listener(listening, path)


def _make_private(directory: str) -> None:
    """Create a directory that only this user can enter. Raises `OSError` if there is another one in its place."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)
    status = os.lstat(directory)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise OSError("it exists, and is not a directory that only this user can enter (mode 0700)")


def _left_behind(place: Place) -> list[str]:
    """The sockets of the store in this place. Their engines have lost it: it has one owner."""
    with os.scandir(place.directory) as entries:
        return [
            entry.path
            for entry in entries
            if entry.name.startswith(place.prefix) and stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)
        ]

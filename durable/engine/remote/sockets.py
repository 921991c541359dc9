"""Sockets of this machine: who is on the other side, and how bytes come and go without blocking the loop.

They are used as they are, without a stream around them: a send that is cancelled must report how much it has sent, or
the next line would begin in the middle of the last one.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import weakref

import anyio

# One piece of what arrives.
PIECE = 64 * 1024
# Linux: pid, uid, gid. BSD and macOS: a version, the uid, a number of groups and the groups.
_LINUX, _BSD = struct.Struct("3i"), struct.Struct("IIh16I")
_SOL_LOCAL, _LOCAL_PEERCRED = 0, 1

# The sockets of this process. A forked child closes its copies: if it kept them, the other side would not notice that
# this process has died.
_open: weakref.WeakSet[socket.socket] = weakref.WeakSet()


def _close_copies() -> None:
    for copied in list(_open):
        copied.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_copies)


def make() -> socket.socket:
    """A new Unix socket."""
    return keep(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))


def keep(made: socket.socket) -> socket.socket:
    """A socket, ready for use in a loop: it never blocks, and a forked child does not keep it."""
    made.setblocking(False)
    _open.add(made)
    return made


def close(opened: socket.socket) -> None:
    """Close a connection; the other side notices at once, even if a forked child has a copy."""
    with contextlib.suppress(OSError):
        opened.shutdown(socket.SHUT_RDWR)
    opened.close()


def peer_uid(connected: socket.socket) -> int | None:
    """The user whose process is on the other side, as the kernel says; None if the system does not tell."""
    try:
        if hasattr(socket, "SO_PEERCRED"):
            text = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _LINUX.size)
            return int(_LINUX.unpack(text)[1])
        text = connected.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _BSD.size)
        return int(struct.unpack_from("II", text)[1])
    except (OSError, struct.error):
        return None


def is_trusted(uid: int | None) -> bool:
    """Whether the other side belongs to the user of this process. Nobody else is, not even root."""
    return uid is not None and uid == os.geteuid()


def send_now(connected: socket.socket, data: bytes | memoryview) -> int:
    """Send what fits without waiting; how much that was. Raises `OSError` if the other side is gone."""
    try:
        return connected.send(data)
    except (BlockingIOError, InterruptedError):
        return 0


async def send(connected: socket.socket, data: bytes) -> None:
    """Send everything. If it is cancelled, a part of the data may have left. Raises `OSError` as `send_now` does."""
    rest = memoryview(data)
    while rest:
        if sent := send_now(connected, rest):
            rest = rest[sent:]
        else:
            await anyio.wait_writable(connected)


def receive_now(connected: socket.socket) -> bytes | None:
    """A piece of what has arrived; empty if the other side is gone, None if nothing has arrived."""
    try:
        return connected.recv(PIECE)
    except (BlockingIOError, InterruptedError):
        return None
    except OSError:
        return b""


async def receive(connected: socket.socket) -> bytes:
    """The next piece; empty if the other side is gone. Nothing is lost if it is cancelled."""
    while (data := receive_now(connected)) is None:
        await anyio.wait_readable(connected)
    return data

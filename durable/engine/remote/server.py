"""The engine's side of the socket: it accepts clients of the same user, and serves each as a `Guest`.

Everything runs in the engine's event loop, so nothing here may take long or keep much. `Limits` says how much a client
may ask for; one that exceeds it is cut off, and no other notices.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
from typing import Any

import anyio
import anyio.abc

from durable.engine.host.threads import Threads
from durable.engine.remote import frames, sockets
from durable.engine.remote.address import Listener
from durable.engine.remote.guest import Answer, Guest, Limits, Service
from durable.model.codec import Codec
from durable.model.registry import Registry
from durable.runner.definitions import WorkflowDef

_log = logging.getLogger("durable")
# New clients per turn of the loop.
_SHARE = 8
# Seconds until the next try to accept a client if the process has no file descriptor left for it.
_PAUSE = 0.1
# Seconds that a client has, when the engine stops, to read the rest of the line that is being sent.
_LAST_WORDS = 1.0
STOPPING = "the engine is shutting down"


class ControlServer:
    """Serves the operations of an engine at a socket. `listener` is closed, and its file removed, when `run` ends.

    `answer` decides an operation, and raises its error. Big requests are decoded in `threads`. Used in one event loop.
    """

    def __init__(
        self,
        listener: Listener,
        answer: Answer,
        registry: Registry[WorkflowDef[Any, Any]],
        codec: Codec,
        threads: Threads,
        *,
        max_payload_bytes: int,
        limits: Limits | None = None,
    ) -> None:
        self.path = listener.path
        self._listener = listener
        self._service = Service(
            answer=answer,
            registry=registry,
            codec=codec,
            threads=threads,
            max_payload_bytes=max_payload_bytes,
            limits=limits or Limits(),
        )
        self._guests: set[Guest] = set()
        self._scope = anyio.CancelScope()
        self._strangers: set[int | None] = set()

    async def run(self) -> None:
        """Serve until `stop` is called, then say goodbye to every client."""
        try:
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    while True:
                        await anyio.wait_readable(self._listener.socket)
                        await self._accept(tasks)
        finally:
            self.close()

    def close(self) -> None:
        """Close the socket. `run` does this at its end."""
        self._listener.close()

    def stop(self) -> None:
        """Accept nothing more, and end every connection after the line that is being sent. `run` then returns soon."""
        for guest in self._guests:
            guest.hurry(_LAST_WORDS)
        self._scope.cancel()

    async def _accept(self, tasks: anyio.abc.TaskGroup) -> None:
        """Let in the clients that wait at the door, a few at a time."""
        for _ in range(_SHARE):
            try:
                connected, _ = self._listener.socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ECONNABORTED:
                    # Most likely no file descriptor is left. The client stays at the door, so do not try at once.
                    await anyio.sleep(_PAUSE)
                return
            self._admit(sockets.keep(connected), tasks)

    def _admit(self, connected: socket.socket, tasks: anyio.abc.TaskGroup) -> None:
        uid = sockets.peer_uid(connected)
        most = self._service.limits.connections
        if not sockets.is_trusted(uid):
            if uid not in self._strangers:
                self._strangers.add(uid)
                _log.warning("a process of user %s was refused at the socket %r of the engine", uid, self.path)
            sockets.close(connected)
        elif len(self._guests) >= most:
            with contextlib.suppress(OSError):
                sockets.send_now(connected, frames.write_end(f"the engine serves {most} connections already"))
            sockets.close(connected)
        else:
            tasks.start_soon(self._serve, Guest(connected, self._service))

    async def _serve(self, guest: Guest) -> None:
        self._guests.add(guest)
        try:
            await guest.run()
        except Exception:
            # A bug of ours must not end the engine.
            _log.exception("a connection to the engine failed")
        finally:
            self._guests.discard(guest)
            guest.leave(STOPPING)

"""One client of the engine's socket, from the first line to the last.

The reader takes one line after the other and gives each ask a task of its own. So an answer that takes months delays no
other. What keeps a client from hurting the engine:

- A line that is too long is noticed while it arrives, and what is not a request ends the connection.
- Only `at_once` short asks are decided at once. The client's other lines wait in the kernel, and then in the client.
- Big lines are decoded in a worker thread, and only a few at a time in the whole server.
- A client that does not read what it asked for, for `patience` seconds, is cut off.

An ask whose client has left is cancelled, and the engine drops it if it has not been decided yet.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import attrs

from durable.engine.host.threads import Threads
from durable.engine.operations import AwaitChange, AwaitEnd, Operation
from durable.engine.operations.forms import Form
from durable.engine.remote import frames, sockets
from durable.engine.remote.frames import Abandon, Ask, Broken, Hello, Lines
from durable.engine.remote.receiving import receive
from durable.errors import DurableError
from durable.model.codec import Codec
from durable.model.registry import Registry
from durable.runner.definitions import WorkflowDef

_log = logging.getLogger("durable")
T = TypeVar("T")
# Decides an operation that arrived with this request id, and raises its error.
Answer = Callable[[Operation[Any], str | None], Awaitable[Any]]
# The operations whose answer may take months.
LONG = (AwaitEnd, AwaitChange)
# Lines of at least this length are decoded in a thread.
BIG = 64 * 1024
# How many big requests the server works on at once. Each may occupy several times its length.
_BIG_AT_ONCE = 4
# Lines that are read in one turn of the loop.
_SHARE = 16


@attrs.frozen(kw_only=True)
class Limits:
    """How much the clients of a server may do."""

    connections: int = 64
    # Asks of one client that are not answered.
    asks: int = 10_000
    # Short ones among them that are decided at once.
    at_once: int = 32
    # Seconds for the greeting, and for reading an answer.
    patience: float = 5.0


@attrs.frozen(kw_only=True, eq=False)
class Service:
    """What all guests of a server share."""

    answer: Answer
    registry: Registry[WorkflowDef[Any, Any]]
    codec: Codec
    threads: Threads
    max_payload_bytes: int
    limits: Limits
    big: anyio.Semaphore = attrs.field(factory=lambda: anyio.Semaphore(_BIG_AT_ONCE))

    def read(self, form: Form) -> Operation[Any]:
        """The operation of a form. Raises what `receive` raises; it runs code of the user."""
        return receive(form, self.registry, self.codec)

    async def decode(self, decode: Callable[[Any], T], data: Any, is_big: bool) -> T:
        """Decode something here, or in a thread so that the loop does not stand still."""
        if not is_big:
            return decode(data)
        decoded: T = await self.threads.run(partial(decode, data), anyio.CancelScope())
        return decoded


class Guest:
    """Serves one connection. `run` returns when the client has gone; `leave` closes it, whatever happened."""

    def __init__(self, connected: socket.socket, service: Service) -> None:
        self._socket = connected
        self._service = service
        self._lines = Lines(frames.HELLO_MAX)
        self._waiting: list[bytes] = []
        self._scope = anyio.CancelScope()
        # Why the connection ends, if it does not end because the client has gone or the engine stops.
        self._reason: str | None = None
        # The asks that are not answered, by number.
        self._asks: dict[int, anyio.CancelScope] = {}
        self._room = anyio.Semaphore(service.limits.at_once, fast_acquire=True)
        self._writing = anyio.Lock()
        self._sending = anyio.CancelScope()
        # Whether the last line was sent in part. Nothing may follow it.
        self._is_torn = False

    async def run(self) -> None:
        """Greet the client, then serve it until it leaves or breaks the rules."""
        try:
            with anyio.move_on_after(self._service.limits.patience) as greeting:
                await self._greet()
            if greeting.cancelled_caught:
                raise Broken("the client did not say hello")
            with self._scope:
                await self._serve_all()
        except Broken as broken:
            self._reason = str(broken)
        except OSError:
            # It is gone.
            self._is_torn = True

    def hurry(self, seconds: float) -> None:
        """Give the line that is being sent this long, before a cancellation cuts it off."""
        self._sending.deadline = min(self._sending.deadline, anyio.current_time() + seconds)

    def leave(self, reason: str) -> None:
        """Say why the connection ends, unless a line was cut off or the client does not read, and close it."""
        if not self._is_torn:
            with contextlib.suppress(OSError):
                sockets.send_now(self._socket, frames.write_end(self._reason or reason))
        sockets.close(self._socket)

    # --- in -------------------------------------------------------------------------------------------------------

    async def _next_line(self) -> bytes | None:
        """The next line; None if the client has gone."""
        while not self._waiting:
            if not (data := await sockets.receive(self._socket)):
                return None
            self._waiting = self._lines.feed(data)
            self._waiting.reverse()
        return self._waiting.pop()

    async def _greet(self) -> None:
        """Exchange greetings. Raises `Broken` if the two do not understand each other."""
        if (line := await self._next_line()) is None:
            raise ConnectionResetError
        theirs = Hello.read(line)
        limits = self._service.limits
        ours = Hello(max_payload_bytes=self._service.max_payload_bytes, max_asks=limits.asks)
        await sockets.send(self._socket, ours.write())
        if not frames.understand(ours.protocol, theirs.protocol):
            raise Broken(f"durable {ours.version} and durable {theirs.version} do not understand each other")
        self._lines.limit = frames.request_max(self._service.max_payload_bytes)

    async def _serve_all(self) -> None:
        """Answer requests until the client has gone or breaks the rules; then nothing that it asked for matters."""
        async with anyio.create_task_group() as tasks:
            try:
                await self._read(tasks)
            except Broken as broken:
                self._reason = str(broken)
            tasks.cancel_scope.cancel()

    async def _read(self, tasks: anyio.abc.TaskGroup) -> None:
        """Take requests until the client has gone. Raises `Broken`."""
        service, taken = self._service, 0
        while (line := await self._next_line()) is not None:
            if (taken := taken + 1) % _SHARE == 0:
                await anyio.lowlevel.checkpoint()
            with contextlib.ExitStack() as places:
                if is_big := len(line) >= BIG:
                    await service.big.acquire()
                    places.callback(service.big.release)
                request = await service.decode(frames.read_request, line, is_big)
                if isinstance(request, Abandon):
                    self._abandon(request.number)
                    continue
                await self._room.acquire()
                places.callback(self._room.release)
                tasks.start_soon(self._serve, request, self._note(request), is_big, places.pop_all())

    def _abandon(self, number: int) -> None:
        if (scope := self._asks.pop(number, None)) is not None:
            scope.cancel()

    def _note(self, ask: Ask) -> anyio.CancelScope:
        """Note an ask that is not answered. Raises `Broken` if there are too many, or if its number is taken."""
        if ask.number in self._asks:
            raise Broken(f"two asks have the number {ask.number}")
        if len(self._asks) >= self._service.limits.asks:
            raise Broken(f"more than {self._service.limits.asks} asks wait for an answer")
        scope = self._asks[ask.number] = anyio.CancelScope()
        return scope

    # --- out ------------------------------------------------------------------------------------------------------

    async def _serve(self, ask: Ask, scope: anyio.CancelScope, is_big: bool, places: contextlib.ExitStack) -> None:
        """Answer one ask. Its places are for short asks: one whose answer may take months gives them back."""
        service = self._service
        with places, scope:
            try:
                operation = await service.decode(service.read, ask.form, is_big)
                if isinstance(operation, LONG):
                    places.close()
                reply = await service.answer(operation, ask.request_id)
            except Exception as error:
                await self._write(ask.number, None, error)
            else:
                await self._write(ask.number, type(operation), reply)
        if self._asks.get(ask.number) is scope:
            del self._asks[ask.number]

    async def _write(self, number: int, kind: type[Operation[Any]] | None, answer: Any) -> None:
        """Send an answer: the reply to an operation of this kind, or an error. One line at a time is in memory."""
        async with self._writing:
            try:
                line = _refusal(number, answer) if kind is None else await frames.write_reply(number, kind, answer)
            except Exception as error:
                line = _refusal(number, error)
            if not self._is_torn:
                await self._send(line)

    async def _send(self, line: bytes) -> None:
        """Send a line as a whole. A client that does not take it in time is cut off."""
        # Shielded: half a line followed by another one would be garbage.
        with anyio.CancelScope(shield=True) as self._sending:
            self._sending.deadline = anyio.current_time() + self._service.limits.patience
            self._is_torn = True
            with contextlib.suppress(OSError):
                await sockets.send(self._socket, line)
                self._is_torn = False
        if self._is_torn:
            self._scope.cancel()


def _refusal(number: int, error: BaseException) -> bytes:
    """The line with an error. One that is not meant for callers is a bug, and logged."""
    if not isinstance(error, DurableError):
        _log.error("an operation from another process failed: %r", error, exc_info=error)
    return frames.write_error(number, error)

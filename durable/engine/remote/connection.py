"""The client's side of the socket: many asks at once over one connection, without a task of its own.

Reading is done by whoever waits. One of the tasks that wait for an answer leads: it reads, hands out what arrives to
all others, and sends what did not fit into the socket at first. When it has its own answer, or is cancelled, the next
one leads. So a connection has nothing to start and nothing to stop, under asyncio and under trio.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
from typing import Self, TypeVar

import anyio
import attrs

from durable.engine.operations import Operation
from durable.engine.operations.forms import Form
from durable.engine.remote import frames, sockets, wire
from durable.engine.remote.frames import Broken, Hello, Lines
from durable.errors import ConnectionLost, PayloadTooLarge, ProtocolMismatch

A = TypeVar("A")
# Seconds until the next try, if the engine has more new clients at its door than the kernel holds.
_PAUSE = 0.01


@attrs.define(eq=False)
class _Waiter:
    """A task that waits for an answer. `wake` tells it to look: for the answer, or whether it should lead."""

    wake: anyio.Event = attrs.field(factory=anyio.Event)
    answer: Form | None = None


class Connection:
    """A connection to the engine that listens at `path`. Used in the event loop that opened it.

        connection = await Connection.open(path, timeout=5)
        record = await connection.ask(FindWorkflow("order-42"))
        await connection.aclose()

    Any number of tasks may ask at once. A task that is cancelled abandons its ask: the engine drops it, unless it has
    been decided already. When the engine goes away, every ask raises `ConnectionLost`, and so does every later one.
    """

    def __init__(self, path: str, connected: socket.socket, engine: Hello) -> None:
        self.path = path
        self.engine_version = engine.version
        self._socket = connected
        self._payload_max = engine.max_payload_bytes
        self._room = anyio.Semaphore(max(1, engine.max_asks), fast_acquire=True)
        self._lines = Lines(frames.ANSWER_MAX)
        self._outbox = bytearray()
        self._waiters: dict[int, _Waiter] = {}
        self._numbers = itertools.count(1)
        # The wait of the task that leads, if there is one.
        self._nap: anyio.CancelScope | None = None
        # Why the connection is lost.
        self._lost: str | None = None
        self._closed = anyio.Event()

    @classmethod
    async def open(cls, path: str, timeout: float) -> Self:
        """Connect and say hello.

        Raises `ConnectionLost` if no engine of this user listens at the path, `TimeoutError` if it does not answer in
        time, `ProtocolMismatch` if its version is too different.
        """
        connected = sockets.make()
        try:
            with anyio.fail_after(timeout):
                await _connect(connected, path)
                if not sockets.is_trusted(uid := sockets.peer_uid(connected)):
                    raise ConnectionLost(path, f"the process that listens there belongs to user {uid}")
                engine = await _greet(connected, path)
        except BaseException:
            sockets.close(connected)
            raise
        return cls(path, connected, engine)

    @property
    def is_lost(self) -> bool:
        """Whether the connection is known to be gone. Only a task that asks notices that the engine has gone."""
        return self._lost is not None

    async def ask(self, operation: Operation[A], request_id: str | None = None) -> A:
        """Ask the engine and wait for the reply. At most as many asks as the engine allows are open at once.

        Raises the error of the operation, `PayloadTooLarge` before anything is sent, or `ConnectionLost`. After that
        one the operation may have happened or not; with the same `request_id` it may be asked again.
        """
        async with self._room:
            self._check()
            number = next(self._numbers)
            line = frames.write_ask(number, operation, request_id)
            if len(line) > frames.request_max(self._payload_max):
                raise PayloadTooLarge(type(operation).__name__, len(line), self._payload_max)
            waiter = self._waiters[number] = _Waiter()
            try:
                self._post(line)
                answer = await self._answer(waiter)
            finally:
                del self._waiters[number]
                if waiter.answer is None and self._lost is None:
                    self._post(frames.write_abandon(number))
                self._hand_over()
        return wire.read_answer(type(operation), answer)

    async def until_lost(self) -> None:
        """Wait until the connection is lost, and notice that at once. Only one task at a time may wait for this."""
        # No ask has this number, so this is never answered.
        waiter = self._waiters[0] = _Waiter()
        try:
            with contextlib.suppress(ConnectionLost):
                await self._answer(waiter)
        finally:
            del self._waiters[0]
            self._hand_over()

    async def aclose(self) -> None:
        """Close the connection. Open asks raise `ConnectionLost`. Harmless when repeated."""
        self._lose("it was closed here")
        with anyio.CancelScope(shield=True):
            await self._closed.wait()

    def drop(self) -> None:
        """Close the connection of an event loop that has ended. A forked child has closed its copy already."""
        self._lost = self._lost or "its event loop has ended"
        sockets.close(self._socket)

    # --- waiting --------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._lost is not None:
            raise ConnectionLost(self.path, self._lost)

    async def _answer(self, waiter: _Waiter) -> Form:
        """Wait for an answer, and lead if nobody does. Raises `ConnectionLost`."""
        while waiter.answer is None:
            self._check()
            if self._nap is None:
                await self._lead(waiter)
            else:
                await waiter.wake.wait()
                waiter.wake = anyio.Event()
        return waiter.answer

    async def _lead(self, waiter: _Waiter) -> None:
        """Read and write for all, until this waiter has its answer or the connection is lost."""
        try:
            while waiter.answer is None and self._lost is None:
                with anyio.CancelScope() as self._nap:
                    await self._socket_is_ready()
                self._send_some()
                self._receive_some()
        finally:
            self._nap = None
            if self._lost is not None:
                self._shut()

    async def _socket_is_ready(self) -> None:
        """Wait until something can be read, or written if something must be."""
        if not self._outbox:
            await anyio.wait_readable(self._socket)
            return
        async with anyio.create_task_group() as tasks:

            async def writable() -> None:
                await anyio.wait_writable(self._socket)
                tasks.cancel_scope.cancel()

            tasks.start_soon(writable)
            await anyio.wait_readable(self._socket)
            tasks.cancel_scope.cancel()

    def _hand_over(self) -> None:
        """Have another waiter lead, if nobody does."""
        if self._nap is not None:
            return
        for waiter in self._waiters.values():
            if waiter.answer is None:
                waiter.wake.set()
                return

    # --- bytes ----------------------------------------------------------------------------------------------------

    def _post(self, line: bytes) -> None:
        """Send a line now, or when the socket has room: then the task that leads waits for that too."""
        had_rest = bool(self._outbox)
        self._outbox += line
        if not had_rest:
            self._send_some()
        if self._outbox and not had_rest and self._nap is not None:
            self._nap.cancel()

    def _send_some(self) -> None:
        try:
            while self._outbox and (sent := sockets.send_now(self._socket, bytes(self._outbox[: sockets.PIECE]))):
                del self._outbox[:sent]
        except OSError:
            # It is gone. What it wrote last can still be read, and may say why.
            self._outbox.clear()

    def _receive_some(self) -> None:
        if (data := sockets.receive_now(self._socket)) is None:
            return
        if not data:
            self._lose("the engine closed it")
            return
        try:
            for line in self._lines.feed(data):
                self._take(line)
        except Broken as broken:
            self._lose(f"the engine broke the rules: {broken}")

    def _take(self, line: bytes) -> None:
        """Hand out what one line says."""
        answer = frames.read_answer(line)
        if isinstance(answer, str):
            self._lose(answer)
            return
        number, form = answer
        # There is no waiter if the ask was abandoned while its answer was on the way.
        if (waiter := self._waiters.get(number)) is not None:
            waiter.answer = form
            waiter.wake.set()

    def _lose(self, problem: str) -> None:
        """The connection is gone: every waiter is told, and the one that leads then closes the socket."""
        if self._lost is not None:
            return
        self._lost = problem
        self._outbox.clear()
        for waiter in self._waiters.values():
            waiter.wake.set()
        if self._nap is None:
            self._shut()
        else:
            self._nap.cancel()

    def _shut(self) -> None:
        sockets.close(self._socket)
        self._closed.set()


async def _connect(connecting: socket.socket, path: str) -> None:
    while True:
        try:
            connecting.connect(path)
        except BlockingIOError:
            # Linux: too many clients wait at the door.
            await anyio.sleep(_PAUSE)
        except (OSError, ValueError) as error:
            raise ConnectionLost(path, f"nobody listens there: {error}") from error
        else:
            return


async def _greet(connected: socket.socket, path: str) -> Hello:
    """Exchange greetings. Raises `ConnectionLost` or `ProtocolMismatch`."""
    ours, lines = Hello(), Lines(frames.HELLO_MAX)
    try:
        await sockets.send(connected, ours.write())
        arrived: list[bytes] = []
        while not arrived:
            if not (data := await sockets.receive(connected)):
                raise ConnectionLost(path, "the engine closed it")
            arrived = lines.feed(data)
        engine = _engine_of(arrived[0], path)
    except (OSError, Broken) as error:
        raise ConnectionLost(path, str(error)) from error
    if not frames.understand(ours.protocol, engine.protocol):
        raise ProtocolMismatch(engine.version, ours.version)
    return engine


def _engine_of(line: bytes, path: str) -> Hello:
    """The greeting in the first line, unless that is a refusal."""
    try:
        return Hello.read(line)
    except Broken:
        if isinstance(reason := frames.read_answer(line), str):
            raise ConnectionLost(path, reason) from None
        raise

"""A server with an answer of the test's own, and a client without any manners."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import anyio

from durable import Codec
from durable.engine.host.threads import make_threads
from durable.engine.operations import AwaitEnd, CountWorkflows, FindWorkflow, Operation, ReadProgress
from durable.engine.remote import sockets
from durable.engine.remote.address import Listener, listen, places
from durable.engine.remote.connection import Connection
from durable.engine.remote.frames import Hello, Lines
from durable.engine.remote.guest import Limits
from durable.engine.remote.server import ControlServer
from durable.errors import WorkflowNotFound
from durable.model.registry import Registry

HELLO = Hello().write()
FIND = {"operation": "find_workflow", "fields": {"id": "w"}}


async def missing(operation: Operation[Any], request_id: str | None) -> Any:
    """Answers as an engine with an empty store. A request id is shown in the error, so that tests see it arrive."""
    match operation:
        case FindWorkflow():
            return None
        case CountWorkflows():
            return 0
        case ReadProgress():
            raise WorkflowNotFound(request_id or operation.id)
        case AwaitEnd():
            await anyio.sleep_forever()
        case _:
            pass
    raise NotImplementedError(type(operation).__name__)


class HeldAnswers:
    """An answer that tests hold back: each ask waits until the test lets it pass."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.abandoned: list[str] = []
        self._may_pass: dict[str, anyio.Event] = {}
        self._came = anyio.Event()

    async def answer(self, operation: Operation[Any], request_id: str | None) -> Any:
        """Answers `FindWorkflow` and `AwaitEnd` when told to."""
        assert isinstance(operation, FindWorkflow | AwaitEnd)
        self.asked.append(operation.id)
        self._came.set()
        self._came = anyio.Event()
        try:
            await self._gate(operation.id).wait()
        except BaseException:
            self.abandoned.append(operation.id)
            self._came.set()
            self._came = anyio.Event()
            raise
        if isinstance(operation, AwaitEnd):
            raise WorkflowNotFound(operation.id)

    def let(self, *ids: str) -> None:
        """Let the asks about these workflows pass."""
        for id in ids:
            self._gate(id).set()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for something that an ask changes."""
        with anyio.fail_after(10):
            while not condition():
                await self._came.wait()

    def _gate(self, id: str) -> anyio.Event:
        return self._may_pass.setdefault(id, anyio.Event())


Answering = Callable[[Operation[Any], str | None], Awaitable[Any]]


def door(folder: Path, name: str = "a") -> Listener:
    """A socket that listens for the store in this folder."""
    return listen(places(str(folder / "store.db")), name)


@asynccontextmanager
async def served(
    folder: Path, answer: Answering = missing, *, max_payload_bytes: int = 100_000, **limits: Any
) -> AsyncIterator[ControlServer]:
    """A server at a socket for the store in this folder, until the block is left."""
    server = ControlServer(
        door(folder),
        answer,
        Registry(()),
        Codec(),
        make_threads(),
        max_payload_bytes=max_payload_bytes,
        limits=Limits(**limits),
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.run)
        try:
            yield server
        finally:
            server.stop()


@asynccontextmanager
async def connected(path: str) -> AsyncIterator[Connection]:
    """A connection, until the block is left."""
    connection = await Connection.open(path, 10)
    try:
        yield connection
    finally:
        await connection.aclose()


class Rude:
    """A client that sends what it likes."""

    def __init__(self, path: str) -> None:
        self.socket = sockets.make()
        self.socket.connect(path)
        self._lines = Lines(1 << 30)
        self._arrived: list[bytes] = []

    async def say(self, *lines: Any) -> None:
        """Send bytes as they are, anything else as a line of JSON."""
        for line in lines:
            data = line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n"
            await sockets.send(self.socket, data)

    async def hear(self) -> Any:
        """The next line; None at the end of the connection."""
        with anyio.fail_after(10):
            while not self._arrived:
                if not (data := await sockets.receive(self.socket)):
                    return None
                self._arrived = self._lines.feed(data)
        return json.loads(self._arrived.pop(0))

    async def greet(self) -> Any:
        """Say hello, and return what the engine says."""
        await self.say(HELLO)
        return await self.hear()

    def fill(self, data: bytes) -> int:
        """Send until the socket is full; how much that was."""
        size = 0
        while sent := sockets.send_now(self.socket, data):
            size += sent
        return size

    def close(self) -> None:
        """Leave."""
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_socket_alive(path: str) -> bool:
    """Whether somebody listens there."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
    return True

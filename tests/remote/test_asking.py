"""Asking over a socket: many asks at once, answers in any order, errors as themselves, and lost connections."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from durable import NotSupported, PayloadTooLarge, ProtocolMismatch, WorkflowNotFound, __version__
from durable.engine.operations import AwaitEnd, FindWorkflow, Operation, ReadProgress, SendEvent
from durable.engine.remote import frames, sockets, wire
from durable.engine.remote.address import Listener
from durable.engine.remote.connection import Connection
from durable.engine.remote.frames import Hello
from durable.engine.remote.server import STOPPING
from durable.errors import ConnectionLost
from tests.remote.kit import HeldAnswers, Rude, connected, door, is_socket_alive, served

pytestmark = pytest.mark.anyio


def event(size: int) -> SendEvent:
    """An event with a payload of this size."""
    return SendEvent(
        name="e", event_key="", payload=f'"{"x" * size}"', to=None, allow_unstarted=False, consume=True,
        expire_after=None, event_id=None, payload_type=None,
    )  # fmt: skip


async def test_asking_returns_the_reply(tmp_path: Path) -> None:
    """The reply to an operation comes back, and the client knows the version of the engine."""
    async with served(tmp_path) as server, connected(server.path) as connection:
        assert await connection.ask(FindWorkflow("w")) is None
        assert connection.engine_version == __version__


async def test_asking_raises_the_error_of_the_operation(tmp_path: Path) -> None:
    """An error arrives as itself, the engine sees the request id, and the connection continues."""
    async with served(tmp_path) as server, connected(server.path) as connection:
        with pytest.raises(WorkflowNotFound, match="'call-1'"):
            await connection.ask(ReadProgress("w"), request_id="call-1")
        assert await connection.ask(FindWorkflow("w")) is None


async def test_asking_at_once_mixes_short_and_long(tmp_path: Path) -> None:
    """A thousand answers that take long do not delay a short one, and answers come in any order."""
    held = HeldAnswers()
    async with served(tmp_path, held.answer) as server, connected(server.path) as connection:
        ended: list[str] = []
        has_ended = anyio.Event()

        async def wait(id: str) -> None:
            with pytest.raises(WorkflowNotFound, match=id):
                await connection.ask(AwaitEnd(id))
            ended.append(id)
            has_ended.set()

        async with anyio.create_task_group() as tasks:
            for number in range(1_000):
                tasks.start_soon(wait, f"w{number}")
            await held.until(lambda: len(held.asked) == 1_000)
            held.let("short")
            assert await connection.ask(FindWorkflow("short")) is None
            assert ended == []
            held.let("w7")
            await has_ended.wait()
            assert ended == ["w7"]
            held.let(*(f"w{number}" for number in range(1_000)))
        assert len(ended) == 1_000


async def test_cancelled_ask_is_abandoned_at_the_engine(tmp_path: Path) -> None:
    """A caller that gives up frees its place; the others, one of which must read for all now, get their answers."""
    held = HeldAnswers()
    async with served(tmp_path, held.answer) as server, connected(server.path) as connection:
        async with anyio.create_task_group() as tasks:
            scopes = [anyio.CancelScope() for _ in range(3)]

            async def wait(number: int) -> None:
                with scopes[number]:
                    await connection.ask(FindWorkflow(f"w{number}"))

            for number in range(3):
                tasks.start_soon(wait, number)
            await held.until(lambda: len(held.asked) == 3)
            scopes[0].cancel()
            await held.until(lambda: held.abandoned)
            assert held.abandoned == ["w0"]
            held.let("w1", "w2")
        assert not any(scope.cancelled_caught for scope in scopes[1:])


async def test_leaving_client_abandons_its_asks(tmp_path: Path) -> None:
    """When a client goes away, what it asked is abandoned, and what another client asked is not."""
    held = HeldAnswers()
    async with served(tmp_path, held.answer) as server, connected(server.path) as staying:
        leaving = await Connection.open(server.path, 10)

        async def lose() -> None:
            with pytest.raises(ConnectionLost, match="closed here"):
                await leaving.ask(AwaitEnd("left"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lose)
            tasks.start_soon(staying.ask, FindWorkflow("stayed"))
            await held.until(lambda: len(held.asked) == 2)
            await leaving.aclose()
            await held.until(lambda: held.abandoned)
            held.let("stayed")
        assert held.abandoned == ["left"]


async def test_stopping_engine_ends_every_ask(tmp_path: Path) -> None:
    """When the engine stops, every open ask raises an error with the reason, and so does every later one."""
    held = HeldAnswers()
    async with served(tmp_path, held.answer) as server, connected(server.path) as connection:
        problems: list[str] = []

        async def wait(operation: Operation[object]) -> None:
            with pytest.raises(ConnectionLost) as caught:
                await connection.ask(operation)
            problems.append(caught.value.problem)

        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(wait, AwaitEnd(f"long-{number}"))
                tasks.start_soon(wait, FindWorkflow(f"short-{number}"))
            await held.until(lambda: len(held.asked) == 20)
            server.stop()
        assert problems == [STOPPING] * 20
        assert connection.is_lost
        with pytest.raises(ConnectionLost):
            await connection.ask(FindWorkflow("w"))
    assert not is_socket_alive(server.path)


async def test_unknown_operation_is_not_supported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operation that the engine does not have is refused with its version; the connection continues."""
    async with served(tmp_path) as server, connected(server.path) as connection:
        with monkeypatch.context() as patch:
            newer = {"operation": "newer", "fields": {"id": "w"}}
            patch.setattr(wire, "write_operation", lambda _: newer)
            with pytest.raises(NotSupported, match="'newer'"):
                await connection.ask(FindWorkflow("w"))
        assert await connection.ask(FindWorkflow("w")) is None


async def test_too_large_request_is_not_sent(tmp_path: Path) -> None:
    """A request that the engine would not read is refused by the client, whose other asks continue."""
    async with served(tmp_path, max_payload_bytes=10) as server, connected(server.path) as connection:
        with pytest.raises(PayloadTooLarge, match="max_payload_bytes=10"):
            await connection.ask(event(1_000_000))
        assert await connection.ask(FindWorkflow("w")) is None


async def test_requests_larger_than_the_socket_are_sent_while_others_ask(tmp_path: Path) -> None:
    """Requests that do not fit into the socket at once arrive whole, and short asks between them are answered."""
    sizes: list[int] = []

    async def measure(operation: Operation[object], _: str | None) -> object:
        if isinstance(operation, SendEvent):
            sizes.append(len(operation.payload) - 2)
            raise WorkflowNotFound("e")
        return None

    async with served(tmp_path, measure, max_payload_bytes=3_000_000) as server, connected(server.path) as connection:

        async def send(size: int) -> None:
            with pytest.raises(WorkflowNotFound):
                await connection.ask(event(size))

        async with anyio.create_task_group() as tasks:
            for number in range(12):
                tasks.start_soon(send, 1_000_000 + number)
                tasks.start_soon(connection.ask, FindWorkflow("w"))
    assert sorted(sizes) == [1_000_000 + number for number in range(12)]


async def test_nobody_listening_is_a_lost_connection(tmp_path: Path) -> None:
    """A path without a socket, and a socket whose engine has died, both mean that there is no engine."""
    with pytest.raises(ConnectionLost, match="nobody listens"):
        await Connection.open(str(tmp_path / "nothing"), 10)
    dead = door(tmp_path)
    dead.socket.close()
    with pytest.raises(ConnectionLost, match="nobody listens"):
        await Connection.open(dead.path, 10)


async def test_engine_that_says_nothing_times_out(tmp_path: Path) -> None:
    """A process that accepts and does not answer is given up after the timeout."""
    silent: Listener = door(tmp_path)
    with pytest.raises(TimeoutError):
        await Connection.open(silent.path, 0.05)
    silent.close()


FAR = (frames.PROTOCOL[0] + 1, 0)


@pytest.mark.parametrize(
    ("ours", "theirs", "fits"),
    [
        ((1, 0), (1, 0), True), ((1, 3), (1, 2), True), ((1, 2), (1, 3), True), ((1, 3), (1, 1), False),
        (FAR, (1, 9), False),
    ],
)  # fmt: skip
async def test_versions_may_be_one_apart(ours: tuple[int, int], theirs: tuple[int, int], fits: bool) -> None:
    """Client and engine may be one minor version apart, in both directions."""
    assert frames.understand(ours, theirs) is fits


async def test_client_of_another_protocol_is_told(tmp_path: Path) -> None:
    """A client that is too new hears the engine's version, and why the connection ends."""
    async with served(tmp_path) as server:
        with Rude(server.path) as client:
            await client.say({"durable": "9.9.0", "protocol": FAR, "new": True})
            assert (await client.hear())["durable"] == __version__
            assert "9.9.0" in (await client.hear())["end"]
            assert await client.hear() is None


async def test_engine_of_another_protocol_is_refused(tmp_path: Path) -> None:
    """A client that meets an engine that is too new names both versions."""
    newer = door(tmp_path)

    async def greet() -> None:
        await anyio.wait_readable(newer.socket)
        connected, _ = newer.socket.accept()
        connected.sendall(Hello(version="9.9.0", protocol=FAR).write())
        await sockets.receive(connected)
        connected.close()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(greet)
        with pytest.raises(ProtocolMismatch, match=r"9\.9\.0"):
            await Connection.open(newer.path, 10)
    newer.close()

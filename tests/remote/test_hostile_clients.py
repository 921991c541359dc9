"""What a client cannot do: crash the engine, make it keep much, or disturb the other clients."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import tracemalloc
from pathlib import Path
from typing import Any

import anyio
import pytest

from durable.backends.base import Workflows
from durable.engine.operations import CountWorkflows, FindWorkflow, Operation
from durable.errors import ConnectionLost
from durable.model.records import Progress
from tests.remote.kit import FIND, HELLO, HeldAnswers, Rude, connected, missing, served

pytestmark = pytest.mark.anyio
DEPTH = 100_000
WORKFLOWS = Workflows(limit=1)
# Lines after which the connection has no meaning any more.
GARBAGE: tuple[bytes, ...] = (
    b"\n", b"{\n", b"[]\n", b"5\n", b"null\n", b"\xff\xfe\n", b"\x00\n", b"GET / HTTP/1.1\n", b'{"ask":-1}\n',
    b'{"ask":"1"}\n', b'{"ask":true}\n', b'{"ask":1e3}\n', b'{"ask":99999999999999999999999}\n', b'{"abandon":{}}\n',
    b'{"ask":1,"request_id":5}\n', b'{"ask":1,"request_id":""}\n', b'{"ask":1,"request_id":"\\u0000"}\n',
    b"[" * DEPTH + b"\n", b'{"a":' * DEPTH + b"\n", b'{"ask":1,"operation":' + b"[" * DEPTH + b"\n",
)  # fmt: skip
# Requests that are refused, after which the connection continues.
REFUSED: tuple[dict[str, Any], ...] = (
    {}, {"operation": "drop_table"}, {"operation": ["find_workflow"]}, {"operation": "find_workflow"},
    {"operation": "find_workflow", "fields": {"id": 5}}, {"operation": "find_workflow", "fields": []},
    {"operation": "record_activity", "fields": {"key": 1}}, {"operation": "count_workflows", "fields": {"query": "x"}},
    {"operation": "start_workflow", "fields": {"id": "w", "name": "os.system", "input": "{}", "version": 1}},
    {"operation": "find_workflow", "fields": {"id": "x" * 5_000}},
)  # fmt: skip


def descriptors() -> int:
    """How many files this process has open."""
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("line", GARBAGE, ids=lambda line: repr(line[:24]))
@pytest.mark.parametrize("is_greeted", [True, False])
async def test_garbage_gets_one_line_and_ends_the_connection(tmp_path: Path, line: bytes, is_greeted: bool) -> None:
    """What is not a request is answered with one reason, and nothing after it is looked at."""
    async with served(tmp_path) as server:
        with Rude(server.path) as client:
            if is_greeted:
                await client.greet()
            with contextlib.suppress(OSError):
                await client.say(line, {"ask": 1, **FIND})
            assert list(await client.hear()) == ["end"]
            assert await client.hear() is None


@pytest.mark.parametrize("fields", REFUSED, ids=lambda fields: json.dumps(fields)[:60])
async def test_refused_request_leaves_the_connection(tmp_path: Path, fields: dict[str, Any]) -> None:
    """A request that cannot be decided gets an error under its number, and the next one is answered."""
    async with served(tmp_path) as server:
        with Rude(server.path) as client:
            await client.greet()
            await client.say({"ask": 1, **fields}, {"ask": 2, "unknown": [1], **FIND})
            answers = [await client.hear(), await client.hear()]
            assert sorted(answer["ask"] for answer in answers) == [1, 2]
            assert next("error" in answer for answer in answers if answer["ask"] == 1)
            assert next(answer["reply"] is None for answer in answers if answer["ask"] == 2)


def mutated(rng: random.Random) -> bytes:
    """A line that was damaged on its way."""
    line = bytearray(json.dumps({"ask": rng.randrange(9), **rng.choice((FIND, *REFUSED))}).encode())
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(line))
        damage = rng.randrange(3)
        if damage == 0:
            line[at] = rng.randrange(256)
        elif damage == 1:
            del line[at:]
        else:
            line[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(9)))
        line = line or bytearray(b"{")
    return bytes(line) + b"\n"


@pytest.mark.timeout(120)
async def test_ten_thousand_malformed_frames(tmp_path: Path) -> None:
    """They crash nothing, leave no memory, task or file behind, and do not disturb another client."""
    rng = random.Random(7)
    async with served(tmp_path) as server, connected(server.path) as other:

        async def attack(count: int) -> None:
            sent = 0
            while sent < count:
                with Rude(server.path) as client:
                    lines = [mutated(rng) for _ in range(rng.randrange(1, 60))]
                    sent += len(lines)
                    await client.say(HELLO if rng.randrange(9) else b"", *lines[:count])
                    assert await client.hear() is not None
                assert await other.ask(FindWorkflow("w")) is None

        await attack(1_000)
        gc.collect()
        before = descriptors()
        tracemalloc.start()
        await attack(10_000)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert kept < 1_000_000
        assert descriptors() <= before + 1


async def test_line_of_100_megabytes_is_cut_off_early(tmp_path: Path) -> None:
    """A line without end is refused after its limit, and only that much of it was ever kept."""
    async with served(tmp_path, max_payload_bytes=100_000) as server:
        with Rude(server.path) as client:
            await client.greet()
            sent = 0
            with contextlib.suppress(OSError):
                for _ in range(100):
                    await client.say(b"x" * 1_000_000)
                    sent += 1
            assert sent < 5
            assert "more than" in (await client.hear())["end"]


async def test_client_that_does_not_read_is_cut_off(tmp_path: Path) -> None:
    """A client that asks and never reads is cut off after a while, in the middle of a line; others are served."""
    big = "x" * 300_000

    async def answer(operation: Operation[Any], request_id: str | None) -> Any:
        if isinstance(operation, FindWorkflow):
            raise ValueError(big)
        return await missing(operation, request_id)

    async with served(tmp_path, answer, patience=0.2) as server, connected(server.path) as other:
        with Rude(server.path) as client:
            await client.greet()
            await client.say(*({"ask": number, **FIND} for number in range(100)))
            while not await other.ask(CountWorkflows(WORKFLOWS)):
                # The server has closed the connection when the client cannot write to it any more.
                try:
                    client.fill(b"\n")
                except OSError:
                    break


async def test_flood_is_taken_in_turns(tmp_path: Path) -> None:
    """A client that asks without pause has a few asks decided at once, and the rest wait in its own socket."""
    held = HeldAnswers()
    async with served(tmp_path, held.answer, at_once=4) as server, connected(server.path) as other:
        with Rude(server.path) as client:
            await client.greet()
            flood = b"".join(json.dumps({"ask": number, **FIND}).encode() + b"\n" for number in range(2_000))
            client.fill(flood)
            await held.until(lambda: len(held.asked) == 4)
            held.let("other")
            assert await other.ask(FindWorkflow("other")) is None
            assert held.asked == ["w"] * 4 + ["other"]


async def test_asks_beyond_the_limit_end_the_connection(tmp_path: Path) -> None:
    """The number of open asks is limited, abandoned ones do not count, and two asks cannot have one number."""
    held = HeldAnswers()
    end = {"operation": "await_end", "fields": {"id": "w"}}
    async with served(tmp_path, held.answer, asks=3) as server:
        with Rude(server.path) as client:
            assert (await client.greet())["max_asks"] == 3
            await client.say(*({"ask": number, **end} for number in range(3)))
            await client.say(*({"abandon": number} for number in range(3)))
            await client.say(*({"ask": number, **end} for number in range(3)))
            await held.until(lambda: len(held.asked) >= 3)
            await client.say({"ask": 3, **end})
            assert "more than 3 asks" in (await client.hear())["end"]
        with Rude(server.path) as client:
            await client.greet()
            await client.say({"ask": 1, **end}, {"ask": 1, **end})
            assert "the number 1" in (await client.hear())["end"]


async def test_clients_beyond_the_limit_are_turned_away(tmp_path: Path) -> None:
    """A client too many hears why, and may come when another has left."""
    async with served(tmp_path, connections=2) as server, connected(server.path):
        async with connected(server.path) as second:
            with pytest.raises(ConnectionLost, match="serves 2 connections"):
                await _open(server.path)
            await second.aclose()
        while True:
            try:
                await _open(server.path)
            except ConnectionLost:
                continue
            break


async def test_silent_client_is_turned_away(tmp_path: Path) -> None:
    """A client that does not say hello gives its place back after a while; half a hello is none."""
    async with served(tmp_path, patience=0.05) as server:
        for word in (b"", HELLO[:10]):
            with Rude(server.path) as client:
                await client.say(word)
                assert "hello" in (await client.hear())["end"]


async def test_client_that_leaves_in_the_middle_of_a_line(tmp_path: Path) -> None:
    """Half a request is not decided, and the server continues."""
    held = HeldAnswers()
    held.let("w")
    async with served(tmp_path, held.answer) as server, connected(server.path) as other:
        with Rude(server.path) as client:
            await client.greet()
            await client.say(json.dumps({"ask": 1, **FIND}).encode())
        assert await other.ask(FindWorkflow("w")) is None
        assert held.asked == ["w"]


async def test_stop_does_not_tear_a_line(tmp_path: Path) -> None:
    """An answer that is being sent when the engine stops arrives whole, and then the reason."""

    async def answer(operation: Operation[Any], request_id: str | None) -> Any:
        return Progress(workflow_key=1, round=0, seq=1, at=1, value="x" * 2_000_000)

    async with served(tmp_path, answer) as server:
        with Rude(server.path) as client:
            await client.greet()
            await client.say({"ask": 1, "operation": "read_progress", "fields": {"id": "w"}})
            await anyio.wait_readable(client.socket)
            server.stop()
            assert len((await client.hear())["reply"]["value"]) == 2_000_000
            assert list(await client.hear()) == ["end"]
            assert await client.hear() is None


async def _open(path: str) -> None:
    async with connected(path):
        pass

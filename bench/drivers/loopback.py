"""A small HTTP/1.1 client with kept connections, for servers on this machine. It costs next to nothing."""

from __future__ import annotations

import asyncio
import contextlib

HOST = "127.0.0.1"
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class HttpFailed(Exception):
    """A server answered with an error, or not at all."""


class Client:
    """Calls to one port. It opens as many connections as there are calls at once."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[Stream] = []

    async def call(self, method: str, path: str, body: bytes = b"") -> bytes:
        """The body of the answer. Raises `HttpFailed`."""
        head = f"{method} {path} HTTP/1.1\r\nhost: {HOST}:{self._port}\r\ncontent-length: {len(body)}\r\n"
        if body:
            head += "content-type: application/json\r\n"
        try:
            status, answer = await self._exchange(head.encode() + b"\r\n" + body)
        except (OSError, asyncio.IncompleteReadError) as error:
            raise HttpFailed(f"{method} {path}: {type(error).__name__}: {error}") from error
        if status >= 300:
            raise HttpFailed(f"{method} {path}: {status} {answer[:200]!r}")
        return answer

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        while self._idle:
            # The server may have closed a kept connection meanwhile; then the next one, or a new one, is used.
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                return await self._over(self._idle.pop(), request)
        return await self._over(await asyncio.open_connection(HOST, self._port), request)

    async def _over(self, stream: Stream, request: bytes) -> tuple[int, bytes]:
        reader, writer = stream
        writer.write(request)
        answer = await _answer(reader)
        self._idle.append(stream)
        return answer

    def close(self) -> None:
        """Close the idle connections."""
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding") != "chunked":
        return int(first.split()[1]), await reader.readexactly(int(headers.get("content-length", 0)))
    body = b""
    while length := int((await reader.readline()).split(b";")[0], 16):
        body += (await reader.readexactly(length + 2))[:-2]
    await reader.readexactly(2)
    return int(first.split()[1]), body

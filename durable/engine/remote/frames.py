"""Lines on a connection: what may be written on one, and how long it may be.

A line is a JSON object in UTF-8. The client begins with a `Hello`, the engine answers with its own, and then the lines
are independent of each other:

    client    {"ask": 7, "request_id": "5c1…", "operation": "find_workflow", "fields": {"id": "order-42"}}
    engine    {"ask": 7, "reply": {…}}     or     {"ask": 7, "error": {"name": …, "message": …, "fields": …}}
    client    {"abandon": 7}               nobody waits for this answer any more
    engine    {"end": "the engine is shutting down"}     the last line of a connection, with the reason

The client chooses the numbers. Answers come in any order. Whatever breaks these rules ends the connection: `Broken`.
Nothing here reads or writes a socket.
"""

from __future__ import annotations

from typing import Any

import anyio.lowlevel
import attrs

from durable.engine.operations import Operation
from durable.engine.operations.forms import Form
from durable.engine.remote import wire
from durable.errors import CodecError, InvalidValue
from durable.model.ids import check_text
from durable.model.version import VERSION

# The version of the rules above: a change that an older side would not understand raises the first number, an addition
# that it may ignore raises the second.
PROTOCOL = (1, 0)
# The longest line before both sides have said hello.
HELLO_MAX = 4_096
# The longest line that an engine writes. A client that met a longer one would have to keep it in memory.
ANSWER_MAX = 64 * 1024 * 1024
# Room for ids, tags and names beside the payload of a request.
_AROUND_PAYLOAD = 256 * 1024
# After encoding this much of an answer, other tasks of the loop get their turn.
_SHARE = 64 * 1024
# The longest reason in the last line of a connection.
_REASON_MAX = 500


class Broken(Exception):
    """The other side broke the rules; its text says how. The connection ends."""


@attrs.frozen(kw_only=True)
class Hello:
    """What a side says about itself in its first line. A client leaves out the limits."""

    version: str = VERSION
    protocol: tuple[int, int] = PROTOCOL
    max_payload_bytes: int = 0
    max_asks: int = 0

    def write(self) -> bytes:
        """The line."""
        limits = {"max_payload_bytes": self.max_payload_bytes, "max_asks": self.max_asks}
        return _line({"durable": self.version, "protocol": self.protocol, **limits})

    @classmethod
    def read(cls, line: bytes) -> Hello:
        """The hello in a line. Raises `Broken`."""
        form = _read(line)
        version, protocol = form.get("durable"), form.get("protocol")
        limits = {name: form.get(name, 0) for name in ("max_payload_bytes", "max_asks")}
        numbers = [*protocol, *limits.values()] if isinstance(protocol, list) and len(protocol) == 2 else [None]
        if not isinstance(version, str) or not isinstance(protocol, list) or not all(map(_is_count, numbers)):
            raise Broken("the first line is not a greeting of durable")
        return cls(version=version, protocol=(protocol[0], protocol[1]), **limits)


def understand(ours: tuple[int, int], theirs: tuple[int, int]) -> bool:
    """Whether two sides understand each other: the same rules, and at most one addition apart."""
    return ours[0] == theirs[0] and abs(ours[1] - theirs[1]) <= 1


@attrs.frozen
class Ask:
    """An operation as it arrived; its fields have not been read yet."""

    number: int
    form: Form
    request_id: str | None


@attrs.frozen
class Abandon:
    """Nobody waits for the answer to the ask with this number."""

    number: int


@attrs.define
class Lines:
    """Cuts what arrives into lines, and never keeps more than the longest line and one more piece."""

    limit: int
    _buffer: bytearray = attrs.field(factory=bytearray)
    # How much of the buffer is known to have no end of a line.
    _searched: int = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that this piece completes. Raises `Broken` as soon as one is too long."""
        lines: list[bytes] = []
        self._buffer += data
        start = 0
        while (end := self._buffer.find(b"\n", self._searched)) >= 0:
            self._check(end - start)
            lines.append(bytes(self._buffer[start:end]))
            start = self._searched = end + 1
        del self._buffer[:start]
        self._searched = len(self._buffer)
        self._check(self._searched)
        return lines

    def _check(self, length: int) -> None:
        if length > self.limit:
            raise Broken(f"a line has more than {self.limit} bytes")


def request_max(max_payload_bytes: int) -> int:
    """The longest request that an engine with this limit reads.

    A payload is JSON text inside a JSON string: each of its characters may need up to three times its bytes.
    """
    return 3 * max_payload_bytes + _AROUND_PAYLOAD


# --- what a client writes -----------------------------------------------------------------------------------------


def write_ask(number: int, operation: Operation[Any], request_id: str | None) -> bytes:
    """The line that asks for an operation."""
    name = {} if request_id is None else {"request_id": request_id}
    return _line({"ask": number, **name, **wire.write_operation(operation)})


def write_abandon(number: int) -> bytes:
    """The line that gives up an ask."""
    return _line({"abandon": number})


def read_request(line: bytes) -> Ask | Abandon:
    """What a client wrote. Raises `Broken`."""
    form = _read(line)
    if "abandon" in form:
        return Abandon(_number(form["abandon"]))
    request_id = form.get("request_id")
    if request_id is not None:
        try:
            check_text("request_id", request_id)
        except (TypeError, ValueError) as error:
            raise Broken(str(error)) from error
    return Ask(_number(form.get("ask")), form, request_id)


# --- what an engine writes ----------------------------------------------------------------------------------------


async def write_reply(number: int, kind: type[Operation[Any]], reply: Any) -> bytes:
    """The line with a reply. Between the rows of a long list the other tasks of the loop get their turns.

    Raises `InvalidValue` for a reply that no line can hold.
    """
    head = b'{"ask":%d,"reply":' % number
    if not isinstance(reply, list):
        return _checked(kind, [head, wire.write_text(wire.write_reply(kind, reply)["reply"]).encode(), b"}\n"])
    pieces = [head]
    size = share = 0
    for row in reply:
        text = wire.write_text(wire.write_reply(kind, [row])["reply"][0]).encode()
        pieces += (b"," if size else b"[", text)
        size += len(text)
        share += len(text)
        if share >= _SHARE:
            _check_answer(kind, size)
            share = 0
            await anyio.lowlevel.checkpoint()
    return _checked(kind, [*pieces, b"]}\n" if size else b"[]}\n"])


def _checked(kind: type[Operation[Any]], pieces: list[bytes]) -> bytes:
    line = b"".join(pieces)
    _check_answer(kind, len(line))
    return line


def _check_answer(kind: type[Operation[Any]], size: int) -> None:
    if size > ANSWER_MAX:
        raise InvalidValue(
            kind.__name__, f"the answer has more than {ANSWER_MAX} bytes, the limit of a connection: ask for fewer rows"
        )


def write_error(number: int, error: BaseException) -> bytes:
    """The line with an error instead of a reply."""
    return _line({"ask": number, **wire.write_error(error)})


def write_end(reason: str) -> bytes:
    """The last line of a connection."""
    return _line({"end": reason[:_REASON_MAX]})


def read_answer(line: bytes) -> tuple[int, Form] | str:
    """The answer to an ask, for `wire.read_answer`, with its number; or the reason of the end. Raises `Broken`."""
    form = _read(line)
    if "end" in form:
        return str(form["end"])
    return _number(form.get("ask")), form


# --- lines --------------------------------------------------------------------------------------------------------


def _line(form: Form) -> bytes:
    return wire.write_text(form).encode() + b"\n"


def _read(line: bytes) -> Form:
    try:
        return wire.read_text(line)
    except CodecError as error:
        raise Broken(str(error)) from error


def _number(value: object) -> int:
    if not _is_count(value):
        raise Broken("a line needs the number of its ask: a positive integer")
    assert isinstance(value, int)
    return value


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 63

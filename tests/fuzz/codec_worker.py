"""A process that reads spoilt texts with coders of many types: `python -m tests.fuzz.codec_worker SEED COUNT`.

Prints one JSON object: how many texts were refused, and everything that came out other than a value or `CodecError`.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import pydantic

from durable.errors import CodecError
from durable.model.codec import Codec
from durable.model.error_codec import error_summary, pack_error, unpack_error
from tests.fuzz.flows import Line, Order, Size, an_order
from tests.fuzz.hook import Hook
from tests.fuzz.mutations import mutate


class Level(enum.IntEnum):
    """An enum of numbers."""

    LOW = 1


class Pair(NamedTuple):
    """A named tuple."""

    left: int
    right: str | None


class Named(TypedDict, total=False):
    """A typed dict."""

    name: str
    size: Size


class Model(pydantic.BaseModel):
    """A pydantic model."""

    number: int
    at: datetime
    inner: list[Decimal]


@dataclasses.dataclass
class Tree:
    """Contains itself."""

    value: int
    branches: list[Tree]


def described(order: Order, *more: Line, size: Size = Size.SMALL, **rest: date) -> None:
    """A function with every kind of parameter."""


DAY = date(2031, 5, 17)
NOON = datetime(2031, 5, 17, 12, tzinfo=timezone.utc)
SAMPLES: tuple[tuple[Any, Any], ...] = (
    (Any, {"a": [1, None, "x", 1.5, True]}), (None, None), (bool, True), (int, 1 << 80), (float, 0.1), (str, "☃"),
    (bytes, b"\0\xff"), (datetime, NOON), (date, DAY), (time, time(1, 2, 3)), (timedelta, timedelta(days=-1)),
    (UUID, UUID(int=5)), (Decimal, Decimal("1.50")), (Size, Size.LARGE), (Level, Level.LOW), (Literal["a", 1], "a"),
    (list[int], [1, 2]), (Sequence[date], [DAY]), (set[UUID], {UUID(int=1)}), (frozenset[str], frozenset({"a"})),
    (tuple[int, str], (1, "a")), (tuple[Decimal, ...], (Decimal(1),)), (dict[str, int], {"a": 1}),
    (dict[int, bytes], {5: b"x"}), (dict[tuple[int, str], date], {(1, "a"): DAY}), (Mapping[UUID, Size], {}),
    (int | str | None, "a"), (Line | Size | None, Size.SMALL), (list[Line | bytes | int], [b"x", 1]),
    (Pair, Pair(1, None)), (Named, {"name": "a"}), (Model, Model(number=1, at=NOON, inner=[Decimal(2)])),
    (Order, an_order(3)), (Tree, Tree(1, [Tree(2, [])])), (dict[str, list[Order]], {"a": [an_order(1)]}),
)  # fmt: skip


def _error() -> str:
    try:
        raise KeyError("a", 1) from OSError(2, "no", "file")
    except KeyError as error:
        return pack_error(error)


def readers() -> list[tuple[str, str, Callable[[str], Any]]]:
    """What is read, a text that can be read, and how."""
    codec = Codec()
    found: list[tuple[str, str, Callable[[str], Any]]] = []
    for annotation, value in SAMPLES:
        coder = codec.coder(annotation, "fuzz")
        found.append((str(annotation), coder.pack(value)[0], coder.unpack))
    function = codec.function(described, "fuzz")
    found.append(("arguments", function.pack_arguments((an_order(1),), {"day": DAY}), function.unpack_arguments))
    return [*found, ("error", _error(), unpack_error), ("summary", _error(), error_summary)]


def fuzz(known: list[tuple[str, str, Callable[[str], Any]]], seed: int, count: int) -> dict[str, Any]:
    """Read spoilt texts; what came out."""
    chance = random.Random(seed)
    refused, read, wrong = 0, 0, list[str]()
    for _ in range(count):
        name, text, reader = chance.choice(known)
        data = mutate(chance, text)
        try:
            # What is no UTF-8 never gets here: the store sees to that.
            reader(data.decode("utf-8", chance.choice(("replace", "surrogateescape"))))
            read += 1
        except CodecError:
            refused += 1
        except BaseException as error:
            wrong.append(f"{name}: {data[:200]!r}: {error!r:.200}")
    return {"refused": refused, "read": read, "wrong": wrong[:20]}


def main(seed: int, count: int) -> dict[str, Any]:
    """Making coders compiles code, by the annotations in the program; a rehearsal makes them all. Then, the hook."""
    hook = Hook("")
    sys.addaudithook(hook)
    known = readers()
    fuzz(known, -1, count)
    with hook.watching():
        result = fuzz(known, seed, count)
    return {**result, "offences": hook.offences[:20]}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(int(sys.argv[1]), int(sys.argv[2]))) + "\n")

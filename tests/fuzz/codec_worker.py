"""A process that reads corrupt texts with coders of many types: `python -m tests.fuzz.codec_worker SEED COUNT`.

It prints one JSON object: how many texts were refused, and every outcome other than a value or a `CodecError`.
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
    """What is read, a valid text, and the reader."""
    codec = Codec()
    samples: list[tuple[str, str, Callable[[str], Any]]] = []
    for annotation, value in SAMPLES:
        coder = codec.coder(annotation, "fuzz")
        samples.append((str(annotation), coder.pack(value)[0], coder.unpack))
    function = codec.function(described, "fuzz")
    samples.append(("arguments", function.pack_arguments((an_order(1),), {"day": DAY}), function.unpack_arguments))
    return [*samples, ("error", _error(), unpack_error), ("summary", _error(), error_summary)]


def fuzz(samples: list[tuple[str, str, Callable[[str], Any]]], seed: int, count: int) -> dict[str, Any]:
    """Read corrupt texts. Returns the outcomes."""
    chance = random.Random(seed)
    refused, read, wrong = 0, 0, list[str]()
    for _ in range(count):
        name, text, reader = chance.choice(samples)
        data = mutate(chance, text)
        try:
            # Text that is not UTF-8 never gets here: the store prevents it.
            reader(data.decode("utf-8", chance.choice(("replace", "surrogateescape"))))
            read += 1
        except CodecError:
            refused += 1
        except BaseException as error:
            wrong.append(f"{name}: {data[:200]!r}: {error!r:.200}")
    return {"refused": refused, "read": read, "wrong": wrong[:20]}


def main(seed: int, count: int) -> dict[str, Any]:
    """Creating coders compiles code for the annotations. A rehearsal creates them all; then the hook watches."""
    hook = Hook("")
    sys.addaudithook(hook)
    samples = readers()
    fuzz(samples, -1, count)
    with hook.watching():
        result = fuzz(samples, seed, count)
    return {**result, "offences": hook.offences[:20]}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(int(sys.argv[1]), int(sys.argv[2]))) + "\n")

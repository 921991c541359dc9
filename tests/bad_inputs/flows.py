"""Small workflows and hostile values for the bad inputs."""

from __future__ import annotations

import threading
from typing import Any

import attrs

from durable import Durable, Event, Retry, activity, workflow

go = Event[int]("bad.go")
anything = Event[Any]("bad.anything")
numbers = Event[float]("bad.numbers")
# How often the activity below has run, by the kind of value it returned.
runs: list[str] = []


@workflow(name="bad.waiter")
def waiter(number: int = 0) -> Durable[int]:
    """Waits for a number."""
    return number + (yield from go.wait())


@workflow(name="bad.echo")
def echo(value: Any) -> Durable[Any]:
    """Takes any value."""
    return (yield from repeat(value))


@activity(name="bad.repeat")
async def repeat(value: Any) -> Any:
    """Returns its argument."""
    return value


@activity(name="bad.give", retry=Retry(max_attempts=5, first_delay=0))
async def give(kind: str) -> Any:
    """Returns something that cannot be stored."""
    runs.append(kind)
    return UNSTORABLE[kind]()


@workflow(name="bad.giver")
def giver(kind: str) -> Durable[Any]:
    """Runs an activity that returns something that cannot be stored."""
    return (yield from give(kind))


class Text(str):
    """A subclass of str."""

    __slots__ = ()


class Number(int):
    """A subclass of int."""


class Table(dict[str, int]):
    """A subclass of dict."""


class Hostile:
    """Raises in every method."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no eq")

    __hash__ = object.__hash__

    def __reduce__(self) -> str:
        raise RuntimeError("no reduce")


@attrs.frozen(eq=False)
class Unequal:
    """Can be stored, and cannot be compared."""

    number: int

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no eq")

    __hash__ = object.__hash__


def cyclic() -> list[Any]:
    """A list that contains itself."""
    values: list[Any] = []
    values.append(values)
    return values


def nested(depth: int) -> list[Any]:
    """Lists in lists."""
    values: list[Any] = []
    for _ in range(depth):
        values = [values]
    return values


UNSTORABLE: dict[str, Any] = {
    "a lock": threading.Lock,
    "a generator": lambda: (letter for letter in "a"),
    "a function": lambda: nested,
    "an object": object,
    "a hostile object": Hostile,
    "NaN": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "a cycle": cyclic,
    "10,000 lists": lambda: nested(10_000),
    "a surrogate": lambda: "\ud800",
    "a tuple": lambda: (1, 2),
    "a set": lambda: {1},
    "bytes": lambda: b"x",
    "int keys": lambda: {1: 2},
    "a str of another class": lambda: Text("a"),
    "an int of another class": lambda: Number(1),
    "a dict of another class": lambda: Table(a=1),
}

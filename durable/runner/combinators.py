"""Several things at once: `gather` and `race`.

A combinator is an operation with branches and a tally; the session does the rest (starting branches, closing losers).
One more combinator is one more class here.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeAlias, TypeVar, overload

import attrs

from durable.errors import InvalidValue
from durable.runner.ops import Branches, Op, Outcome, Raised, Returned, T_co, Tally, UseYieldFrom

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")

# A branch: an operation, or a generator or coroutine helper with many steps.
Branch: TypeAlias = Op[T] | Generator[Op[Any], UseYieldFrom, T] | Coroutine[Any, Any, T]


class Gather(Branches[tuple[Any, ...]]):
    """All branches; the first failure closes the others."""

    verb = "gather"

    def tally(self) -> Tally:
        return _All(len(self.branches))


class _All:
    def __init__(self, count: int) -> None:
        self.values: list[Any] = [None] * count
        self.open = count

    def empty(self) -> Outcome:
        return Returned(())

    def finished(self, index: int, outcome: Outcome) -> Outcome | None:
        if isinstance(outcome, Raised):
            return outcome
        self.values[index] = outcome.value
        self.open -= 1
        return None if self.open else Returned(tuple(self.values))


@attrs.frozen
class Won(Generic[T_co]):
    """Who won a race: the branch's name or index, and its result."""

    key: int | str
    value: T_co


class Race(Branches[Won[Any]]):
    """The first branch to finish, well or badly, decides."""

    verb = "race"

    def __init__(self, branches: tuple[Any, ...], keys: tuple[int | str, ...]) -> None:
        super().__init__(branches)
        self.keys = keys

    def tally(self) -> Tally:
        return self

    def empty(self) -> Outcome:
        return Raised(InvalidValue("race", "needs at least one branch"))

    def finished(self, index: int, outcome: Outcome) -> Outcome | None:
        """The first to finish is the outcome of the race."""
        return outcome if isinstance(outcome, Raised) else Returned(Won(self.keys[index], outcome.value))


@overload
def gather() -> Op[tuple[()]]: ...
@overload
def gather(a: Branch[A], /) -> Op[tuple[A]]: ...
@overload
def gather(a: Branch[A], b: Branch[B], /) -> Op[tuple[A, B]]: ...
@overload
def gather(a: Branch[A], b: Branch[B], c: Branch[C], /) -> Op[tuple[A, B, C]]: ...
@overload
def gather(a: Branch[A], b: Branch[B], c: Branch[C], d: Branch[D], /) -> Op[tuple[A, B, C, D]]: ...
@overload
def gather(a: Branch[A], b: Branch[B], c: Branch[C], d: Branch[D], e: Branch[E], /) -> Op[tuple[A, B, C, D, E]]: ...
@overload
def gather(*branches: Branch[T]) -> Op[tuple[T, ...]]: ...
def gather(*branches: Branch[Any]) -> Op[Any]:
    """Run all branches at once: their results in order. The first failure closes the others and is raised."""
    return Gather(branches)


@overload
def race(a: Branch[A], b: Branch[B], /) -> Op[Won[A | B]]: ...
@overload
def race(a: Branch[A], b: Branch[B], c: Branch[C], /) -> Op[Won[A | B | C]]: ...
@overload
def race(a: Branch[A], b: Branch[B], c: Branch[C], d: Branch[D], /) -> Op[Won[A | B | C | D]]: ...
@overload
def race(*branches: Branch[T], **named: Branch[T]) -> Op[Won[T]]: ...
def race(*branches: Branch[Any], **named: Branch[Any]) -> Op[Any]:
    """Run all branches at once: the first to finish wins, the others are closed. A failure that is first is raised."""
    keys: tuple[int | str, ...] = (*range(len(branches)), *named)
    return Race((*branches, *named.values()), keys)

"""Several things at once: `gather`, `settle`, `race`, `first_success` and `fan_out`.

A combinator is an operation with branches and a tally. The interpreter starts each branch as a fiber and calls
`Tally.finished` each time a branch ends. Once that returns an outcome, the interpreter closes the branches that still
run and hands the outcome to the body. To add a combinator, add a class here.

Tallies count in the order of the recorded entries, so they need no record of their own. They must not depend on
anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeAlias, TypeVar, overload

import attrs

from durable.errors import DurableError, InvalidValue, WrongType
from durable.model.position import branch_label
from durable.runner.ops import Branches, Op, Raised, Returned, T_co, Tally, UseYieldFrom, use
from durable.runner.ops import Outcome as AnyOutcome

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")

# A branch: an operation, or a generator or coroutine helper with many steps.
Branch: TypeAlias = Op[T] | Generator[Op[Any], UseYieldFrom, T] | Coroutine[Any, Any, T]
# How a branch of `settle` has ended.
Outcome: TypeAlias = Returned[T] | Raised


class Gather(Branches[tuple[Any, ...]]):
    """Waits for all branches; the first failure closes the others."""

    verb = "gather"

    def tally(self) -> Tally:
        return _All(len(self.branches))


class Settle(Branches[tuple[Any, ...]]):
    """Waits for all branches, whether they succeed or fail."""

    verb = "settle"

    def tally(self) -> Tally:
        return _All(len(self.branches), is_settled=True)


class FanOut(Branches[list[Any]]):
    """One branch per item, made when its turn comes; the first failure closes the others.

    `fn` is code of the body. It runs when a slot is free, in the order of the items, so a replay calls it at the same
    points.
    """

    verb = "fan_out"

    def __init__(self, fn: Callable[[Any], Any], items: Iterable[Any], limit: int | None) -> None:
        super().__init__(())
        self.fn = fn
        # Copied now: if the body changes its list later, the remaining branches must not change.
        self.items = tuple(items)
        self.limit = limit

    def each(self) -> Iterator[Any]:
        """The branch of each item in turn. If `fn` raises, its branch fails with that error."""
        for item in self.items:
            try:
                branch = use(self.fn(item), self.verb)
            except BaseException as error:
                branch = failing(error)
            yield branch

    def tally(self) -> Tally:
        return _All(len(self.items), shape=list)


def failing(error: BaseException) -> Generator[Op[Any], UseYieldFrom, None]:
    """A branch that raises `error` as its first step: for one that could not be made."""
    raise error
    yield


class _All:
    """Finished when every branch is: the values, or for `settle` the outcome of each branch.

    A cancellation is not an `Exception`, so even `settle` ends with it.
    """

    def __init__(self, count: int, *, is_settled: bool = False, shape: type = tuple) -> None:
        self.results: list[Any] = [None] * count
        self.open = count
        self.is_settled = is_settled
        self.shape = shape

    def empty(self) -> AnyOutcome:
        return Returned(self.shape())

    def finished(self, index: int, outcome: AnyOutcome) -> AnyOutcome | None:
        if isinstance(outcome, Returned):
            self.results[index] = outcome if self.is_settled else outcome.value
        elif self.is_settled and isinstance(outcome.error, Exception):
            self.results[index] = outcome
        else:
            return outcome
        self.open -= 1
        return None if self.open else Returned(self.shape(self.results))


@attrs.frozen
class Won(Generic[T_co]):
    """The winner of a race: the branch's name or index, and its result."""

    key: int | str
    value: T_co


@attrs.frozen(slots=False)
class AllFailed(DurableError):
    """Every branch of `first_success` failed. `errors` holds what each raised, by the branch's name or index."""

    errors: dict[int | str, Exception]

    def __str__(self) -> str:
        reasons = "; ".join(f"{key}: {type(error).__name__}: {error}" for key, error in self.errors.items())
        return f"all {len(self.errors)} branches failed: {reasons}"


class _Keyed(Branches[Won[Any]]):
    """Branches of which one wins. The key of a branch is its name, or its index if it has none."""

    def __init__(self, branches: tuple[Any, ...], named: dict[str, Any]) -> None:
        super().__init__((*branches, *named.values()))
        self.keys: tuple[int | str, ...] = (*range(len(branches)), *named)
        self._is_named = bool(named)

    def labels(self) -> Sequence[str]:
        """The keys, if any branch has a name: new code may then reorder branches without changing positions."""
        return tuple(map(branch_label, self.keys)) if self._is_named else ()

    def empty(self) -> AnyOutcome:
        """Without branches, there can be no winner."""
        return Raised(InvalidValue(self.verb, "needs at least one branch"))

    def won(self, index: int, value: Any) -> AnyOutcome:
        """The outcome of the operation when this branch has won."""
        return Returned(Won(self.keys[index], value))


class Race(_Keyed):
    """The first branch to finish decides, with its result or its error."""

    verb = "race"

    def tally(self) -> Tally:
        return self

    def finished(self, index: int, outcome: AnyOutcome) -> AnyOutcome | None:
        """Ends the race with the first branch to finish."""
        return outcome if isinstance(outcome, Raised) else self.won(index, outcome.value)


class FirstSuccess(_Keyed):
    """The first branch to succeed decides. A failure counts only if no branch is left."""

    verb = "first_success"

    def tally(self) -> Tally:
        return _Failures(self)


class _Failures:
    """The tally of `first_success`: collects errors until a branch succeeds."""

    def __init__(self, op: FirstSuccess) -> None:
        self.op = op
        self.errors: dict[int, Exception] = {}

    def empty(self) -> AnyOutcome:
        return self.op.empty()

    def finished(self, index: int, outcome: AnyOutcome) -> AnyOutcome | None:
        if isinstance(outcome, Returned):
            return self.op.won(index, outcome.value)
        if not isinstance(outcome.error, Exception):
            # A cancellation, for example: the success of another branch must not hide it.
            return outcome
        self.errors[index] = outcome.error
        if len(self.errors) < len(self.op.keys):
            return None
        return Raised(AllFailed({key: self.errors[place] for place, key in enumerate(self.op.keys)}))


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
    """Run all branches at once and return their results in order. The first failure closes the others and is raised."""
    return Gather(branches)


@overload
def settle() -> Op[tuple[()]]: ...
@overload
def settle(a: Branch[A], /) -> Op[tuple[Outcome[A]]]: ...
@overload
def settle(a: Branch[A], b: Branch[B], /) -> Op[tuple[Outcome[A], Outcome[B]]]: ...
@overload
def settle(a: Branch[A], b: Branch[B], c: Branch[C], /) -> Op[tuple[Outcome[A], Outcome[B], Outcome[C]]]: ...
@overload
def settle(
    a: Branch[A], b: Branch[B], c: Branch[C], d: Branch[D], /
) -> Op[tuple[Outcome[A], Outcome[B], Outcome[C], Outcome[D]]]: ...
@overload
def settle(
    a: Branch[A], b: Branch[B], c: Branch[C], d: Branch[D], e: Branch[E], /
) -> Op[tuple[Outcome[A], Outcome[B], Outcome[C], Outcome[D], Outcome[E]]]: ...
@overload
def settle(*branches: Branch[T]) -> Op[tuple[Outcome[T], ...]]: ...
def settle(*branches: Branch[Any]) -> Op[Any]:
    """Run all branches at once and wait for all: for each, in order, `Returned(value)` or `Raised(error)`.

    A cancellation of the workflow is raised, not returned.
    """
    return Settle(branches)


@overload
def race(a: Branch[A], b: Branch[B], /) -> Op[Won[A | B]]: ...
@overload
def race(a: Branch[A], b: Branch[B], c: Branch[C], /) -> Op[Won[A | B | C]]: ...
@overload
def race(a: Branch[A], b: Branch[B], c: Branch[C], d: Branch[D], /) -> Op[Won[A | B | C | D]]: ...
@overload
def race(*branches: Branch[T], **named: Branch[T]) -> Op[Won[T]]: ...
def race(*branches: Branch[Any], **named: Branch[Any]) -> Op[Any]:
    """Run all branches at once. The first to finish wins and the others are closed.

    If the first to finish has failed, its error is raised.
    """
    return Race(branches, named)


@overload
def first_success(a: Branch[A], b: Branch[B], /) -> Op[Won[A | B]]: ...
@overload
def first_success(a: Branch[A], b: Branch[B], c: Branch[C], /) -> Op[Won[A | B | C]]: ...
@overload
def first_success(a: Branch[A], b: Branch[B], c: Branch[C], d: Branch[D], /) -> Op[Won[A | B | C | D]]: ...
@overload
def first_success(*branches: Branch[T], **named: Branch[T]) -> Op[Won[T]]: ...
def first_success(*branches: Branch[Any], **named: Branch[Any]) -> Op[Any]:
    """Run all branches at once. The first to succeed wins and the others are closed.

    Raises `AllFailed` if none succeeds.
    """
    return FirstSuccess(branches, named)


def fan_out(fn: Callable[[A], Branch[T]], items: Iterable[A], *, limit: int | None = None) -> Op[list[T]]:
    """Run the branch `fn(item)` for each item, at most `limit` at a time. The results are in the order of the items.

    The first failure closes the running branches and is raised; the remaining items are never started.
    """
    if not callable(fn):
        raise WrongType("fan_out", f"fn must be a function of one item, not {type(fn).__name__}")
    if not isinstance(items, Iterable):
        raise WrongType("fan_out", f"items must be iterable, not {type(items).__name__}")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise InvalidValue("fan_out", f"limit must be an int of at least 1, or None for all at once, not {limit!r}")
    return FanOut(fn, items, limit)

"""An error that any function has kept may hold operations: releasing it later is not a mistake."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any, Self

import attrs
import pytest

from durable.runner.combinators import gather
from durable.runner.definitions import Durable, activity, workflow
from durable.runner.ops import Op, sleep
from tests.runner.builders import Declined, activity_error, charge, misuse, notify, refuse, run, value_of


@attrs.frozen
class Err:
    """An error as a value."""

    error: BaseException


def attempt(amount: int) -> Durable[int | Err]:
    """Prepares an operation that the error of another one stops."""
    follow_up = notify()
    try:
        paid = yield from charge(amount)
        yield from follow_up
    except Declined as error:
        return Err(error)
    return paid


@workflow(name="kept.overwritten")
def overwrites() -> Durable[str]:
    """Tries again, and assigns the next result to the same name."""
    result: int | Err = 0
    for amount in range(2):
        result = yield from attempt(amount)
    return type(result).__name__


@workflow(name="kept.listed")
def lists() -> Durable[str]:
    """Ends with errors in a list."""
    results = []
    for amount in range(2):
        results.append((yield from attempt(amount)))
    return type(results[-1]).__name__


@workflow(name="kept.async")
async def awaits() -> str:
    """The same with `await`."""

    async def trying(amount: int) -> int | Err:
        follow_up = notify()
        try:
            paid = await charge(amount)
            await follow_up
        except Declined as error:
            return Err(error)
        return paid

    result: int | Err = 0
    for amount in range(2):
        result = await trying(amount)
    return type(result).__name__


@pytest.mark.parametrize("definition", [overwrites, lists, awaits], ids=lambda case: case.name)
def test_error_that_a_helper_returns_takes_its_operations_along(definition: Any) -> None:
    """A helper returns its error as a value. When the body releases it, no operation is reported."""
    entries = [activity_error(seq, str(seq - 1), "charge", Declined("no")) for seq in (1, 2)]
    assert value_of(run(definition, *entries)) == "Err"


# --- errors kept by other functions, in other ways ----------------------------------------------------------------


class Errors:
    """Collects errors."""

    def __init__(self) -> None:
        self.all: list[BaseException] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self.all.append(error or Declined("none"))
        return True


class Raw:
    """Keeps the arguments of its `__exit__`."""

    kept: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> bool:
        self.kept = details
        return True


def caught(box: dict[str, Any]) -> None:
    """Keeps an error in the given dict."""
    try:
        refuse(charge(1))
    except Declined as error:
        box["error"] = error


def keep_details(box: dict[str, Any]) -> None:
    """Keeps `sys.exc_info()`."""
    try:
        refuse(charge(1))
    except Declined:
        box["error"] = sys.exc_info()


def from_a_dict(let_go: Callable[[dict[str, Any]], Any], keep: Callable[[dict[str, Any]], None]) -> None:
    """Lets a function keep an error in a dict, and releases it."""
    box: dict[str, Any] = {}
    keep(box)
    let_go(box)


def collected() -> None:
    """Lets a context manager collect errors."""
    errors = Errors()
    with errors:
        refuse(charge(1))
    errors.all.clear()


def packed() -> None:
    """Lets a context manager collect the arguments of `__exit__`."""
    raw = Raw()
    with raw:
        refuse(charge(1))
    raw.kept = None


def given_up() -> None:
    """Makes operations in turn, and drops all of them if one cannot be made."""
    made: list[Op[Any]] = []
    try:
        for amount in ("1", "2", "x"):
            made.append(charge(int(amount)))
    except ValueError:
        made.clear()


def replaced() -> list[Op[Any]]:
    """The same, with another list."""
    made: list[Op[Any]] = []
    try:
        for amount in ("1", "2", "x"):
            made.append(charge(int(amount)))
    except ValueError as error:
        made = [] if error.args else [charge(5)]
    return made


SOUND: dict[str, Callable[[], Any]] = {
    "pop": lambda: from_a_dict(lambda box: box.pop("error"), caught),
    "clear": lambda: from_a_dict(dict.clear, caught),
    "exc_info": lambda: from_a_dict(dict.clear, keep_details),
    "__exit__": collected,
    "__exit__ with one argument": packed,
    "gives up in a handler": given_up,
    "replaces in a handler": replaced,
}


@workflow(name="kept.sound")
def sound(which: str = "") -> Durable[str]:
    """Runs one of the functions above."""
    SOUND[CHOSEN[0]]()
    yield from sleep(0)
    return "unreported"


CHOSEN = [""]


@pytest.mark.parametrize("which", SOUND)
def test_error_that_is_let_go_elsewhere_takes_its_operations_along(which: str) -> None:
    """Wherever an error was kept and released, the operations in its traceback are not reported."""
    CHOSEN[0] = which
    assert value_of(run(sound)) == "unreported"


# --- mistakes that are certain even so ----------------------------------------------------------------------------


@workflow(name="kept.statement")
def statement_beside_a_keeper() -> Durable[Any]:
    """Forgets a `yield from`, and has a helper that keeps errors."""
    charge(1)  # type: ignore[unused-awaitable]
    return (yield from attempt(1))


@workflow(name="kept.chained")
def chained_beside_a_keeper() -> Durable[Any]:
    """The same with a limit, called through a module."""
    here.charge(1).within(gather.__name__ and 5)
    return (yield from attempt(1))


@workflow(name="kept.plain")
def plain_beside_a_keeper() -> Durable[Any]:
    """The result of a plain function, and of an unknown one, is dropped: it may be anything."""
    box: dict[str, Any] = {}
    caught(box)
    unknown = box.pop
    unknown("error")
    caught(box)
    keep_nothing.fn(box)
    return (yield from sleep(0))


@activity
def keep_nothing(box: dict[str, Any]) -> Any:
    """Removes the kept error and returns it."""
    return box.pop("error")


here: Any = types.ModuleType("here")
here.charge = charge


@pytest.mark.parametrize("definition", [statement_beside_a_keeper, chained_beside_a_keeper], ids=lambda case: case.name)
def test_forgotten_statement_is_reported_beside_a_function_that_keeps_errors(definition: Any) -> None:
    """A statement that makes an operation and drops it is a mistake in any case."""
    assert "was created at" in misuse(definition)


def test_result_of_a_function_that_is_dropped_may_be_an_error() -> None:
    """A statement that calls something else may drop a value that holds an error."""
    assert value_of(run(plain_beside_a_keeper)) is not None


def handled() -> None:
    """Tests in a handler whether an operation is None."""
    try:
        refuse()
    except Declined:
        if charge(1) is None:
            raise


@workflow(name="kept.handled")
def asks_in_a_handler() -> Durable[None]:
    """Forgets a `yield from` in a handler."""
    handled()
    yield from sleep(0)


def test_operation_made_and_dropped_in_a_handler_is_reported() -> None:
    """A handler may drop operations that were made before it. One that it made itself is forgotten."""
    assert "was dropped at" in misuse(asks_in_a_handler)

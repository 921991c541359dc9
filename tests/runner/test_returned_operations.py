"""A workflow must not return an operation, a helper or a continuation: these have not run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from durable.errors import OperationMisused
from durable.runner.combinators import gather, race
from durable.runner.definitions import Durable, workflow
from durable.runner.loops import Break, loop
from durable.runner.ops import sleep
from durable.runner.undo import saga
from tests.runner.builders import activity_ok, charge, error_of, run


def helper() -> Durable[int]:
    """A helper with steps."""
    return (yield from charge(1))


@workflow(name="forgotten.again")
def again() -> Durable[Any]:
    """Returns what it should have raised."""
    yield from sleep(0)
    return again.continue_as()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (lambda: charge(1), r"returned charge\(...\), which has not run: write 'return \(yield from ...\)'"),
        (lambda: gather(charge(1)), "returned gather, which has not run"),
        (helper, r"returned helper\(...\), which has not run: write 'return \(yield from ...\)'"),
        (again.continue_as, r"returned forgotten.again.continue_as\(...\), .* write 'raise' instead"),
    ],
)
def test_result_that_has_not_run_is_refused(value: Callable[[], Any], expected: str) -> None:
    """Returning an operation, a helper or a continuation is refused with the fix."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        yield from sleep(0)
        return value()

    with pytest.raises(OperationMisused, match=f"^workflow w {expected}.* in body"):
        raise error_of(run(body))


def test_continuation_that_is_not_raised_is_reported() -> None:
    """`wf.continue_as(...)` alone does nothing, and the workflow fails with the fix."""

    @workflow(name="w")
    def body() -> Durable[None]:
        yield from sleep(0)
        again.continue_as()

    message = str(error_of(run(body)))
    assert message.startswith(f"forgotten.again.continue_as(...) was created at {__file__}:")
    assert message.endswith("but never raised: did you forget 'raise'?")


def test_place_of_a_returned_operation_is_its_return() -> None:
    """Lines that run the same activity are not named, nor lines that make it for another purpose."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        first = charge(1)
        paid = yield from first
        paid += yield from charge(2)
        paid += yield from charge(3)
        if paid:
            return charge(4)
        return (yield from charge(5))

    entries = [activity_ok(number, str(number - 1), "charge", 5) for number in (1, 2, 3)]
    line = inspect.getsourcelines(body.fn)[1] + 7
    assert str(error_of(run(body, *entries))).endswith(f"({__file__}:{line} in body)")


def returning(value: Callable[[], Any]) -> Durable[Any]:
    """A helper that returns something that has not run."""
    yield from sleep(0)
    return value()


def rounds(state: int) -> Durable[Any]:
    """A round of a loop that ends it with something that has not run."""
    yield from sleep(state)
    return Break(charge(1))


@pytest.mark.parametrize(
    "op",
    [
        lambda: gather(returning(lambda: charge(1)), charge(2)),
        lambda: race(returning(lambda: charge(1))),
        lambda: gather(returning(helper)),
        lambda: saga(returning(lambda: charge(1))),
        lambda: loop(rounds, 0),
    ],
    ids=["gather", "race", "helper", "saga", "loop"],
)
def test_branch_that_returns_an_unrun_operation_is_refused(op: Callable[[], Any]) -> None:
    """The same holds for a branch, a saga and a round of a loop, because the workflow uses their results."""

    @workflow(name="returned.branch")
    def body() -> Durable[Any]:
        yield from op()

    error = error_of(run(body))
    assert isinstance(error, OperationMisused)
    assert "which has not run: write 'return (yield from ...)'" in str(error)

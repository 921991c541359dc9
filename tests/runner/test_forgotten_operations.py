"""An operation that is taken for its result, or dropped in any form, fails the workflow with place and fix."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from durable.errors import OperationMisused
from durable.runner.combinators import gather, race, settle
from durable.runner.definitions import Durable, workflow
from durable.runner.ops import IN_ACTIVITY, Op, sleep
from tests.runner.builders import (
    Declined,
    activity_ok,
    approval,
    charge,
    error_of,
    misuse,
    refuse,
    run,
    value_of,
    workflow_of,
)

ORDERS = [1, 2]
made: list[Op[Any]] = []


def matched(op: Any) -> str:
    """Matches an operation against a text."""
    match op:
        case "paid":
            return "paid"
        case _:
            return "open"


TAKEN: dict[str, Callable[[], Any]] = {
    "if": lambda: 1 if charge(1) else 2,  # type: ignore[truthy-bool]
    "not": lambda: not charge(1),  # type: ignore[truthy-bool]
    "and": lambda: charge(1) and 1,  # type: ignore[truthy-bool]
    "or": lambda: charge(1) or 1,  # type: ignore[truthy-bool]
    "bool": lambda: bool(charge(1)),
    "any": lambda: any(charge(order) for order in ORDERS),
    "all": lambda: all([charge(1)]),
    "filter": lambda: list(filter(charge, ORDERS)),
    "equal": lambda: charge(1) == 5,
    "unequal": lambda: charge(1) != "paid",
    "equal, turned": lambda: 5 == charge(1),  # noqa: SIM300
    "less": lambda: charge(1) < 5,  # type: ignore[operator]
    "greater, turned": lambda: 5 <= charge(1),  # type: ignore[operator]  # noqa: SIM300
    "sorted": lambda: sorted(ORDERS, key=charge),  # type: ignore[arg-type]
    "f-string": lambda: f"{charge(1)}",
    "format": lambda: "{:>5}".format(charge(1)),  # noqa: UP032
    "match": lambda: matched(charge(1)),
    "asyncio.gather": lambda: asyncio.gather(charge(1), charge(2)),
    "asyncio.ensure_future": lambda: asyncio.ensure_future(charge(1)),
}


@pytest.mark.parametrize("how", TAKEN)
def test_operation_taken_for_its_result_is_refused_on_the_spot(how: str) -> None:
    """Each way to take an operation for its result raises there, and names the operation, the line and the fix."""
    message = misuse(workflow_of(TAKEN[how]))
    line = inspect.getsourcelines(matched if how == "match" else TAKEN[how])[1]
    assert message.startswith("charge(...) is an operation and not its result, but ")
    assert "write 'yield from' (or 'await') before it to get its result" in message
    assert f"{__file__}:{line + 3 if how == 'match' else line} in " in message


def is_none() -> Any:
    """Tests whether an operation is None."""
    return 1 if charge(1) is None else 2


def overwritten() -> Any:
    """Assigns another value to the same name."""
    paid: Any = charge(1)
    paid = 5
    return paid + 1


def deleted() -> None:
    """Deletes the name."""
    paid = charge(1)
    del paid


def list_dropped() -> int:
    """Puts operations in a list that is dropped."""
    return len([charge(1)])


def shown() -> str:
    """Formats an operation and does not yield it."""
    return repr(charge(1))


def left_in_a_function() -> int:
    """Leaves it in a local variable."""
    paid = charge(1)
    return 1 if paid is not None else 0


def slot_overwritten() -> dict[str, Any]:
    """Overwrites it in a dict."""
    slots: dict[str, Any] = {"paid": charge(1)}
    slots["paid"] = 5
    return slots


def caught_before() -> Any:
    """Overwrites it after an unrelated error."""
    try:
        raise Declined("no")
    except Declined as problem:
        text = str(problem)
    paid: Any = charge(1)
    paid = text
    return paid + paid


def looped() -> None:
    """Iterates over operations and does nothing with them."""
    for _ in [charge(1), charge(2)]:
        pass


DROPPED = [
    is_none, overwritten, deleted, list_dropped, shown, left_in_a_function, slot_overwritten, caught_before, looped,
]  # fmt: skip


@pytest.mark.parametrize("statement", DROPPED, ids=lambda statement: statement.__name__)
def test_unused_operation_is_reported_with_its_place(statement: Callable[[], Any]) -> None:
    """In whatever form an operation is dropped, the workflow fails with the operation, the place and the fix."""
    message = misuse(workflow_of(statement))
    assert message.startswith("charge(...) was dropped at ")
    # The place is where it was freed: for one left in a local of a function, the line that called the function.
    place = workflow_of.__code__.co_filename if statement is left_in_a_function else __file__
    assert f"{place}:" in message
    assert "but never yielded: did you forget 'yield from' (or 'await')?" in message


def test_operation_left_in_a_variable_of_the_body_is_reported_with_its_line() -> None:
    """If a body returns with an unused operation in a local, the message has the line on which it was made."""

    @workflow(name="w")
    def body() -> Durable[str]:
        yield from sleep(0)
        unused = charge(1)  # noqa: F841
        return "done"

    line = inspect.getsourcelines(body.fn)[1] + 3
    assert misuse(body).startswith(f"charge(...) was created at {__file__}:{line} in body, kept in a variable, but")


def test_place_of_a_variable_is_not_where_the_same_activity_is_run() -> None:
    """Lines with `yield from charge(...)` are not named. If many other lines qualify, only the first ones are."""

    @workflow(name="w")
    def body(many: bool = False) -> Durable[str]:
        if many:
            yield from charge(1)
            yield from charge(2)
        unused = [charge(3)]
        if many:
            unused += [charge(4)]
            unused += [charge(5)]
            unused += [charge(6)]
            return charge.name
        yield from sleep(0)
        return "done"

    first = inspect.getsourcelines(body.fn)[1] + 5
    lines = f"{first} or {first + 2} or {first + 3} or below"
    assert misuse(body).startswith(f"charge(...) was created at {__file__}:{lines} in body, kept in a variable, but")


# --- no false alarms ----------------------------------------------------------------------------------------------


def caught() -> None:
    """The operation was an argument of the call that raised."""
    with contextlib.suppress(Declined):
        refuse(charge(1))


def caught_by_name() -> str:
    """The same, and the handler names the error."""
    try:
        refuse(charge(1))
    except Declined as error:
        return str(error)
    return ""


def stacked() -> None:
    """The operation was on the stack when the next expression raised."""
    with contextlib.suppress(Declined):
        made.append(gather(charge(1), charge(refuse())))


def caught_further_out() -> None:
    """The handler is in an outer function."""

    def inner() -> tuple[Any, Any]:
        return (charge(1), refuse())

    with contextlib.suppress(Declined):
        inner()


def kept_errors() -> None:
    """Errors are kept and released in turn, each with the operation that it stopped."""
    last: Exception | None = None
    for _ in range(3):
        try:
            refuse(charge(1))
        except Declined as error:
            last = error
    last = None
    assert last is None


def collected() -> None:
    """A cycle that the garbage collector frees may belong to any workflow."""
    ring: list[Any] = [charge(1)]
    ring.append(ring)
    del ring
    gc.collect()


def compared() -> None:
    """Operations may be searched for in a list of operations."""
    pair = [charge(1), charge(2)]
    assert pair[1] in pair
    assert pair.index(pair[1]) == 1
    assert {pair[0]: 1}[pair[0]] == 1
    made.extend(pair)


def refused_by_itself() -> None:
    """An operation that refuses its arguments was never made, wherever its parts are freed."""
    problems: list[Exception] = []
    try:
        charge(1).within(-1)  # type: ignore[unused-awaitable]
    except ValueError as problem:
        problems.append(problem)
    with contextlib.suppress(ValueError):
        charge(1).within(-1)  # type: ignore[unused-awaitable]


SOUND = [
    caught, caught_by_name, stacked, caught_further_out, kept_errors, collected, compared, refused_by_itself,
]  # fmt: skip


@pytest.mark.parametrize("statement", SOUND, ids=lambda statement: statement.__name__)
def test_operation_dropped_by_an_error_is_not_reported(statement: Callable[[], Any]) -> None:
    """Operations freed by an error or by the garbage collector, and operations that are kept, are not reported."""
    assert value_of(run(workflow_of(statement))) == "unreported"
    made.clear()


class Halved(Op[None]):
    """An operation whose constructor did not finish."""

    def __str__(self) -> str:
        return f"{self.text}"  # type: ignore[attr-defined]  # it was never set


def half_made() -> None:
    """Drops an object whose constructor did not finish."""
    half = Halved.__new__(Halved)
    del half


def test_operation_that_was_never_made_is_not_forgotten() -> None:
    """An object whose constructor did not finish could never be yielded."""
    assert value_of(run(workflow_of(half_made))) == "unreported"


def problem_of() -> Durable[Declined | None]:
    """Returns an error as a value, with the operation that it stopped."""
    yield from sleep(0)
    try:
        refuse(charge(1))
    except Declined as error:
        return error
    return None


def test_error_that_a_body_keeps_takes_its_operations_along() -> None:
    """A body that ends with errors in its variables has not forgotten the operations in their tracebacks."""

    @workflow(name="w")
    def body() -> Durable[str]:
        yield from sleep(0)
        last = yield from problem_of()
        try:
            refuse()
        except Declined as error:
            last = last or error
        return "unreported" if last else ""

    assert value_of(run(body)) == "unreported"


def test_operations_of_a_failed_branch_go_with_its_error() -> None:
    """A settled branch failed before it used its operations: releasing its error later is not a mistake."""

    def branch(op: Op[int]) -> Durable[int]:
        later = [charge(2)]
        if approval.name:
            raise Declined("no")
        yield from later[0]
        return (yield from op)

    @workflow(name="w")
    def body() -> Durable[str]:
        outcomes: Any = yield from settle(branch(charge(1)))
        outcomes = None
        yield from settle(branch(charge(1)))
        return "unreported" if outcomes is None else ""

    assert value_of(run(body)) == "unreported"


def test_branch_that_never_began_has_forgotten_nothing() -> None:
    """A helper that is closed before its first step need not use the operations in its arguments."""

    def fails() -> Durable[None]:
        raise Declined("no")
        yield

    def waits(op: Op[int]) -> Durable[int]:
        return (yield from op)

    @workflow(name="w")
    def body() -> Durable[str]:
        try:
            yield from gather(fails(), waits(charge(1)))
        except Declined:
            yield from sleep(0)
        return "unreported"

    assert value_of(run(body)) == "unreported"


def test_loser_that_never_began_has_forgotten_nothing() -> None:
    """A race ends before a helper has begun: since Python 3.12 its arguments outlive its closing."""

    def wins(op: Op[int] | None = None) -> Durable[str]:
        return "unreported"
        yield from op

    @workflow(name="w")
    def body() -> Durable[str]:
        won = yield from race(wins(), wins(charge(1)))
        yield from sleep(0)
        return won.value

    assert value_of(run(body)) == "unreported"


def test_dropped_operation_is_also_reported_on_replay() -> None:
    """The same mistake is reported at the same place when the history is fed again."""

    @workflow(name="w")
    def body() -> Durable[str]:
        yield from charge(1)
        paid: Any = charge(2)
        paid = 3
        yield from sleep(5)
        return str(paid)

    messages = [str(error_of(run(body, activity_ok(1, "0", "charge", 1)))) for _ in range(2)]
    assert messages[0] == messages[1]
    assert "charge(...) was dropped at" in messages[0]


def test_truth_of_an_operation_is_refused_outside_a_workflow_too() -> None:
    """An operation has no truth value anywhere; outside of a workflow it compares and prints like any other value."""
    op = charge(1)
    with pytest.raises(OperationMisused, match="only a workflow gets its result"):
        bool(op)
    assert (op == 5, f"{op}", op == op) == (False, "charge(...)", True)
    token = IN_ACTIVITY.set("any activity")
    try:
        with pytest.raises(OperationMisused, match=r"call the plain function \(.fn\)"):
            bool(op)
    finally:
        IN_ACTIVITY.reset(token)

"""An operation that is taken for its result, or dropped in whatever form, fails the workflow with place and fix."""

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
    """Takes an operation for a text."""
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
    """Each way to take an operation for its result raises there, and names operation, line and fix."""
    told = misuse(workflow_of(TAKEN[how]))
    line = inspect.getsourcelines(matched if how == "match" else TAKEN[how])[1]
    assert told.startswith("charge(...) is an operation and not its result, but ")
    assert "write 'yield from' (or 'await') before it to get its result" in told
    assert f"{__file__}:{line + 3 if how == 'match' else line} in " in told


def is_none() -> Any:
    """Asks whether an operation is None."""
    return 1 if charge(1) is None else 2


def overwritten() -> Any:
    """Takes another value under the same name."""
    paid: Any = charge(1)
    paid = 5
    return paid + 1


def deleted() -> None:
    """Deletes the name."""
    paid = charge(1)
    del paid


def list_dropped() -> int:
    """Puts operations in a list that goes nowhere."""
    return len([charge(1)])


def shown() -> str:
    """Shows an operation and does not yield it."""
    return repr(charge(1))


def left_in_a_function() -> int:
    """Leaves it in a local."""
    paid = charge(1)
    return 1 if paid is not None else 0


def slot_overwritten() -> dict[str, Any]:
    """Overwrites an item."""
    found: dict[str, Any] = {"paid": charge(1)}
    found["paid"] = 5
    return found


def caught_before() -> Any:
    """Overwrites after an error that has nothing to do with it."""
    try:
        raise Declined("no")
    except Declined as problem:
        text = str(problem)
    paid: Any = charge(1)
    paid = text
    return paid + paid


def looped() -> None:
    """Goes over operations and does nothing with them."""
    for _ in [charge(1), charge(2)]:
        pass


DROPPED = [
    is_none, overwritten, deleted, list_dropped, shown, left_in_a_function, slot_overwritten, caught_before, looped,
]  # fmt: skip


@pytest.mark.parametrize("statement", DROPPED, ids=lambda one: one.__name__)
def test_operation_that_dies_unused_is_told_with_its_place(statement: Callable[[], Any]) -> None:
    """In whatever form an operation is dropped, the workflow fails with operation, place and fix."""
    told = misuse(workflow_of(statement))
    assert told.startswith("charge(...) was dropped at ")
    # The place is where it died: for one that a function has left behind, where that was called.
    place = workflow_of.__code__.co_filename if statement is left_in_a_function else __file__
    assert f"{place}:" in told
    assert "but never yielded: did you forget 'yield from' (or 'await')?" in told


def test_operation_left_in_a_variable_of_the_body_is_told_with_its_line() -> None:
    """A body that returns with an unused operation in a local is told on which line it was made."""

    @workflow(name="w")
    def body() -> Durable[str]:
        yield from sleep(0)
        unused = charge(1)  # noqa: F841
        return "done"

    line = inspect.getsourcelines(body.fn)[1] + 3
    assert misuse(body).startswith(f"charge(...) was created at {__file__}:{line} in body, kept in a variable, but")


def test_place_of_a_variable_is_not_where_the_same_activity_is_run() -> None:
    """Lines with `yield from charge(...)` are not named. Of many other lines the first are, and that there are more."""

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
    """The operation was an argument of what raised."""
    with contextlib.suppress(Declined):
        refuse(charge(1))


def caught_by_name() -> str:
    """As above, and the error has a name."""
    try:
        refuse(charge(1))
    except Declined as error:
        return str(error)
    return ""


def stacked() -> None:
    """The operation lay ready when what comes after it raised."""
    with contextlib.suppress(Declined):
        made.append(gather(charge(1), charge(refuse())))


def caught_further_out() -> None:
    """The handler stands further out."""

    def inner() -> tuple[Any, Any]:
        return (charge(1), refuse())

    with contextlib.suppress(Declined):
        inner()


def kept_errors() -> None:
    """Errors are kept and let go one after the other, each with the operation that it kept from running."""
    last: Exception | None = None
    for _ in range(3):
        try:
            refuse(charge(1))
        except Declined as error:
            last = error
    last = None
    assert last is None


def collected() -> None:
    """A cycle that the garbage collector finds may belong to anybody."""
    ring: list[Any] = [charge(1)]
    ring.append(ring)
    del ring
    gc.collect()


def compared() -> None:
    """Operations may be looked for among operations."""
    pair = [charge(1), charge(2)]
    assert pair[1] in pair
    assert pair.index(pair[1]) == 1
    assert {pair[0]: 1}[pair[0]] == 1
    made.extend(pair)


def refused_by_itself() -> None:
    """An operation that refuses its arguments was never made, wherever its parts are let go."""
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


@pytest.mark.parametrize("statement", SOUND, ids=lambda one: one.__name__)
def test_operation_that_an_error_drops_is_nobodys_mistake(statement: Callable[[], Any]) -> None:
    """What an error or the garbage collector drops, and what is kept, is not reported."""
    assert value_of(run(workflow_of(statement))) == "unreported"
    made.clear()


class Halved(Op[None]):
    """An operation that cannot be made."""

    def __str__(self) -> str:
        return f"{self.what}"  # type: ignore[attr-defined]  # it was never set


def half_made() -> None:
    """Lets go of what no constructor has finished."""
    half = Halved.__new__(Halved)
    del half


def test_operation_that_was_never_made_is_not_forgotten() -> None:
    """What no constructor has finished cannot be yielded."""
    assert value_of(run(workflow_of(half_made))) == "unreported"


def problem_of() -> Durable[Declined | None]:
    """An error as a value, with the operation that it kept from running."""
    yield from sleep(0)
    try:
        refuse(charge(1))
    except Declined as error:
        return error
    return None


def test_error_that_a_body_keeps_takes_its_operations_along() -> None:
    """A body that ends with errors in its variables has not forgotten what they kept from running."""

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
    """A settled branch failed before it used its operations: letting go of its error later is no mistake."""

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
    """A helper that is closed before its first step does not have to use the operations that it was given."""

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
    """A race is over before a helper has begun: from Python 3.12 on its arguments live longer than its closing."""

    def wins(op: Op[int] | None = None) -> Durable[str]:
        return "unreported"
        yield from op

    @workflow(name="w")
    def body() -> Durable[str]:
        won = yield from race(wins(), wins(charge(1)))
        yield from sleep(0)
        return won.value

    assert value_of(run(body)) == "unreported"


def test_dropped_operation_is_told_on_replay_as_well() -> None:
    """The same mistake is found at the same place when the history is fed again."""

    @workflow(name="w")
    def body() -> Durable[str]:
        yield from charge(1)
        paid: Any = charge(2)
        paid = 3
        yield from sleep(5)
        return str(paid)

    told = [str(error_of(run(body, activity_ok(1, "0", "charge", 1)))) for _ in range(2)]
    assert told[0] == told[1]
    assert "charge(...) was dropped at" in told[0]


def test_truth_of_an_operation_is_refused_outside_a_workflow_too() -> None:
    """An operation has no truth value anywhere; elsewhere it compares and shows itself like any value."""
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

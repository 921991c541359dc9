"""Arguments of activities and children: checked in the body, copied, and never shared with it."""

from __future__ import annotations

from typing import Any

import pytest

from durable.errors import CodecError
from durable.runner.combinators import gather
from durable.runner.definitions import Durable, WorkflowDef, activity, workflow
from durable.runner.ops import Op
from tests.runner.builders import a_session, activity_ok, charge, error_of, opened, run, ship, suspended, value_of


@activity
def pick(first: int, /, *sizes: int, by: str = "size", **more: list[int]) -> int:
    """An activity with every kind of parameter."""
    return first


@workflow(name="runner.arguments.child")
def child(items: list[str]) -> Durable[int]:
    """A child that takes something mutable."""
    yield from ship(items)
    return 1


BAD_CALLS: list[Op[Any]] = [
    charge(),  # type: ignore[call-arg]
    charge(1, 2),  # type: ignore[call-arg]
    charge(amount=1, other=2),  # type: ignore[call-arg]
    charge(other=2),  # type: ignore[call-arg]
    child(),  # type: ignore[call-arg]
    child([], 2),  # type: ignore[call-arg]
    pick(first=1),  # type: ignore[call-arg, arg-type]
]


@pytest.mark.parametrize("flavour", ["generator", "async def"])
@pytest.mark.parametrize("op", BAD_CALLS)
def test_arguments_that_do_not_fit_raise_in_the_body(op: Op[Any], flavour: str) -> None:
    """A call that the function does not accept raises a TypeError that names it, and the body may continue."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        try:
            yield from op
        except TypeError as error:
            return str(error), (yield from charge(5))
        return "accepted"

    @workflow(name="w")
    async def async_body() -> Any:
        try:
            await op
        except TypeError as error:
            return str(error), await charge(5)
        return "accepted"

    session = a_session(body if flavour == "generator" else async_body)
    assert opened(session.start()) == ["1"]
    message, paid = value_of(session.feed(activity_ok(1, "1", "charge", 5)))
    assert message.split(" ")[0] in ("activity", "workflow")
    assert paid == 5


@pytest.mark.parametrize(
    ("op", "where"),
    [
        (ship([object()]), "activity ship: parameter 'items'"),  # type: ignore[list-item]
        (ship(["\ud800"]), "activity ship: parameter 'items'"),
        (charge(float("nan")), "activity charge: parameter 'amount'"),  # type: ignore[arg-type]
        (child({1, 2}), f"workflow {child.name}: parameter 'items'"),  # type: ignore[arg-type]
        (pick(1, by=object()), "activity pick: parameter 'by'"),  # type: ignore[arg-type]
    ],
)
def test_arguments_that_cannot_be_stored_raise_in_the_body(op: Op[Any], where: str) -> None:
    """A value that cannot be stored raises a CodecError in the body, and it names function and parameter."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        try:
            yield from op
        except CodecError as error:
            return error.where
        return "accepted"

    assert value_of(run(body)) == where


def test_arguments_that_fail_in_a_branch_fail_the_group() -> None:
    """An argument that cannot be stored fails its branch, like any other error in a branch."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        return (yield from gather(charge(1), ship([object()])))  # type: ignore[list-item]

    assert isinstance(error_of(run(body)), CodecError)


def mutating() -> WorkflowDef[[], Any]:
    """A body that changes a list after it has passed it on."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        items = ["a"]

        def change() -> Durable[None]:
            items.append("b")
            yield from charge(1)

        return (yield from gather(ship(items), child(items), change()))

    return body


def test_arguments_are_copied_when_they_are_handed_over() -> None:
    """Changing a mutable argument later affects neither the activity's copy nor the child's input."""
    waits = {wait.name: wait for wait in suspended(run(mutating())).opened}
    assert waits["ship"].args == (["a"],)
    assert waits[child.name].input == '{"items":["a"]}'


def test_arguments_of_every_kind_are_passed_on() -> None:
    """Positional, variable and keyword arguments reach the activity as the function will take them."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        return (yield from gather(pick(1, 2, 3, by="name", more=[1]), pick(4)))

    first, second = suspended(run(body)).opened
    assert (first.args, dict(first.kwargs)) == ((1, 2, 3), {"by": "name", "more": [1]})
    assert (second.args, dict(second.kwargs)) == ((4,), {})

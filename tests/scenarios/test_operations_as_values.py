"""An operation used as a value is refused with its place and the fix, and not as an unknown class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from durable import (
    CodecError,
    Durable,
    Event,
    WorkflowEngine,
    WorkflowFailed,
    activity,
    call,
    loop,
    pause,
    publish,
    sleep,
    workflow,
)
from tests.scenarios.kit import SOON

pytestmark = pytest.mark.anyio
IN_WORKFLOW = "charge(...) is an operation and not its result: write 'yield from' (or 'await') before it, in a workflow"
IN_ACTIVITY = (
    "charge(...) is an operation and not its result: call the plain function (.fn), or hand the call to an engine"
)
moved = Event[int]("values-moved")


@activity
async def charge(amount: int) -> int:
    """Some work."""
    return amount


def as_result(value: Any) -> Durable[Any]:
    """Returns it in a list."""
    yield from sleep(0)
    return [value]


def as_argument(value: Any) -> Durable[Any]:
    """Hands it to an activity."""
    return (yield from charge(value))


def as_progress(value: Any) -> Durable[Any]:
    """Shows it."""
    publish(value)
    yield from sleep(0)


def as_nested_progress(value: Any) -> Durable[Any]:
    """Shows it in a dict."""
    publish({"paid": value})
    yield from sleep(0)


def as_prompt(value: Any) -> Durable[Any]:
    """Uses it as a condition."""
    return (yield from pause(returns=bool, prompt=value))


def as_payload(value: Any) -> Durable[Any]:
    """Sends it."""
    yield from moved.send(value)


def as_state(value: Any) -> Durable[Any]:
    """Begins a loop with it."""
    return (yield from loop(as_result, value))


PLACES: dict[Callable[[Any], Durable[Any]], str] = {
    as_result: "workflow values: result",
    as_argument: "activity charge: parameter 'amount'",
    as_progress: "workflow values: progress",
    as_nested_progress: "workflow values: progress",
    as_prompt: "pause: prompt",
    as_payload: "event values-moved: payload",
    as_state: "loop as_result: parameter 'value'",
}


@workflow(name="values")
def misplaces(use: int) -> Durable[Any]:
    """Forgets to run an operation, and passes it as an argument."""
    return (yield from [*PLACES][use](charge(1)))


async def refusal(call: Any) -> str:
    """The message with which a workflow fails."""
    async with WorkflowEngine("memory://") as engine:
        with pytest.raises(WorkflowFailed) as caught:
            await (await engine.start(call)).result(timeout=SOON)
    assert isinstance(caught.value.__cause__, CodecError)
    return str(caught.value.__cause__)


@pytest.mark.parametrize("use", range(len(PLACES)), ids=[use.__name__ for use in PLACES])
async def test_operation_in_place_of_a_value_is_refused_with_the_fix(use: int) -> None:
    """Wherever a workflow uses it, and however deeply nested."""
    assert await refusal(misplaces(use)) == f"{[*PLACES.values()][use]}: {IN_WORKFLOW}"


def returns_operation() -> Any:
    """Forgets `.fn`."""
    return charge(1)


def returns_operations() -> Any:
    """Forgets it more than once."""
    return {"paid": [charge(1)]}


@workflow(name="values-activity")
def runs(deep: bool) -> Durable[Any]:
    """Runs one of them as an activity."""
    return (yield from call(returns_operations if deep else returns_operation, name="confused"))


@pytest.mark.parametrize("deep", [False, True])
async def test_operation_that_an_activity_returns_is_refused_with_the_fix(deep: bool) -> None:
    """In an activity the message says to call the plain function."""
    assert await refusal(runs(deep)) == f"activity confused: result: {IN_ACTIVITY}"


async def test_operation_as_an_argument_of_a_start_is_refused_with_the_fix() -> None:
    """A service that passes an operation to a workflow gets the same message."""
    async with WorkflowEngine("memory://") as engine:
        with pytest.raises(CodecError) as caught:
            await engine.start(misplaces(charge(1)))  # type: ignore[arg-type]
    assert str(caught.value) == f"workflow values: parameter 'use': {IN_WORKFLOW}"

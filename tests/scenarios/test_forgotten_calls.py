"""A call inside an activity does nothing: an activity that drops one fails, and one that hands it over does not."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

from durable import (
    Durable,
    OperationMisused,
    Retry,
    WorkflowEngine,
    WorkflowFailed,
    activity,
    call,
    workflow,
)
from durable.runner.forgotten import IN_ACTIVITIES
from tests.scenarios.kit import SOON

pytestmark = pytest.mark.anyio


@activity
def charge(amount: int) -> int:
    """Some work."""
    return amount


@workflow(name="forgotten-calls-other")
def other(number: int) -> Durable[int]:
    """Another workflow."""
    return (yield from charge(number))


@workflow(name="forgotten-calls")
def runs(number: int) -> Durable[Any]:
    """Runs one of the functions below as an activity."""
    return (yield from call(FUNCTIONS[number], name="confused", retry=Retry(max_attempts=3, first_delay=0)))


def drops() -> str:
    """Forgets `.fn`."""
    charge(1)  # type: ignore[unused-awaitable]
    return "charged"


async def drops_async() -> str:
    """Forgets `.fn`, on the loop."""
    charge(1)  # type: ignore[unused-awaitable]
    return "charged"


def keeps() -> str:
    """Keeps a call and does nothing with it."""
    paid = charge(1)
    return "charged" if paid is not None else ""


def asks_for_truth() -> str:
    """Takes a call for its result."""
    return "charged" if charge(1) else "not"  # type: ignore[truthy-bool]


def catches() -> str:
    """Takes a call for its result where everything is caught."""
    with contextlib.suppress(Exception):
        return asks_for_truth()
    return "charged"


FUNCTIONS: list[Callable[[], Any]] = [drops, drops_async, keeps, asks_for_truth, catches]


@pytest.mark.parametrize("number", range(len(FUNCTIONS)), ids=[fn.__name__ for fn in FUNCTIONS])
async def test_call_that_an_activity_drops_fails_it(number: int) -> None:
    """The activity fails for good, and the error names the call and the plain function."""
    async with WorkflowEngine("memory://") as engine:
        with pytest.raises(WorkflowFailed, match=r"charge\(\.\.\.\) .*\.fn") as caught:
            await (await engine.start(runs(number))).result(timeout=SOON)
        assert isinstance(caught.value.__cause__, OperationMisused)
        fn = FUNCTIONS[number]
        name = asks_for_truth.__name__ if fn is catches else fn.__name__
        assert re.search(rf"{re.escape(__file__)}:\d+ in {name}", str(caught.value))


async def test_call_that_an_activity_keeps_is_told_with_its_line() -> None:
    """If the call is in a variable, the error names the line on which it was made."""
    async with WorkflowEngine("memory://") as engine:
        with pytest.raises(WorkflowFailed) as caught:
            await (await engine.start(runs(FUNCTIONS.index(keeps)))).result(timeout=SOON)
    place = f"{__file__}:{inspect.getsourcelines(keeps)[1] + 2} in keeps"
    assert f"charge(...) was created at {place} inside an activity" in str(caught.value)


class Down(Exception):
    """An error of the activity itself."""


@activity(retry=Retry(max_attempts=3, first_delay=0))
async def drops_and_raises() -> None:
    """Forgets `.fn`, and fails."""
    charge(1)  # type: ignore[unused-awaitable]
    raise Down


@workflow(name="forgotten-calls-raising")
def raising() -> Durable[None]:
    """Runs it."""
    yield from drops_and_raises()


async def test_call_that_a_failing_activity_drops_leaves_nothing() -> None:
    """The activity's own error is reported, and nothing of its attempts is kept."""
    before = len(IN_ACTIVITIES)
    async with WorkflowEngine("memory://") as engine:
        with pytest.raises(WorkflowFailed) as caught:
            await (await engine.start(raising())).result(timeout=SOON)
    assert isinstance(caught.value.__cause__, Down)
    assert len(IN_ACTIVITIES) == before


async def test_call_that_an_activity_hands_to_an_engine_is_used() -> None:
    """An activity may start workflows; a start that the engine refused does not count as forgotten."""
    async with WorkflowEngine("memory://") as engine:

        @activity
        async def starts() -> int:
            handle = await engine.start(other(5))
            try:
                await engine.start(other("no number"))  # type: ignore[arg-type]
            except ValueError:
                return await handle.result(timeout=SOON)
            return 0

        @workflow(name="forgotten-calls-starter")
        def starter() -> Durable[int]:
            return (yield from starts())

        assert await (await engine.start(starter())).result(timeout=SOON) == 5


@pytest.mark.parametrize("is_async", [False, True], ids=["generator", "async def"])
async def test_workflow_that_returns_a_call_fails(is_async: bool) -> None:
    """`return charge(x)` fails the workflow and names the fix, instead of storing nothing."""

    @workflow(name="returns-a-call")
    def returns() -> Durable[Any]:
        yield from charge(1)
        return charge(2)

    @workflow(name="returns-a-call-async")
    async def returns_async() -> Any:
        await charge(1)
        return charge(2)

    async with WorkflowEngine("memory://") as engine:
        with pytest.raises(WorkflowFailed, match=r"returned charge\(...\), which has not run: write 'return"):
            await (await engine.start(returns_async() if is_async else returns())).result(timeout=SOON)

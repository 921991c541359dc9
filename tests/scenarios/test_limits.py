"""What a workflow may ask for at once is bounded; beyond it, it fails with an error that names the option."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import pytest

from durable import (
    Durable,
    EngineConfig,
    Event,
    HelpersTooDeep,
    InvalidValue,
    TooManyChildren,
    TooManyWaits,
    WorkflowEngine,
    WorkflowFailed,
    WorkflowStatus,
    activity,
    fan_out,
    gather,
    spawn,
    workflow,
)
from tests.scenarios.kit import SOON, Store, waiting

pytestmark = pytest.mark.anyio
go = Event[int]("limits.go")


@activity
async def nothing() -> int:
    """Does nothing."""
    return 0


def nested(depth: int) -> Durable[int]:
    """A helper that calls itself."""
    if depth:
        return 1 + (yield from nested(depth - 1))
    yield from nothing()
    return (yield from go.wait())


@workflow(name="limits.deep")
def deep(depth: int) -> Durable[int]:
    """Waits deep down, and would not let go of an error."""
    try:
        return (yield from nested(depth))
    except Exception:
        return (yield from go.wait())


async def nested_async(depth: int) -> int:
    """The same with await."""
    if depth:
        return 1 + await nested_async(depth - 1)
    await nothing()
    return await go.wait()


@workflow(name="limits.deep_async")
async def deep_async(depth: int) -> int:
    """The same with await."""
    return await nested_async(depth)


# The body and the operation are two more.
DEEPEST = int(sys.getrecursionlimit() * 0.4) - 3


@pytest.mark.parametrize("body", [deep, deep_async])
async def test_depth_that_works_live_works_on_replay(store: Store, body: Any) -> None:
    """The deepest helper that may wait goes on in the next engine, and there too."""
    async with WorkflowEngine(store) as engine:
        await engine.start(body(DEEPEST), id="w")
        await waiting(engine, "w", "event")
    async with WorkflowEngine(store) as engine:
        await waiting(engine, "w", "event")
        await engine.send_event(go, 5, to="w")
        assert await engine.handle("w").result(timeout=SOON) == DEEPEST + 5


async def failure(engine: WorkflowEngine, call: Any) -> BaseException | None:
    """What a workflow fails with."""
    with pytest.raises(WorkflowFailed) as caught:
        await (await engine.start(call)).result(timeout=SOON)
    return caught.value.__cause__


@pytest.mark.parametrize("body", [deep, deep_async])
@pytest.mark.parametrize("more", [1, 50])
async def test_depth_beyond_the_limit_fails_with_its_name(store: Store, body: Any, more: int) -> None:
    """One helper more fails the workflow with the depth, the limit and the cure."""
    async with WorkflowEngine(store) as engine:
        error = await failure(engine, body(DEEPEST + more))
        assert isinstance(error, HelpersTooDeep)
        assert (error.depth - error.limit, error.workflow) == (more, body.name)
        assert "write a loop instead of the recursion" in str(error)


async def test_depth_beyond_what_python_can_is_told_too(store: Store) -> None:
    """Helpers that Python itself stops fail the workflow with the same error and the same cure."""
    async with WorkflowEngine(store) as engine:
        error = await failure(engine, deep_async(5_000))
        assert isinstance(error, HelpersTooDeep)
        assert error.depth > error.limit
        assert isinstance(error.__cause__, RecursionError)


@workflow(name="limits.wide")
def wide(count: int, steps: bool = False) -> Durable[int]:
    """Opens many branches at once, and would not let go of an error."""
    with contextlib.suppress(Exception):
        yield from gather(*(nested(3) if steps else go.wait(key=str(n)) for n in range(count)))
    return (yield from go.wait())


@pytest.mark.parametrize("steps", [False, True])
async def test_too_many_branches_fail_the_workflow(store: Store, steps: bool) -> None:
    """The workflow fails with the name of the option, whatever its body would do, and leaves nothing behind."""
    async with WorkflowEngine(store, config=EngineConfig(max_open_waits=10)) as engine:
        error = await failure(engine, wide(11, steps))
        assert isinstance(error, TooManyWaits)
        assert "max_open_waits" in str(error)
        await engine.start(wide(10, steps), id="w")
        await waiting(engine, "w", "event")


async def test_lower_limit_tomorrow_stops_nobody(store: Store) -> None:
    """A workflow that has more open than a new limit allows is rebuilt and ends; what it does next is bounded."""
    async with WorkflowEngine(store) as engine:
        await engine.start(wide(20), id="w")
        await waiting(engine, "w", "event")
    async with WorkflowEngine(store, config=EngineConfig(max_open_waits=5)) as engine:
        for number in range(20):
            await engine.send_event(go, 1, to="w", key=str(number))
        assert await engine.query_status("w") is WorkflowStatus.SUSPENDED
        await engine.send_event(go, 7, to="w")
        assert await engine.handle("w").result(timeout=SOON) == 7


@workflow(name="limits.many")
def many(count: int) -> Durable[list[int]]:
    """Does many things, a few at once."""
    return (yield from fan_out(lambda _: nothing(), range(count), limit=5))


async def test_limited_fan_out_is_not_too_much(store: Store) -> None:
    """Only what is open at once counts."""
    async with WorkflowEngine(store, config=EngineConfig(max_open_waits=5)) as engine:
        assert await (await engine.start(many(50))).result(timeout=SOON) == [0] * 50


@workflow(name="limits.child")
def child() -> Durable[int]:
    """Waits."""
    return (yield from go.wait())


@workflow(name="limits.spawner")
def spawner(count: int) -> Durable[int]:
    """Spawns many children without waiting for anything."""
    for _ in range(count):
        yield from spawn(child())
    return (yield from go.wait())


async def test_too_many_children_in_one_step_fail_the_workflow(store: Store) -> None:
    """The workflow fails with the name of the option; a step with as many as are allowed goes on."""
    async with WorkflowEngine(store, config=EngineConfig(max_children_per_step=10)) as engine:
        error = await failure(engine, spawner(11))
        assert isinstance(error, TooManyChildren)
        assert "max_children_per_step" in str(error)
        await engine.start(spawner(10), id="w")
        await waiting(engine, "w", "event")


async def test_too_many_tags_are_refused(store: Store) -> None:
    """A start with more tags than `max_tags` is refused with that name; the same start found again is not."""
    tags = [str(number) for number in range(100)]
    async with WorkflowEngine(store) as engine:
        with pytest.raises(InvalidValue, match="max_tags=100"):
            await engine.start(child(), id="w", tags=[*tags, "more"])
        await engine.start(child(), id="w", tags=tags)
    async with WorkflowEngine(store, config=EngineConfig(max_tags=1)) as engine:
        assert (await engine.start(child(), id="w", tags=tags)).id == "w"

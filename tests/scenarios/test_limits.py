"""What a workflow may ask for at once is bounded; above the bound it fails, and the error names the option."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyio
import pytest

from durable import (
    Break,
    Durable,
    EngineConfig,
    Event,
    HelpersTooDeep,
    InvalidValue,
    Op,
    ParkReason,
    TooManyChildren,
    TooManyWaits,
    WorkflowCancelled,
    WorkflowEngine,
    WorkflowFailed,
    WorkflowStatus,
    activity,
    fan_out,
    gather,
    loop,
    race,
    saga,
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
    """Waits deep down, and tries to keep every error."""
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


# The body and the operation add two.
DEEPEST = int(sys.getrecursionlimit() * 0.4) - 3


@pytest.mark.parametrize("body", [deep, deep_async])
async def test_depth_that_works_live_works_on_replay(store: Store, body: Any) -> None:
    """The deepest helper that may wait still works in the next engine, at the same depth."""
    async with WorkflowEngine(store) as engine:
        await engine.start(body(DEEPEST), id="w")
        await waiting(engine, "w", "event")
    async with WorkflowEngine(store) as engine:
        await waiting(engine, "w", "event")
        await engine.send_event(go, 5, to="w")
        assert await engine.handle("w").result(timeout=SOON) == DEEPEST + 5


async def failure(engine: WorkflowEngine, call: Any) -> BaseException | None:
    """The message with which a workflow fails."""
    with pytest.raises(WorkflowFailed) as caught:
        await (await engine.start(call)).result(timeout=SOON)
    return caught.value.__cause__


@pytest.mark.parametrize("body", [deep, deep_async])
@pytest.mark.parametrize("more", [1, 50])
async def test_depth_beyond_the_limit_fails_with_its_name(store: Store, body: Any, more: int) -> None:
    """One helper more fails the workflow; the message has the depth, the limit and the fix."""
    async with WorkflowEngine(store) as engine:
        error = await failure(engine, body(DEEPEST + more))
        assert isinstance(error, HelpersTooDeep)
        assert (error.depth - error.limit, error.workflow) == (more, body.name)
        assert "replace the recursion by a loop" in str(error)


async def test_depth_beyond_what_python_can_is_told_too(store: Store) -> None:
    """Helpers that Python itself stops fail the workflow with the same message."""
    async with WorkflowEngine(store) as engine:
        error = await failure(engine, deep_async(5_000))
        assert isinstance(error, HelpersTooDeep)
        assert error.depth > error.limit
        assert isinstance(error.__cause__, RecursionError)


@contextlib.contextmanager
def recursion_limit(factor: int) -> Iterator[None]:
    """Another process, with a higher limit."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(factor * limit)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


undone: list[str] = []


@activity
async def undo(name: str) -> None:
    """Notes what is undone."""
    undone.append(name)


@activity
async def book(name: str) -> str:
    """Does something that can be undone."""
    return name


def deeper(kind: str, depth: int) -> Durable[int]:
    """Goes deep: by helpers that wait, by helpers that call branches, or without any wait."""
    if kind == "plain":
        count = plain(depth)
        yield from nothing()
        return count + (yield from go.wait())
    return (yield from nested(depth) if kind == "nested" else grouped(kind, depth))


def plain(depth: int) -> int:
    """A function that calls itself."""
    return 1 + plain(depth - 1) if depth else 0


@workflow(name="limits.booked")
def booked(name: str, kind: str, depth: int) -> Durable[int]:
    """Owes an undo, and then goes deep."""
    yield from book(name).undo(undo)
    return (yield from deeper(kind, depth))


@pytest.mark.parametrize(("kind", "depth"), [("nested", 600), ("nested", 975), ("gather", 600), ("plain", 1_100)])
async def test_run_that_is_too_deep_for_a_process_is_parked(store: Store, kind: str, depth: int) -> None:
    """It neither fails nor diverges; a cancel is kept, and a process with a high enough limit continues it."""
    undone.clear()
    with recursion_limit(4):
        async with WorkflowEngine(store) as engine:
            for id in ("go on", "cancel"):
                await engine.start(booked(id, kind, depth), id=id)
                await waiting(engine, id, "event")
    async with WorkflowEngine(store) as engine:
        await engine.send_event(go, 5, to="go on")
        assert await engine.cancel("cancel")
        for id in ("go on", "cancel"):
            described = await engine.runs.describe(id)
            assert (described.summary.status, described.park_reason) == (WorkflowStatus.PARKED, ParkReason.UNREADABLE)
            assert "too deep for this process" in (described.problem or "")
    assert not undone
    with recursion_limit(4):
        async with WorkflowEngine(store) as engine:
            assert await engine.handle("go on").result(timeout=SOON) == (5 if kind == "gather" else depth + 5)
            with pytest.raises(WorkflowCancelled):
                await engine.handle("cancel").result(timeout=SOON)
    assert undone == ["cancel"]


def grouped(kind: str, depth: int) -> Durable[int]:
    """A helper that calls itself as a branch."""
    if not depth:
        yield from nothing()
        return (yield from go.wait())
    inner = grouped(kind, depth - 1)
    if kind == "gather":
        return (yield from gather(inner))[0]
    if kind == "race":
        return (yield from race(one=inner)).value
    if kind == "saga":
        return (yield from saga(inner))
    return (yield from loop(lambda _: once(inner), 0))


def once(helper: Durable[int]) -> Durable[Break[int]]:
    """The only round of a loop."""
    return Break((yield from helper))


@workflow(name="limits.grouped")
def in_groups(kind: str, depth: int) -> Durable[int]:
    """Waits deep down in branches of branches."""
    return (yield from grouped(kind, depth))


@workflow(name="limits.operations")
def in_operations(depth: int) -> Durable[None]:
    """Waits in operations inside operations, without a helper."""
    op: Op[Any] = go.wait()
    for _ in range(depth):
        op = gather(op)
    yield from op


# A round of a loop is itself a helper.
DEEPEST_GROUPS = {"gather": DEEPEST, "race": DEEPEST, "saga": DEEPEST, "loop": DEEPEST // 2}
# Nesting is checked where branches open, so a last branch that only waits may be two deeper.
MORE = 3


@pytest.mark.parametrize("kind", DEEPEST_GROUPS)
async def test_branches_may_be_nested_as_deep_as_helpers(store: Store, kind: str) -> None:
    """Helpers that call themselves as branches have the same limit: the deepest also replays, deeper ones fail."""
    depth = DEEPEST_GROUPS[kind]
    async with WorkflowEngine(store) as engine:
        await engine.start(in_groups(kind, depth), id="w")
        await waiting(engine, "w", "event")
        assert isinstance(await failure(engine, in_groups(kind, depth + MORE)), HelpersTooDeep)
        assert isinstance(await failure(engine, in_groups(kind, 2_000)), HelpersTooDeep)
    async with WorkflowEngine(store) as engine:
        await waiting(engine, "w", "event")
        await engine.send_event(go, 5, to="w")
        assert await engine.handle("w").result(timeout=SOON) == 5


async def test_operations_may_not_be_nested_without_end(store: Store) -> None:
    """Operations inside operations count like helpers."""
    async with WorkflowEngine(store) as engine:
        assert isinstance(await failure(engine, in_operations(2_000)), HelpersTooDeep)


@workflow(name="limits.wide")
def wide(count: int, steps: bool = False) -> Durable[int]:
    """Opens many branches at once, and tries to keep every error."""
    with contextlib.suppress(Exception):
        yield from gather(*(nested(3) if steps else go.wait(key=str(n)) for n in range(count)))
    return (yield from go.wait())


@pytest.mark.parametrize("steps", [False, True])
async def test_too_many_branches_fail_the_workflow(store: Store, steps: bool) -> None:
    """The workflow fails with the name of the option, whatever its body does, and nothing of it is left."""
    async with WorkflowEngine(store, config=EngineConfig(max_open_waits=10)) as engine:
        error = await failure(engine, wide(11, steps))
        assert isinstance(error, TooManyWaits)
        assert "max_open_waits" in str(error)
        await engine.start(wide(10, steps), id="w")
        await waiting(engine, "w", "event")


async def test_lowered_limit_stops_no_running_workflow(store: Store) -> None:
    """A workflow with more open waits than a lowered limit is rebuilt and ends; only new waits are bounded."""
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
    """Only what is open at the same time counts."""
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
    """The workflow fails with the name of the option; a step within the limit works."""
    async with WorkflowEngine(store, config=EngineConfig(max_children_per_step=10)) as engine:
        error = await failure(engine, spawner(11))
        assert isinstance(error, TooManyChildren)
        assert "max_children_per_step" in str(error)
        await engine.start(spawner(10), id="w")
        await waiting(engine, "w", "event")


@pytest.mark.parametrize("calls", [False, True])
async def test_children_of_a_long_step_are_counted_together(store: Store, calls: bool) -> None:
    """The limit also holds for a step that takes more than one decision."""
    config = EngineConfig(max_children_per_step=30, max_steps_per_decision=7)
    body = caller if calls else spawner
    async with WorkflowEngine(store, config=config) as engine:
        assert isinstance(await failure(engine, body(31)), TooManyChildren)
        await engine.start(body(30), id="w")
        await waiting(engine, "w", "child" if calls else "event")


@workflow(name="limits.caller")
def caller(count: int) -> Durable[int]:
    """Calls many children at once."""
    return sum((yield from gather(*(child() for _ in range(count)))))


@workflow(name="limits.patient")
def patient(count: int) -> Durable[int]:
    """Spawns many children, and does something after each."""
    for _ in range(count):
        yield from spawn(child())
        yield from go.wait()
    return count


async def test_children_of_different_steps_are_counted_apart(store: Store) -> None:
    """A workflow that waits between its children may start any number, however fast the answers come."""
    async with WorkflowEngine(store, config=EngineConfig(max_children_per_step=1)) as engine:
        handle = await engine.start(patient(20))
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(partial(engine.send_event, go, 1, to=handle.id))
        assert await handle.result(timeout=SOON) == 20


async def test_too_many_tags_are_refused(store: Store) -> None:
    """A start with more tags than `max_tags` is refused and names the option; repeating a stored start is not."""
    tags = [str(number) for number in range(100)]
    async with WorkflowEngine(store) as engine:
        with pytest.raises(InvalidValue, match="max_tags=100"):
            await engine.start(child(), id="w", tags=[*tags, "more"])
        await engine.start(child(), id="w", tags=tags)
    async with WorkflowEngine(store, config=EngineConfig(max_tags=1)) as engine:
        assert (await engine.start(child(), id="w", tags=tags)).id == "w"

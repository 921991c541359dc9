"""What workflows publish, and watching them, through the engine and under both loops."""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import anyio
import attrs
import pytest

from durable import (
    CodecError,
    Durable,
    EngineClosed,
    EngineConfig,
    Event,
    OperationMisused,
    PayloadTooLarge,
    SyncWorkflowEngine,
    WorkflowEngine,
    WorkflowFailed,
    WorkflowHandle,
    WorkflowNotFound,
    WorkflowStatus,
    WorkflowUpdate,
    publish,
    workflow,
)
from durable.testing.clock import NOON, ManualClock
from tests.scenarios.kit import SOON, Store

pytestmark = pytest.mark.anyio
step = Event[int]("progress-step")
SUSPENDED, SUCCEEDED = WorkflowStatus.SUSPENDED, WorkflowStatus.SUCCEEDED


@attrs.frozen
class Stage:
    """The progress of a run."""

    name: str
    done: int


@workflow(name="progress-stages")
def stages(count: int) -> Durable[str]:
    """Publishes its numbers after each event."""
    publish(Stage("begun", 0))
    for _ in range(count):
        publish(Stage("at work", (yield from step.wait())))
    return "done"


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """Turn the warning about an iterator that was not closed into an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
        gc.collect()


async def test_progress_is_read_from_the_store(store: Store) -> None:
    """The last value survives restarts, as JSON or as its class, even if the code of the workflow is missing."""
    async with WorkflowEngine(store) as engine:
        handle = await engine.start(stages(2), id="w")
        assert await handle.progress() == {"name": "begun", "done": 0}
        await engine.send_event(step, 5, to="w")
    async with WorkflowEngine(store, workflows=[]) as engine:
        seen = await engine.handle("w").progress(Stage)
        assert seen == Stage("at work", 5)
        with pytest.raises(CodecError, match="progress of workflow 'w'"):
            await engine.handle("w").progress(int)
        with pytest.raises(WorkflowNotFound):
            await engine.handle("nobody").progress()


async def test_progress_that_is_too_large(store: Store) -> None:
    """A value over the limit fails the workflow with an error that names the value and the fix."""

    @workflow(name="progress-large")
    def large() -> Durable[None]:
        publish("x" * 1_000)
        yield from step.wait()

    async with WorkflowEngine(store, config=EngineConfig(max_payload_bytes=500)) as engine:
        handle = await engine.start(large(), id="w")
        with pytest.raises(WorkflowFailed) as caught:
            await handle.result(timeout=SOON)
        cause = caught.value.__cause__
        assert isinstance(cause, PayloadTooLarge)
        assert cause.where == "workflow progress-large: progress"
        assert await handle.progress() is None


async def _collect(handle: WorkflowHandle[Any], seen: list[WorkflowUpdate[Stage]], met: anyio.Event) -> None:
    async for update in handle.watch(Stage):
        seen.append(update)
        met.set()


async def test_watching_from_the_beginning_to_the_end(store: Store) -> None:
    """A watcher gets the current state, the changes that it is fast enough for, and the end; then it stops."""
    seen: list[WorkflowUpdate[Stage]] = []
    clock = ManualClock()
    async with WorkflowEngine(store, clock=clock) as engine, anyio.create_task_group() as tasks:
        handle = await engine.start(stages(2), id="w")
        met = anyio.Event()
        with anyio.fail_after(SOON):
            tasks.start_soon(_collect, handle, seen, met)
            await met.wait()
            for number in (1, 2):
                await engine.send_event(step, number, to="w")
                while seen[-1].progress != Stage("at work", number):
                    await anyio.lowlevel.checkpoint()
    begun, first, last = seen
    assert (begun.workflow_id, begun.status, begun.progress, begun.at) == ("w", SUSPENDED, Stage("begun", 0), NOON)
    assert (first.status, first.progress) == (SUSPENDED, Stage("at work", 1))
    assert (last.status, last.progress) == (SUCCEEDED, Stage("at work", 2))


async def test_slow_watcher_never_misses_the_end(store: Store) -> None:
    """A slow watcher gets the latest update; one that comes after the end gets only the end."""
    async with WorkflowEngine(store) as engine:
        handle = await engine.start(stages(3), id="w")
        watch = handle.watch()
        first = await anext(watch)
        for number in (1, 2):
            await engine.send_event(step, number, to="w")
        second = await anext(watch)
        await engine.send_event(step, 3, to="w")
        updates = [update async for update in watch]
        assert [first.progress, second.progress] == [{"name": "begun", "done": 0}, {"name": "at work", "done": 2}]
        assert [update.status for update in updates] == [SUCCEEDED]
        assert [update.status async for update in handle.watch()] == [SUCCEEDED]


async def test_watcher_that_leaves(store: Store) -> None:
    """A watcher that leaves early or is cancelled leaves nothing behind, and may use the same iterator again."""
    async with WorkflowEngine(store) as engine:
        handle = await engine.start(stages(1), id="w")
        async for update in handle.watch():
            assert update.status is SUSPENDED
            break
        watch = handle.watch()
        await anext(watch)
        with anyio.move_on_after(0):
            await anext(watch)
        assert all(observer.is_abandoned for observer in engine._core.check_open().coordinator._observers)
        await engine.send_event(step, 1, to="w")
        assert (await anext(watch)).status is SUCCEEDED


async def test_watching_over_a_shutdown(store: Store) -> None:
    """A watcher gets an error when the engine shuts down; the next engine shows the current state."""
    async with anyio.create_task_group() as tasks:
        met = anyio.Event()
        seen: list[WorkflowUpdate[Stage]] = []
        closed: list[bool] = []

        async def watch(handle: WorkflowHandle[str]) -> None:
            try:
                await _collect(handle, seen, met)
            except EngineClosed:
                closed.append(True)

        async with WorkflowEngine(store) as engine:
            tasks.start_soon(watch, await engine.start(stages(1), id="w"))
            await met.wait()
    assert (closed, len(seen)) == ([True], 1)
    async with WorkflowEngine(store) as engine:
        assert (await anext(engine.handle("w").watch())).progress == {"name": "begun", "done": 0}
        with pytest.raises(WorkflowNotFound):
            await anext(engine.handle("nobody").watch())


async def test_services_alone_may_look(store: Store) -> None:
    """A workflow body that asks for progress or watches gets an error: these calls are for services."""

    @workflow(name="progress-nosy")
    def nosy(which: str) -> Durable[str]:
        try:
            getattr(handles[0], which)()
        except OperationMisused as error:
            return str(error)
        yield from ()
        return "seen"

    handles: list[Any] = []
    async with WorkflowEngine(store, workflows=[nosy]) as engine:
        handles.append(engine.handle("w"))
        for which in ("progress", "watch"):
            refusal = await (await engine.start(nosy(which))).result(timeout=SOON)
            assert refusal.startswith(f"WorkflowHandle.{which}() was called inside a workflow body")


def test_sync_engine(store: Store) -> None:
    """Without an event loop: progress as a plain call, and watching as a plain iterator, from any thread."""
    with SyncWorkflowEngine(store) as engine:
        handle = engine.start(stages(2), id="w")
        assert handle.progress(Stage) == Stage("begun", 0)
        seen: list[WorkflowUpdate[Stage]] = []
        met = threading.Event()

        def watch() -> None:
            for update in handle.watch(Stage):
                seen.append(update)
                met.set()

        thread = threading.Thread(target=watch)
        thread.start()
        assert met.wait(SOON)
        for number in (1, 2):
            engine.send_event(step, number, to="w")
        thread.join(SOON)
        assert [seen[0].progress, seen[-1].progress] == [Stage("begun", 0), Stage("at work", 2)]
        assert seen[-1].status is SUCCEEDED
        assert [update.status for update in handle.watch()] == [SUCCEEDED]
        assert handle.progress() == {"name": "at work", "done": 2}

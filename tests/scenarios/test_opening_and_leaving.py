"""Entering and leaving an engine at awkward moments, and the calls that arrive meanwhile."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from durable import (
    Durable,
    DurableError,
    EngineClosed,
    EngineConfig,
    Event,
    OperationMisused,
    StorageUnavailable,
    StoreInUse,
    WorkflowEngine,
    activity,
    sleep,
    workflow,
)
from durable.backends.base import Opened
from durable.backends.memory import MemoryBackend
from durable.backends.sqlite import SqliteBackend
from durable.engine.host.watchdog import Watchdog
from durable.testing.faults import Fault, FaultyBackend
from tests.scenarios.kit import SOON, Store, refusing

pytestmark = pytest.mark.anyio
answer = Event[int]("opening.answer")
on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])


@workflow(name="opening.wait")
def wait_for_answer() -> Durable[int]:
    """Wait for a number."""
    return (yield from answer.wait())


def coordinators() -> set[threading.Thread]:
    """The threads of all engines that are open or did not come back."""
    return {thread for thread in threading.enumerate() if thread.name == "durable-coordinator"}


async def ended(threads: set[threading.Thread]) -> bool:
    """Whether these threads end."""
    for thread in threads:
        await anyio.to_thread.run_sync(thread.join, SOON)
    return not any(thread.is_alive() for thread in threads)


class SlowToOpen(SqliteBackend):
    """A store whose opening waits for the test."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.begun, self.may_open = threading.Event(), threading.Event()

    def open(self, incarnation: str) -> Opened:
        """Wait, then open."""
        self.begun.set()
        self.may_open.wait(SOON)
        return super().open(incarnation)


async def test_call_after_the_coordinators_end_is_answered() -> None:
    """A call made after the thread died, but before the loop noticed, gets the reason."""
    before = coordinators()
    backend = FaultyBackend(MemoryBackend())
    async with WorkflowEngine(backend) as engine:
        (thread,) = coordinators() - before

        async def start() -> None:
            with pytest.raises(StorageUnavailable):
                await engine.start(wait_for_answer())

        backend.plan = {backend.commits + 1: Fault.CRASH_BEFORE}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(start)
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
            # The loop is busy while the coordinator dies.
            thread.join(SOON)
            assert not thread.is_alive()
            with anyio.fail_after(SOON), pytest.raises(StorageUnavailable):
                await engine.query_status("x")


@on_asyncio
async def test_native_cancel_while_opening_frees_the_store(file: Path) -> None:
    """asyncio's own cancel(), as by asyncio.timeout, during the opening leaves no thread that holds the store."""
    before = coordinators()
    backend = SlowToOpen(file)

    async def serve() -> None:
        async with WorkflowEngine(backend):
            await anyio.sleep_forever()

    task = asyncio.create_task(serve())
    assert await anyio.to_thread.run_sync(backend.begun.wait, SOON)
    threads = coordinators() - before
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    backend.may_open.set()
    assert await ended(threads)
    async with WorkflowEngine(file) as engine:
        assert await engine.query_status("x") is None


@on_asyncio
async def test_native_cancel_while_draining_frees_the_store(file: Path) -> None:
    """A second cancel() while activities may finish leaves no thread that holds the store."""
    before = coordinators()
    begun = anyio.Event()

    @activity
    async def endless() -> None:
        begun.set()
        await anyio.sleep_forever()

    @workflow(name="opening.drained")
    def body() -> Durable[None]:
        yield from endless()

    async def serve(engine: WorkflowEngine) -> None:
        async with engine:
            await engine.start(body())
            await anyio.sleep_forever()

    engine = WorkflowEngine(file)
    task = asyncio.create_task(serve(engine))
    with anyio.fail_after(SOON):
        await begun.wait()
        threads = coordinators() - before
        task.cancel()
        await refusing(engine)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await ended(threads)
    async with WorkflowEngine(file) as engine:
        assert await engine.query_status("x") is None


async def test_two_tasks_that_enter_one_engine(store: Store) -> None:
    """If two tasks enter one engine at once, one is refused, and the other works and leaves."""
    engine = WorkflowEngine(store)
    refused = anyio.Event()
    outcomes: list[str] = []

    async def enter() -> None:
        try:
            async with engine:
                await refused.wait()
                assert await engine.query_status("x") is None
                outcomes.append("worked")
        except OperationMisused:
            outcomes.append("refused")
            refused.set()

    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(enter)
            tasks.start_soon(enter)
    assert outcomes == ["refused", "worked"]


async def test_engine_without_a_watchdog_does_not_open(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the watchdog's thread cannot be started, the caller gets the error and the store is free."""

    def no_threads(self: Watchdog) -> None:
        raise RuntimeError("can't start new thread")

    engine = WorkflowEngine(store)
    with anyio.fail_after(SOON):
        with monkeypatch.context() as patch:
            patch.setattr(Watchdog, "start", no_threads)
            with pytest.raises((RuntimeError, ExceptionGroup)):
                async with engine:
                    pass
        async with engine:
            assert await engine.query_status("x") is None


async def test_stuck_body_does_not_hold_up_the_leaving() -> None:
    """An engine with a stuck body is left as soon as the shutdown gives up on the body."""
    before = coordinators()
    entered, left = threading.Event(), threading.Event()
    was_left: list[bool] = []

    @workflow(name="opening.stuck")
    def body() -> Durable[None]:
        entered.set()
        was_left.append(left.wait(SOON))
        yield from sleep(0)

    async with WorkflowEngine("memory://") as engine, anyio.create_task_group() as tasks:
        threads = coordinators() - before
        tasks.start_soon(engine.start, body())
        assert await anyio.to_thread.run_sync(entered.wait, SOON)
        await engine.shutdown(drain=0)
        tasks.cancel_scope.cancel()
    left.set()
    assert await ended(threads)
    assert was_left == [True]


async def test_workflow_that_is_defined_after_the_engine_is_known(file: Path, anyio_backend_name: str) -> None:
    """An engine knows the workflows that were imported after it was made and before it was opened."""
    late = WorkflowEngine(file)

    def body() -> Durable[int]:
        return (yield from answer.wait())

    # As if a module had been imported: a definition inside a function is not registered by itself.
    body.__qualname__ = "body"
    defined = workflow(name=f"opening.late-{anyio_backend_name}")(body)
    async with WorkflowEngine(file) as engine:
        await engine.start(defined(), id="a")
    async with late as engine:
        await engine.send_event(answer, 7, to="a")
        assert await engine.handle("a").result(timeout=SOON) == 7


async def test_callers_without_room_are_told_at_a_shutdown() -> None:
    """A caller waiting for room in the inbox gets `EngineClosed` when the engine closes."""
    outcomes: list[str] = []

    async def start(engine: WorkflowEngine, number: int) -> None:
        try:
            await engine.start(wait_for_answer(), id=f"w{number}")
            outcomes.append("done")
        except EngineClosed:
            outcomes.append("closed")

    with anyio.fail_after(SOON):
        config = EngineConfig(max_inbox=1)
        async with WorkflowEngine("memory://", config=config) as engine, anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(start, engine, number)
            await anyio.lowlevel.checkpoint()
            await engine.shutdown()
    assert len(outcomes) == 20


async def test_engine_that_may_not_open_leaves_the_first_one_alone(file: Path) -> None:
    """A second engine on the same backend object is refused, and the first keeps working."""
    backend = SqliteBackend(file)
    async with WorkflowEngine(backend) as engine:
        with pytest.raises((StoreInUse, ExceptionGroup)):
            async with WorkflowEngine(backend):
                pass
        assert await engine.query_status("a") is None


async def test_engine_that_is_open_cannot_be_opened_again(file: Path) -> None:
    """Entering an open engine is refused, and it keeps working."""
    with anyio.fail_after(SOON):
        async with WorkflowEngine(file) as engine:
            with pytest.raises((DurableError, ExceptionGroup)):
                async with engine:
                    pass
            assert await engine.query_status("a") is None

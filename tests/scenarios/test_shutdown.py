"""Opening and closing an engine: before, during, twice and after; and stores that break or are in use."""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import anyio.from_thread
import pytest

from durable import (
    Durable,
    EngineClosed,
    EngineConfig,
    Event,
    StorageUnavailable,
    StoreInUse,
    WorkflowEngine,
    WorkflowStatus,
    activity,
    workflow,
)
from durable.backends.memory import MemoryBackend
from durable.testing.clock import ManualClock
from durable.testing.faults import Fault, FaultyBackend
from tests.scenarios.kit import SOON, Store

pytestmark = pytest.mark.anyio
answer = Event[int]("shutdown-answer")


@activity
async def endless() -> None:
    """Never ends by itself."""
    await anyio.sleep_forever()


@workflow(name="shutdown-endless")
def run_endless() -> Durable[None]:
    """Run it."""
    yield from endless()


@workflow(name="shutdown-wait")
def wait_for_answer() -> Durable[int]:
    """Wait for a number."""
    return (yield from answer.wait())


CALLS: dict[str, Callable[[WorkflowEngine], Awaitable[object]]] = {
    "start": lambda engine: engine.start(wait_for_answer()),
    "send_event": lambda engine: engine.send_event(answer, 1),
    "query_status": lambda engine: engine.query_status("a"),
    "query_result": lambda engine: engine.query_result("a"),
    "cancel": lambda engine: engine.cancel("a"),
    "terminate": lambda engine: engine.terminate("a"),
    "recover": lambda engine: engine.recover(),
    "result": lambda engine: engine.handle("a").result(),
    "status": lambda engine: engine.handle("a").status(),
    "list": lambda engine: engine.runs.list(),
    "purge": lambda engine: engine.runs.purge(1),
    "letters": lambda engine: engine.dead_letters.list(),
}


@pytest.mark.parametrize("name", CALLS)
async def test_engine_is_usable_only_while_it_is_open(name: str) -> None:
    """Every call before `async with` and after it raises `EngineClosed` and says what to do."""
    engine = WorkflowEngine("memory://")
    with pytest.raises(EngineClosed, match="not open yet"):
        await CALLS[name](engine)
    async with engine:
        pass
    with pytest.raises(EngineClosed, match="async with"):
        await CALLS[name](engine)
    await engine.shutdown()


async def test_shutdown_lets_a_running_activity_finish(store: Store) -> None:
    """An activity that ends within the drain is recorded, and the next engine does not run it again."""
    started, gate, runs = anyio.Event(), anyio.Event(), list[int]()

    @activity
    async def work() -> int:
        runs.append(1)
        started.set()
        await gate.wait()
        return 7

    @workflow(name="drained")
    def body() -> Durable[int]:
        number = yield from work()
        return number + (yield from answer.wait())

    async with WorkflowEngine(store, workflows=[body]) as engine:
        await engine.start(body(), id="a")
        await started.wait()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(engine.shutdown, 20)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(EngineClosed):
                await engine.query_status("a")
            gate.set()
    async with WorkflowEngine(store, workflows=[body]) as engine:
        await engine.send_event(answer, 1, to="a")
        assert await engine.handle("a").result(timeout=SOON) == 8
    assert runs == [1]


async def test_shutdown_starts_nothing_new(store: Store) -> None:
    """An activity that is due while the engine drains is left to the next engine."""
    started, gate, runs = anyio.Event(), anyio.Event(), list[str]()

    @activity
    async def work(name: str) -> str:
        runs.append(name)
        started.set()
        await gate.wait()
        return name

    @workflow(name="two-steps")
    def body() -> Durable[str]:
        first = yield from work("first")
        return first + " " + (yield from work("second"))

    async with WorkflowEngine(store, workflows=[body]) as engine:
        await engine.start(body(), id="a")
        await started.wait()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(engine.shutdown)
            await anyio.wait_all_tasks_blocked()
            gate.set()
        assert runs == ["first"]
    async with WorkflowEngine(store, workflows=[body]) as engine:
        assert await engine.handle("a").result(timeout=SOON) == "first second"
    assert runs == ["first", "second"]


@pytest.mark.parametrize("is_async", [True, False], ids=["async def", "def"])
async def test_activities_that_are_cut_off_run_again(store: Store, is_async: bool) -> None:
    """With `drain=0` an activity that does not end is abandoned, in a task or a thread, and runs again later."""
    started, gate, runs = anyio.Event(), threading.Event(), list[int]()

    async def endless() -> int:
        runs.append(1)
        if len(runs) == 1:
            started.set()
            await anyio.sleep_forever()
        return 7

    def stubborn() -> int:
        runs.append(1)
        if len(runs) == 1:
            anyio.from_thread.run_sync(started.set)
            gate.wait()
        return 7

    @workflow(name="cut-off")
    def body() -> Durable[int]:
        return (yield from (activity(endless)() if is_async else activity(stubborn)()))

    try:
        async with WorkflowEngine(store, workflows=[body]) as engine:
            await engine.start(body(), id="a")
            await started.wait()
            await engine.shutdown(drain=0)
        async with WorkflowEngine(store, workflows=[body]) as engine:
            assert await engine.handle("a").result(timeout=SOON) == 7
    finally:
        gate.set()
    assert runs == [1, 1]


async def test_shutdown_twice_is_harmless(store: Store) -> None:
    """A second shutdown, during the first or later, returns; so does leaving the block."""
    async with WorkflowEngine(store) as engine:
        await engine.start(wait_for_answer(), id="a")
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(engine.shutdown)
        await engine.shutdown(drain=0)
        with pytest.raises(ValueError):
            await engine.shutdown(drain=-1)
    async with WorkflowEngine(store) as engine:
        assert await engine.query_status("a") is WorkflowStatus.SUSPENDED


async def test_those_who_wait_for_a_result_are_told(store: Store) -> None:
    """All callers that wait for a result when the engine closes get `EngineClosed`."""
    refused: list[int] = []

    async def wait(engine: WorkflowEngine) -> None:
        with pytest.raises(EngineClosed):
            await engine.handle("a").result(timeout=SOON)
        refused.append(1)

    async with WorkflowEngine(store) as engine:
        await engine.start(wait_for_answer(), id="a")
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(wait, engine)
            await anyio.wait_all_tasks_blocked()
            await engine.shutdown()
    assert refused == [1] * 10


async def test_queued_operations_are_done_or_refused(store: Store) -> None:
    """Every call in progress at a shutdown is answered: acknowledged calls are stored, the others get an error."""
    done: list[str] = []
    refused: list[str] = []

    async def start(engine: WorkflowEngine, id: str) -> None:
        try:
            await engine.start(wait_for_answer(), id=id)
            done.append(id)
        except EngineClosed:
            refused.append(id)

    async with WorkflowEngine(store) as engine, anyio.create_task_group() as tasks:
        for number in range(200):
            tasks.start_soon(start, engine, f"w{number}")
        await anyio.lowlevel.checkpoint()
        await engine.shutdown()
    assert len(done) + len(refused) == 200
    async with WorkflowEngine(store) as engine:
        for id in done:
            assert await engine.query_status(id) is WorkflowStatus.SUSPENDED


async def test_engine_can_be_opened_again(file: Path) -> None:
    """After a shutdown the same engine object may be opened again and finds its work."""
    engine = WorkflowEngine(file)
    async with engine:
        await engine.start(wait_for_answer(), id="a")
    async with engine:
        await engine.send_event(answer, 3, to="a")
        assert await engine.handle("a").result(timeout=SOON) == 3


async def test_second_engine_on_a_file_is_refused(file: Path) -> None:
    """The second engine gets `StoreInUse`, the first one does not notice, and then the file is free."""
    async with WorkflowEngine(file) as engine:
        await engine.start(wait_for_answer(), id="a")
        with pytest.raises(StoreInUse, match="only one engine may use a file"):
            async with WorkflowEngine(file):
                pass
        await engine.send_event(answer, 3, to="a")
        assert await engine.handle("a").result(timeout=SOON) == 3
    async with WorkflowEngine(file) as engine:
        assert await engine.query_result("a") == 3


async def test_store_that_stays_broken_stops_the_engine(caplog: pytest.LogCaptureFixture) -> None:
    """The current call, waiting calls and all later ones get `StorageUnavailable`; the block still ends."""
    backend = FaultyBackend(MemoryBackend())
    waited: list[int] = []

    async def wait(engine: WorkflowEngine) -> None:
        with pytest.raises(StorageUnavailable):
            await engine.handle("a").result(timeout=SOON)
        waited.append(1)

    async with WorkflowEngine(backend, clock=ManualClock()) as engine:
        await engine.start(wait_for_answer(), id="a")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait, engine)
            await anyio.wait_all_tasks_blocked()
            backend.plan = dict.fromkeys(range(1, 100_000), Fault.FAIL_BEFORE)
            with pytest.raises(StorageUnavailable):
                await engine.start(wait_for_answer(), id="b")
        for call in CALLS.values():
            with pytest.raises(StorageUnavailable):
                await call(engine)
    assert waited == [1]
    assert any(record.levelno == logging.CRITICAL for record in caplog.records)
    async with WorkflowEngine(backend.inner) as engine:
        assert await engine.query_status("b") is None
        await engine.send_event(answer, 3, to="a")
        assert await engine.handle("a").result(timeout=SOON) == 3


@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.FAIL_AFTER])
async def test_store_that_comes_back_loses_and_doubles_nothing(fault: Fault) -> None:
    """Commits that fail for a while, stored or not, are repeated; callers only wait longer."""
    backend = FaultyBackend(MemoryBackend(), dict.fromkeys(range(2, 40, 3), fault))
    runs: list[int] = []

    @activity
    async def work(number: int) -> int:
        runs.append(number)
        return number + 1

    @workflow(name="faulty-store")
    def body() -> Durable[int]:
        number = 0
        for _ in range(10):
            number = yield from work(number)
        return number

    config = EngineConfig(commit_patience=1000)
    async with WorkflowEngine(backend, workflows=[body], clock=ManualClock(), config=config) as engine:
        assert await (await engine.start(body(), id="a")).result(timeout=SOON) == 10
        assert len(await engine.runs.history("a")) == 10
    assert runs == list(range(10))


async def test_block_ends_though_the_store_is_broken_and_activities_run() -> None:
    """Running activities are cut off when the store is lost, so that `async with` ends."""
    backend = FaultyBackend(MemoryBackend())
    config = EngineConfig(commit_patience=0, drain=0.1)
    with anyio.fail_after(SOON):
        async with WorkflowEngine(backend, clock=ManualClock(), config=config) as engine:
            await engine.start(run_endless(), id="a")
            backend.plan = dict.fromkeys(range(1, 10_000), Fault.FAIL_BEFORE)
            with pytest.raises(StorageUnavailable):
                await engine.start(wait_for_answer())


async def test_cancelled_scope_around_an_engine_does_not_hold_it_up(caplog: pytest.LogCaptureFixture) -> None:
    """An engine inside a cancelled scope leaves immediately, and does not report a hanging coordinator."""
    with anyio.fail_after(SOON), anyio.CancelScope() as scope:
        async with WorkflowEngine("memory://", config=EngineConfig(drain=25)) as engine:
            await engine.start(wait_for_answer())
            scope.cancel()
            await anyio.sleep_forever()
    assert not caplog.records


async def test_error_in_the_block_comes_out_as_it_is() -> None:
    """An error raised inside `async with` is not wrapped in an exception group."""
    with pytest.raises(KeyError):
        async with WorkflowEngine("memory://"):
            raise KeyError("mine")

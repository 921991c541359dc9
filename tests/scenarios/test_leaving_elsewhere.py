"""Leaving an engine in another task than the one that entered it, or while that task is cancelled."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from pathlib import Path

import anyio
import pytest

from durable import Durable, EngineClosed, EngineConfig, Event, OperationMisused, WorkflowEngine, activity, workflow
from durable.engine.host.activities import ActivityPool
from tests.scenarios.kit import SOON, refusing

pytestmark = pytest.mark.anyio
on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])
answer = Event[int]("elsewhere.answer")
request_id = ContextVar("request_id", default="none")
begun: list[anyio.Event] = []


@activity(name="elsewhere.request")
async def read_request() -> str:
    """Read the context variable `request_id`."""
    return request_id.get()


@activity(name="elsewhere.endless")
async def endless() -> None:
    """Never ends by itself."""
    begun[-1].set()
    await anyio.sleep_forever()


@workflow(name="elsewhere.wait")
def wait_for_answer() -> Durable[int]:
    """Wait for a number."""
    return (yield from answer.wait())


@workflow(name="elsewhere.context")
def ask_context() -> Durable[str]:
    """Look at the context."""
    return (yield from read_request())


@workflow(name="elsewhere.work")
def work() -> Durable[None]:
    """Work without end."""
    yield from endless()


@on_asyncio
async def test_engine_left_in_another_task_is_closed(file: Path) -> None:
    """One task opens the engine, another uses it and a third closes it; then the store is free."""
    engine = WorkflowEngine(file)
    await asyncio.create_task(engine.__aenter__())

    async def use() -> int:
        handle = await engine.start(wait_for_answer(), id="a")
        await engine.send_event(answer, 3, to="a")
        return await handle.result(timeout=SOON)

    assert await asyncio.create_task(use()) == 3
    assert await asyncio.create_task(engine.__aexit__(None, None, None)) is None
    with pytest.raises(EngineClosed):
        await engine.query_status("a")
    async with WorkflowEngine(file) as other:
        assert await other.query_result("a") == 3


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_trio_says_that_the_task_is_the_wrong_one(file: Path) -> None:
    """If a task group cannot change hands, the error says what to do, and the right task can still leave."""
    engine = WorkflowEngine(file)
    async with engine:

        async def leave() -> None:
            with pytest.raises(OperationMisused, match=r"another task.*shutdown\(\)"):
                await engine.__aexit__(None, None, None)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leave)
        assert await engine.query_status("a") is None
    async with engine:
        assert await engine.query_status("a") is None


async def test_activities_see_the_context_in_which_the_engine_was_entered() -> None:
    """Context variables of the block reach activities; those that a caller of `start` sets do not."""
    request_id.set("service")
    async with WorkflowEngine("memory://") as engine:
        request_id.set("caller")
        assert await (await engine.start(ask_context())).result(timeout=SOON) == "service"


@pytest.mark.parametrize("cancels", [1, 2, 3])
@on_asyncio
async def test_store_is_free_right_after_a_cancelled_exit(file: Path, cancels: int) -> None:
    """However often the leaving task is cancelled, the engine can be opened again as soon as it has ended."""
    begun.append(anyio.Event())
    engine = WorkflowEngine(file, config=EngineConfig(drain=0.2 if cancels == 1 else 20))

    async def serve() -> None:
        async with engine:
            await engine.start(work(), id="a")
            await anyio.sleep_forever()

    task = asyncio.create_task(serve())
    with anyio.fail_after(SOON):
        await begun[-1].wait()
        task.cancel()
        await refusing(engine)
        for _ in range(cancels - 1):
            task.cancel()
            await anyio.lowlevel.checkpoint()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with WorkflowEngine(file, config=EngineConfig(drain=0)):
        pass
    async with engine:
        await engine.shutdown(drain=0)


async def test_scope_cancelled_around_the_block_cuts_off_activities(file: Path) -> None:
    """A cancelled scope does not wait for the drain, and leaves the store free."""
    begun.append(anyio.Event())
    with anyio.fail_after(SOON), anyio.CancelScope() as scope:
        async with WorkflowEngine(file, config=EngineConfig(drain=25)) as engine:
            await engine.start(work(), id="a")
            await begun[-1].wait()
            scope.cancel()
            await anyio.sleep_forever()
    async with WorkflowEngine(file, config=EngineConfig(drain=0)):
        pass


async def test_failure_of_an_engine_task_ends_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in a task of the engine interrupts the block, and leaves it as the same error."""

    async def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    async def serve() -> None:
        async with WorkflowEngine("memory://") as engine:
            monkeypatch.setattr(ActivityPool, "_run", fail)
            await engine.start(ask_context())
            await anyio.sleep_forever()

    with anyio.fail_after(SOON), pytest.raises(ZeroDivisionError, match="a bug"):
        await serve()
    # Nothing of the interruption is left.
    await anyio.lowlevel.checkpoint()
    if issubclass(anyio.get_cancelled_exc_class(), asyncio.CancelledError):
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0


@on_asyncio
async def test_failure_of_an_engine_task_reaches_the_task_that_leaves(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If the task that opened the engine is gone, the bug is logged, calls are refused and the exit raises it."""

    async def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    engine = WorkflowEngine("memory://")
    await asyncio.create_task(engine.__aenter__())
    monkeypatch.setattr(ActivityPool, "_run", fail)
    handle = await engine.start(ask_context())
    with pytest.raises(EngineClosed):
        await handle.result(timeout=SOON)
    with anyio.fail_after(SOON):
        while not caplog.records:
            await anyio.lowlevel.checkpoint()
    assert "one of its tasks failed" in caplog.text
    with pytest.raises(ZeroDivisionError, match="a bug"):
        await engine.__aexit__(None, None, None)


@activity(name="elsewhere.once_endless")
async def once_endless() -> int:
    """Does not end in the first life of the service."""
    if not begun[-1].is_set():
        begun[-1].set()
        await anyio.sleep_forever()
    return 7


@workflow(name="elsewhere.repeated")
def repeated() -> Durable[int]:
    """One step."""
    return (yield from once_endless())


@pytest.mark.parametrize("is_left", [True, False], ids=["in a task", "never left"])
def test_end_of_the_loop_fails_no_activity(tmp_path: Path, is_left: bool) -> None:
    """asyncio cancels every task when its loop ends. Activities that ran then have not failed: they run again."""
    begun.append(anyio.Event())

    async def serve() -> None:
        async with WorkflowEngine(tmp_path / "store.db") as engine:
            await engine.start(repeated(), id="w")
            await anyio.sleep_forever()

    async def main() -> WorkflowEngine | None:
        begun[-1] = anyio.Event()
        engine = None
        if is_left:
            background.append(asyncio.create_task(serve()))
        else:
            engine = await WorkflowEngine(tmp_path / "store.db").__aenter__()
            await engine.start(repeated(), id="w")
        await begun[-1].wait()
        return engine

    async def again() -> int:
        async with WorkflowEngine(tmp_path / "store.db") as engine:
            return await engine.handle("w", repeated).result(timeout=SOON)

    background: list[asyncio.Task[None]] = []
    kept = asyncio.run(main())
    assert asyncio.run(again()) == 7
    del kept

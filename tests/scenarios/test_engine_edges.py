"""The edges of an engine: shutdown, broken and shared stores, bad inputs, purge, recovery."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from durable import (
    Durable,
    DurableError,
    EngineClosed,
    EngineConfig,
    Event,
    Retry,
    RetryAfter,
    StoreInUse,
    WorkflowEngine,
    WorkflowFailed,
    WorkflowStatus,
    activity,
    gather,
    sleep,
    workflow,
)
from durable.backends.sqlite import SqliteBackend
from durable.testing.clock import ManualClock
from tests.scenarios.kit import SOON, contents

pytestmark = pytest.mark.anyio
answer = Event[int]("edges-answer")


@workflow(name="edges-wait")
def wait_for_answer() -> Durable[int]:
    """Wait for a number."""
    return (yield from answer.wait())


@activity
async def endless() -> None:
    """Never ends by itself."""
    await anyio.sleep_forever()


@workflow(name="edges-endless")
def run_endless() -> Durable[None]:
    """Run it."""
    yield from endless()


@workflow(name="edges-quick")
def quick(number: int) -> Durable[int]:
    """Nothing to wait for."""
    yield from sleep(0)
    return number


async def test_callers_without_room_are_told_at_a_shutdown() -> None:
    """A caller that waits for room in the inbox gets `EngineClosed` when the engine closes meanwhile."""
    told: list[str] = []

    async def start(engine: WorkflowEngine, number: int) -> None:
        try:
            await engine.start(wait_for_answer(), id=f"w{number}")
            told.append("done")
        except EngineClosed:
            told.append("closed")

    with anyio.fail_after(SOON):
        config = EngineConfig(max_inbox=1)
        async with WorkflowEngine("memory://", config=config) as engine, anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(start, engine, number)
            await anyio.lowlevel.checkpoint()
            await engine.shutdown()
    assert len(told) == 20


async def test_engine_that_may_not_open_leaves_the_first_one_alone(file: Path) -> None:
    """A second engine on the same backend object is refused, and the first goes on."""
    backend = SqliteBackend(file)
    async with WorkflowEngine(backend) as engine:
        with pytest.raises((StoreInUse, ExceptionGroup)):
            async with WorkflowEngine(backend):
                pass
        assert await engine.query_status("a") is None


async def test_engine_that_is_open_cannot_be_opened_again(file: Path) -> None:
    """Entering an open engine is refused, and it goes on."""
    with anyio.fail_after(SOON):
        async with WorkflowEngine(file) as engine:
            with pytest.raises((DurableError, ExceptionGroup)):
                async with engine:
                    pass
            assert await engine.query_status("a") is None


@pytest.mark.parametrize("delay", [-1, float("nan"), "5", timedelta.max, timedelta(days=365 * 7990)])
async def test_senseless_retry_after_fails_the_activity(delay: Any) -> None:
    """A delay that makes no sense is a failure of the activity, and the workflow does not hang."""

    @activity(retry=Retry(max_attempts=2))
    async def confused() -> None:
        raise RetryAfter(delay)

    @workflow(name="retry-after")
    def body() -> Durable[None]:
        yield from confused()

    async with WorkflowEngine("memory://") as engine:
        handle = await engine.start(body(), id="a")
        with pytest.raises(WorkflowFailed):
            await handle.result(timeout=2)
        await engine.runs.describe("a")


@pytest.mark.parametrize("reason", [object(), b"x", "\ud800", "x" * 2000])
async def test_handle_refuses_a_bad_reason(file: Path, reason: Any) -> None:
    """`handle.cancel` checks its reason like `engine.cancel`, and the engine lives."""
    async with WorkflowEngine(file) as engine:
        handle = await engine.start(wait_for_answer(), id="a")
        before = contents(file)
        with pytest.raises((TypeError, ValueError)):
            await handle.cancel(reason=reason)
        assert await handle.status() is WorkflowStatus.SUSPENDED
        assert contents(file) == before


@pytest.mark.parametrize("letter", [[1], "x", b"x", 2**70, None, 1.5, True])
async def test_dead_letters_refuse_a_bad_id(file: Path, letter: Any) -> None:
    """What is no id of a letter is refused, and the engine lives."""
    async with WorkflowEngine(file) as engine:
        for use in (engine.dead_letters.remove, engine.dead_letters.replay):
            with pytest.raises(DurableError) as caught:
                await use(cast(Any, letter))
            assert isinstance(caught.value, TypeError | ValueError | LookupError)
        with pytest.raises(DurableError):
            await engine.dead_letters.list(after=2**70)
        assert await engine.query_status("a") is None


async def test_generator_exit_in_a_thread_fails_the_activity_alone() -> None:
    """A `def` activity that raises GeneratorExit fails like any other (asyncio)."""

    @activity(retry=Retry.never())
    def fails() -> None:
        raise GeneratorExit

    @workflow(name="generator-exit")
    def body() -> Durable[None]:
        yield from fails()

    with anyio.fail_after(SOON):
        async with WorkflowEngine("memory://", config=EngineConfig(drain=1)) as engine:
            with pytest.raises(WorkflowFailed):
                await (await engine.start(body())).result(timeout=5)


async def test_purge_passes_over_children_of_a_living_parent() -> None:
    """Five hundred children that must stay do not keep newer workflows from being purged."""

    @workflow(name="large-family")
    def body() -> Durable[None]:
        yield from gather(answer.wait(), *(quick(number) for number in range(500)))

    clock = ManualClock()
    async with WorkflowEngine("memory://", clock=clock) as engine:
        await engine.start(body(), id="p")
        await engine.start(quick(1), id="old")
        clock.advance(60)
        assert await engine.runs.purge(1) == 1


async def test_recover_again_counts_no_crash_again(file: Path) -> None:
    """Repeated after an unclean stop, recovery blames nobody twice, however few bodies fit in memory."""
    async with WorkflowEngine(file) as engine:
        for number in range(5):
            await engine.start(run_endless(), id=f"w{number}")
        await engine.shutdown(drain=0)
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("UPDATE meta SET clean = 0")
    clock = ManualClock()
    async with WorkflowEngine(file, config=EngineConfig(max_loaded_workflows=1), clock=clock) as engine:
        for number in range(20):
            await engine.start(quick(number))
            await engine.recover()
            clock.advance(6)
        assert await engine.runs.count(status=WorkflowStatus.PARKED) == 0
        with closing(sqlite3.connect(file)) as connection:
            assert connection.execute("SELECT max(crashes) FROM workflow").fetchone() == (0,)
        await engine.shutdown(drain=0)


async def test_looking_at_workflows_keeps_memory_bounded(file: Path) -> None:
    """Bodies that were rebuilt only to be looked at are let go of like all others."""
    async with WorkflowEngine(file) as engine:
        for number in range(50):
            await engine.start(wait_for_answer(), id=f"w{number}")
    async with WorkflowEngine(file, config=EngineConfig(max_loaded_workflows=2)) as engine:
        for number in range(50):
            await engine.runs.describe(f"w{number}")
        coordinator = engine._core.check_open().coordinator
        assert len(coordinator.state.loaded) <= 3

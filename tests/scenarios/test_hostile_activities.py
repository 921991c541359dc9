"""Activities that raise unusual things, or that do not stop when they are cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import anyio
import anyio.from_thread
import pytest
import trio

from durable import (
    ActivityFailed,
    Durable,
    EngineConfig,
    Retry,
    WorkflowEngine,
    WorkflowFailed,
    WorkflowStatus,
    activity,
    call,
    workflow,
)
from tests.scenarios.kit import SOON

pytestmark = pytest.mark.anyio


class Silent(Exception):
    """Refuses to be shown, copied or taken apart."""

    def __str__(self) -> NoReturn:
        raise RuntimeError("no text")

    def __repr__(self) -> NoReturn:
        raise RuntimeError("no repr")

    def __reduce__(self) -> NoReturn:
        raise RuntimeError("no copy")


class Rude(BaseException):
    """Not an Exception at all."""


ERRORS: dict[str, Callable[[], BaseException]] = {
    "silent": lambda: Silent("secret"),
    "rude": lambda: Rude("odd"),
    "exit": lambda: SystemExit(3),
    "stop": lambda: StopAsyncIteration(1),
    "generator": GeneratorExit,
    "asyncio": lambda: asyncio.CancelledError("mine"),
    "trio": lambda: trio.Cancelled._create(source="unknown"),
    "group": lambda: BaseExceptionGroup("both", [Rude("odd"), ValueError("no")]),
}


@workflow(name="hostile.fine")
def fine() -> Durable[int]:
    """Honest work."""
    return (yield from call(int, "7"))


@pytest.mark.parametrize("is_async", [True, False], ids=["async def", "def"])
@pytest.mark.parametrize("name", ERRORS)
async def test_whatever_is_raised_is_a_failure_of_its_activity(file: Path, name: str, is_async: bool) -> None:
    """On the first run and after a restart the body gets an Exception that names the class, and the engine works on."""

    async def fails_async() -> None:
        raise ERRORS[name]()

    def fails() -> None:
        raise ERRORS[name]()

    @workflow(name="hostile.raises")
    def raises() -> Durable[str]:
        try:
            yield from call(fails_async if is_async else fails, name="fails", retry=Retry.never())
        except Exception as error:
            kind = error.error_type if isinstance(error, ActivityFailed) else type(error).__qualname__
            return str(kind).rpartition(".")[2]
        return "nothing"

    async with WorkflowEngine(file, workflows=[raises, fine]) as engine:
        seen = await (await engine.start(raises(), id="a")).result(timeout=SOON)
        assert seen == type(ERRORS[name]()).__name__
        assert await (await engine.start(fine())).result(timeout=SOON) == 7
    async with WorkflowEngine(file, workflows=[raises, fine]) as engine:
        assert await engine.handle("a").result(timeout=SOON) == seen


async def test_async_activity_that_ignores_its_cancellation(file: Path) -> None:
    """The workflow is cancelled immediately and `shutdown` returns; only leaving the block waits for the activity."""
    began, gate = anyio.Event(), anyio.Event()

    @activity(timeout=0.01)
    async def deaf() -> None:
        with anyio.CancelScope(shield=True):
            began.set()
            await gate.wait()

    @workflow(name="hostile.deaf")
    def body() -> Durable[None]:
        yield from deaf()

    async with WorkflowEngine(file, workflows=[body, fine], config=EngineConfig(drain=0)) as engine:
        await engine.start(body(), id="a")
        await began.wait()
        assert await (await engine.start(fine())).result(timeout=SOON) == 7
        assert await engine.cancel("a")
        assert await engine.query_status("a") is WorkflowStatus.CANCELLED
        await engine.shutdown()
        async with WorkflowEngine(file, workflows=[body, fine]) as other:
            assert await other.query_status("a") is WorkflowStatus.CANCELLED
        gate.set()


async def test_threads_that_never_come_back(file: Path) -> None:
    """Each is abandoned at its timeout and recorded as timed out; others get a turn, and the engine can be left."""
    gate = threading.Event()
    runs: list[int] = []

    @activity(timeout=0.05, retry=Retry(max_attempts=2, first_delay=0))
    def stuck(number: int) -> None:
        runs.append(number)
        gate.wait()

    @workflow(name="hostile.stuck")
    def body(number: int) -> Durable[None]:
        yield from stuck(number)

    try:
        config = EngineConfig(max_threads=2, drain=0)
        async with WorkflowEngine(file, workflows=[body, fine], config=config) as engine:
            handles = [await engine.start(body(number)) for number in range(5)]
            for handle in handles:
                with pytest.raises(WorkflowFailed, match="ActivityTimedOut"):
                    await handle.result(timeout=SOON)
            assert await (await engine.start(fine())).result(timeout=SOON) == 7
    finally:
        gate.set()
    assert sorted(runs) == sorted([*range(5)] * 2)

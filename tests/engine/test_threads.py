"""Threads for plain activities: what code in them can rely on, and when they end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.from_thread
import pytest

from durable.engine.host.threads import DaemonThreads, make_threads

pytestmark = pytest.mark.anyio
SOON = 10.0
word = ContextVar("word", default="none")


async def call(fn: Callable[[], Any]) -> Any:
    """Call a function in a thread."""
    with anyio.CancelScope() as scope:
        return await make_threads().run(fn, scope)


async def test_call_sees_a_copy_of_the_context() -> None:
    """The thread sees the caller's context variables, and what it sets stays in the thread."""

    def look() -> str:
        before = word.get()
        word.set("thread")
        return before

    word.set("caller")
    assert await call(look) == "caller"
    assert word.get() == "caller"


async def test_call_can_reach_the_loop() -> None:
    """`anyio.from_thread` works without a token."""
    here = threading.get_ident()
    assert await call(lambda: anyio.from_thread.run_sync(threading.get_ident)) == here
    assert await call(lambda: anyio.from_thread.run(anyio.lowlevel.checkpoint)) is None


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3)], ids=repr)
async def test_error_of_a_call_comes_back(error: BaseException) -> None:
    """An exception of the call is raised in the loop."""

    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        await call(fail)
    assert caught.value is error


async def test_stop_iteration_becomes_a_runtime_error() -> None:
    """A StopIteration becomes a RuntimeError, because it would end the coroutine that awaits the call."""
    with pytest.raises(RuntimeError, match="StopIteration"):
        await call(lambda: next(iter(())))


async def test_abandoned_call_can_notice() -> None:
    """`anyio.from_thread.check_cancelled` raises in a thread that nobody awaits any longer."""
    begun, abandoned, noticed = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        abandoned.wait(SOON)
        try:
            anyio.from_thread.check_cancelled()
        except BaseException:
            noticed.set()
            raise

    async def abandon(scope: anyio.CancelScope) -> None:
        while not begun.is_set():
            await anyio.lowlevel.checkpoint()
        scope.cancel()

    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as scope:
            tasks.start_soon(abandon, scope)
            await make_threads().run(work, scope)
    abandoned.set()
    while not noticed.is_set():
        await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_threads_are_daemons_that_are_reused_and_end() -> None:
    """Calls in a row share a thread, and `close` ends it, even if it is busy."""
    threads = DaemonThreads()
    with anyio.CancelScope() as scope:
        first = await threads.run(threading.current_thread, scope)
        assert await threads.run(threading.current_thread, scope) is first
        assert first.daemon

        def close_and_name() -> threading.Thread:
            anyio.from_thread.run_sync(threads.close)
            return threading.current_thread()

        assert await threads.run(close_and_name, scope) is first
    await anyio.to_thread.run_sync(first.join, SOON)
    assert not first.is_alive()

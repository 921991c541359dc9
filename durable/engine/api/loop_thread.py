"""An engine in an event loop of its own, in a thread of its own: what `SyncWorkflowEngine` talks to.

Ctrl-C may interrupt the caller between any two lines. So nothing here needs a lock, the thread is a daemon, and whoever
gives up on opening has only to call `close`: the thread then leaves by itself, and the store is free.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import anyio

from durable.engine.api.engine import WorkflowEngine
from durable.errors import EngineClosed, EngineForked, OperationMisused

A = TypeVar("A")


class LoopThread:
    """The thread, its loop, and the calls that are under way in it."""

    def __init__(self, engine: WorkflowEngine) -> None:
        self._engine = engine
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name="durable-loop", daemon=True)
        # Taken by the thread when it begins, or by `close` before that; taking it is atomic.
        self._permits = [True]
        self._opened: Future[None] = Future()
        self._over = threading.Event()
        self._must_leave = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: asyncio.Task[Any] | None = None
        self._left: asyncio.Event | None = None
        self._calls: dict[Future[Any], asyncio.Task[None] | None] = {}
        self._failure: BaseException | None = None

    # --- from any other thread ------------------------------------------------------------------------------------

    def open(self) -> None:
        """Open the engine. Raises what that raises; whatever it raises, `close` must be called."""
        self._thread.start()
        self._opened.result()

    def is_forked(self) -> bool:
        """Whether this is a child of the process that has the thread."""
        return self._pid != os.getpid()

    def close(self) -> None:
        """Shut the engine down and wait for the thread; harmless when repeated, and in a forked process.

        An interrupt meanwhile cuts the drain short. Raises what has made the engine fail.
        """
        if self.is_forked():
            return
        if _take(self._permits):
            # It has not begun, and never will.
            self._over.set()
        try:
            self._leave()
            self._over.wait()
        except BaseException:
            self._leave(at_once=True)
            self._over.wait()
            raise
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def call(self, work: Callable[[], Awaitable[A]]) -> A:
        """Have a coroutine function called in the loop, and wait for its answer."""
        if self.is_forked():
            raise EngineForked(self._pid)
        if threading.current_thread() is self._thread:
            raise OperationMisused(
                "a SyncWorkflowEngine was called from its own event loop, by an 'async def' activity: "
                "make it a 'def' activity, which runs in a thread and may wait"
            )
        answer: Future[A] = Future()
        self._calls[answer] = None
        if self._loop is not None:
            # Without it, or with one that is closed: refused below.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._begin, work, answer)
        if self._over.is_set():
            # The loop has ended, perhaps before it came to this call.
            self._refuse_rest()
        return answer.result()

    def _leave(self, *, at_once: bool = False) -> None:
        self._must_leave = True
        loop, server, left = self._loop, self._server, self._left
        if loop is None or server is None or left is None:
            # Not so far yet: it will look.
            return
        # A cancellation interrupts the opening, and cuts a drain short.
        leave = server.cancel if at_once or not self._opened.done() else left.set
        # It may have ended by itself.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(leave)

    # --- in the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        if not _take(self._permits):
            return
        try:
            anyio.run(self._serve, backend="asyncio")
        except BaseException as error:
            self._fail(error)
        finally:
            self._over.set()
            self._refuse_rest()
            if not self._opened.done():
                self._opened.set_exception(EngineClosed())

    async def _serve(self) -> None:
        self._left = asyncio.Event()
        self._server = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        if self._must_leave:
            return
        try:
            async with self._engine:
                self._opened.set_result(None)
                await self._left.wait()
        except asyncio.CancelledError:
            # It was told to leave at once, and has left.
            return

    def _fail(self, error: BaseException) -> None:
        """Hand an error to whoever opens, or else to whoever closes."""
        if self._opened.done():
            self._failure = error
        else:
            self._opened.set_exception(error)

    def _begin(self, work: Callable[[], Awaitable[A]], answer: Future[A]) -> None:
        self._calls[answer] = asyncio.ensure_future(self._answer(work, answer))

    async def _answer(self, work: Callable[[], Awaitable[A]], answer: Future[A]) -> None:
        try:
            value = await work()
        except asyncio.CancelledError:
            # The loop ends.
            answer.set_exception(EngineClosed())
        except BaseException as error:
            answer.set_exception(error)
        else:
            answer.set_result(value)
        finally:
            self._calls.pop(answer, None)

    def _refuse_rest(self) -> None:
        """The loop has ended: answer the calls that it did not come to. Several threads may do that at once."""
        with contextlib.suppress(KeyError):
            while True:
                answer, _ = self._calls.popitem()
                answer.set_exception(EngineClosed())


def _take(permits: list[bool]) -> bool:
    """Take the permit, if it is still there."""
    try:
        return permits.pop()
    except IndexError:
        return False

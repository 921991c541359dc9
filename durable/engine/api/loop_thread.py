"""A thread with an event loop that holds one engine or client open: the sync classes submit their calls to it.

Ctrl-C may interrupt the caller between any two lines. A lock could stay held by an interrupted caller, so there is
none: shared values change by atomic operations of lists and dicts. The thread is a daemon. After an interrupt while
opening, a call of `close` is enough: the thread ends by itself and frees the store.
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

from durable.engine.api.client import WorkflowClient
from durable.errors import EngineClosed, EngineForked, OperationMisused

A = TypeVar("A")


class LoopThread:
    """The thread, its loop, and the calls that run in it. Used for one opening of the engine."""

    def __init__(self, engine: WorkflowClient) -> None:
        self._engine = engine
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name="durable-loop", daemon=True)
        # One permit to run: the thread takes it when it begins, or `close` takes it first. `pop` is atomic.
        self._permits = [True]
        self._opened: Future[None] = Future()
        self._ended = threading.Event()
        self._must_leave = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: asyncio.Task[Any] | None = None
        self._left: asyncio.Event | None = None
        self._calls: dict[Future[Any], asyncio.Task[None] | None] = {}
        self._failure: BaseException | None = None

    # --- from any other thread ------------------------------------------------------------------------------------

    def open(self) -> None:
        """Start the thread, unless another caller has, and wait until the engine is open.

        Raises what opening raises; call `close` in any case.
        """
        try:
            self._thread.start()
        except RuntimeError:
            if self._thread.ident is None:
                # It was not started before: the system has no more threads.
                raise
        self._opened.result()

    def is_forked(self) -> bool:
        """Whether this is a child of the process that has the thread."""
        return self._pid != os.getpid()

    def close(self) -> None:
        """Shut the engine down and wait for the thread. Harmless when repeated and in a forked process.

        An interrupt meanwhile cuts the drain short. Raises the error that made the engine fail, once.
        """
        if self.is_forked():
            return
        if _take(self._permits):
            # The thread has not begun, and without the permit it never will.
            self._ended.set()
        try:
            self._leave()
            self._ended.wait()
        except BaseException:
            self._leave(at_once=True)
            self._ended.wait()
            raise
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def call(self, work: Callable[[], Awaitable[A]]) -> A:
        """Run a coroutine function in the loop and wait for its result. Any thread may call this.

        Raises `EngineClosed` if the loop ends first, `EngineForked` in a child process, and `OperationMisused` in the
        loop's own thread, which would wait for itself.
        """
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
            # A loop that is closed raises RuntimeError: the call is refused below.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._begin, work, answer)
        if self._ended.is_set():
            # The loop may have ended before it began this call.
            self._refuse_remaining()
        return answer.result()

    def _leave(self, *, at_once: bool = False) -> None:
        """Ask the loop to leave the engine; `at_once` without letting activities finish."""
        self._must_leave = True
        loop, server, left = self._loop, self._server, self._left
        if loop is None or server is None or left is None:
            # The loop is not running yet: `_serve` checks `_must_leave` first.
            return
        # Cancelling interrupts the opening, and cuts a drain short. Otherwise the event asks for an orderly end.
        leave = server.cancel if at_once or not self._opened.done() else left.set
        # The loop may have ended by itself.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(leave)

    # --- in the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        """The thread: run the loop until the engine has been left, then refuse the calls that are not answered."""
        if not _take(self._permits):
            return
        try:
            anyio.run(self._serve, backend="asyncio")
        except BaseException as error:
            self._fail(error)
        finally:
            self._ended.set()
            self._refuse_remaining()
            if not self._opened.done():
                self._opened.set_exception(EngineClosed())

    async def _serve(self) -> None:
        """The main task of the loop: hold the engine open until `_leave` asks to leave it."""
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
            # `_leave(at_once=True)`: the engine has been left.
            return

    def _fail(self, error: BaseException) -> None:
        """Pass an error to the call of `open`, or to that of `close` if the engine was open."""
        if self._opened.done():
            self._failure = error
        else:
            self._opened.set_exception(error)

    def _begin(self, work: Callable[[], Awaitable[A]], answer: Future[A]) -> None:
        self._calls[answer] = asyncio.ensure_future(self._answer(work, answer))

    async def _answer(self, work: Callable[[], Awaitable[A]], answer: Future[A]) -> None:
        """Run one call and pass its result or error to the thread that waits for it."""
        try:
            value = await work()
        except asyncio.CancelledError:
            # The loop is ending.
            answer.set_exception(EngineClosed())
        except BaseException as error:
            answer.set_exception(error)
        else:
            answer.set_result(value)
        finally:
            self._calls.pop(answer, None)

    def _refuse_remaining(self) -> None:
        """The loop has ended: refuse the calls it has not answered.

        Several threads may do this at once: `popitem` is atomic, so each call is refused once.
        """
        with contextlib.suppress(KeyError):
            while True:
                answer, _ = self._calls.popitem()
                answer.set_exception(EngineClosed())


def _take(permits: list[bool]) -> bool:
    """Take the permit; False if it is gone."""
    try:
        return permits.pop()
    except IndexError:
        return False

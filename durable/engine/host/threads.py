"""Threads for activities that are plain functions.

A thread cannot be stopped: one whose activity was given up keeps running. It must not keep the process from ending, so
under asyncio activities run in daemon threads made here, because anyio's threads are not daemons. Under trio they are,
so there anyio provides the threads.
"""

from __future__ import annotations

import asyncio
import math
import sys
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any, Protocol

import anyio
import anyio.from_thread
import anyio.to_thread
from anyio.lowlevel import current_token

# Where `anyio.from_thread` looks for the loop of this thread. An internal of anyio: None if a version has moved it.
_threadlocals: Any = vars(anyio.from_thread).get("threadlocals")
_Job = tuple[Context, Callable[[], Any], anyio.CancelScope, "asyncio.Future[Any]"]


class Threads(Protocol):
    """Runs plain functions in threads. All methods are called in the event loop."""

    async def run(self, call: Callable[[], Any], scope: anyio.CancelScope) -> Any:
        """Call it in a thread, in a copy of this context. If `scope` is cancelled, only the wait ends."""
        ...

    def close(self) -> None:
        """Let idle threads end now, and the others when they become idle."""
        ...


def make_threads() -> Threads:
    """The threads for the loop that is running."""
    is_asyncio = issubclass(anyio.get_cancelled_exc_class(), asyncio.CancelledError)
    return DaemonThreads() if is_asyncio and _threadlocals is not None else AnyioThreads()


class AnyioThreads:
    """The threads that anyio keeps."""

    def __init__(self) -> None:
        # The caller limits their number. Its limit leaves out threads that were given up, which anyio's would count.
        self._unlimited = anyio.CapacityLimiter(math.inf)

    async def run(self, call: Callable[[], Any], scope: anyio.CancelScope) -> Any:
        """Call it in a thread."""
        return await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=self._unlimited)

    def close(self) -> None:
        """Nothing to do: anyio ends its threads with the loop."""


class DaemonThreads:
    """Threads that do not keep the process from ending."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._token = current_token()
        self._idle: list[SimpleQueue[_Job | None]] = []
        self._is_closed = False

    async def run(self, call: Callable[[], Any], scope: anyio.CancelScope) -> Any:
        """Call it in a thread."""
        result = self._loop.create_future()
        jobs = self._idle.pop() if self._idle else self._start()
        context = copy_context()
        context.run(_leave_library)
        jobs.put((context, call, scope, result))
        return await result

    def close(self) -> None:
        """Let idle threads end now, and the others when they become idle."""
        self._is_closed = True
        for jobs in self._idle:
            jobs.put(None)
        self._idle.clear()

    def _start(self) -> SimpleQueue[_Job | None]:
        jobs: SimpleQueue[_Job | None] = SimpleQueue()
        threading.Thread(target=self._work, args=(jobs,), name="durable-activity", daemon=True).start()
        return jobs

    def _finish(
        self,
        jobs: SimpleQueue[_Job | None],
        result: asyncio.Future[Any],
        value: Any,
        error: BaseException | None,
    ) -> None:
        """In the loop: keep the thread for the next call, and resolve the future with this one's result or error."""
        if self._is_closed:
            jobs.put(None)
        else:
            self._idle.append(jobs)
        if result.done():
            # The call was given up.
            return
        if error is None:
            result.set_result(value)
        elif isinstance(error, StopIteration):
            # A future refuses StopIteration.
            wrapped = RuntimeError("the activity raised StopIteration")
            wrapped.__cause__ = error
            result.set_exception(wrapped)
        else:
            result.set_exception(error)

    # --- in the thread --------------------------------------------------------------------------------------------

    def _work(self, jobs: SimpleQueue[_Job | None]) -> None:
        _threadlocals.current_token = self._token
        while self._do(jobs):
            pass

    def _do(self, jobs: SimpleQueue[_Job | None]) -> bool:
        """Wait for the next call and make it; False when there are no more.

        A separate function, so that an idle thread holds no reference to the last call or its result.
        """
        job = jobs.get()
        if job is None:
            return False
        context, call, _threadlocals.current_cancel_scope, result = job
        value, error = None, None
        try:
            value = context.run(call)
        except BaseException as raised:
            error = raised
        del _threadlocals.current_cancel_scope
        try:
            self._loop.call_soon_threadsafe(self._finish, jobs, result, value, error)
        except RuntimeError:
            # The loop is closed.
            return False
        finally:
            # The error's traceback refers to this frame: keeping it here would be a reference cycle.
            del error
        return True


def _leave_library() -> None:
    """Clear sniffio's context variable, which was copied from the loop: code in a thread must not see itself on it."""
    if (sniffio := sys.modules.get("sniffio")) is not None:
        sniffio.current_async_library_cvar.set(None)

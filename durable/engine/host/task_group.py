"""Where the engine's own tasks live: a task group, and the task that hosts it.

A task group must be left by the task that entered it. Under asyncio a separate task hosts the group, so an engine may
be opened in one task and closed in another, as test fixtures and wrappers of an application's lifespan do. Trio allows
no task outside a nursery, so there the task that opens the engine hosts the group.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio
import anyio.abc

from durable.errors import OperationMisused

_log = logging.getLogger("durable")
# Shuts the engine down. Running activities get this many seconds; None means as many as the configuration says.
Close = Callable[[float | None], Awaitable[None]]


class Host(Protocol):
    """Hosts the engine's task group."""

    async def open(self) -> anyio.abc.TaskGroup:
        """Enter the group, and return it for the engine's tasks."""
        ...

    def is_cancelled(self) -> bool:
        """Whether the engine's tasks were cancelled from outside, one by one, as asyncio does when its loop ends."""
        ...

    def check_leaving(self) -> None:
        """Raises `OperationMisused` if this task cannot leave the engine."""
        ...

    async def leave(self, error: BaseException | None) -> bool | None:
        """Shut the engine down and wait for its tasks. `error` is the one that ends the `async with` block, if any."""
        ...

    async def abandon(self) -> None:
        """Give the tasks up, in a forked process: what they wait for does not exist there."""
        ...


def make_host(close: Close, hurry: Callable[[], None]) -> Host:
    """The host for the loop that is running."""
    if issubclass(anyio.get_cancelled_exc_class(), asyncio.CancelledError):
        return OwnTask(close, hurry)
    return CallersTask(close)


class CallersTask:
    """Hosts the group in the task that opens the engine."""

    def __init__(self, close: Close) -> None:
        self._close = close
        self._group = anyio.create_task_group()
        self._opened_in = anyio.get_current_task().id

    async def open(self) -> anyio.abc.TaskGroup:
        """Enter the group."""
        return await self._group.__aenter__()

    def is_cancelled(self) -> bool:
        """Never: trio cancels scopes, not tasks."""
        return False

    def check_leaving(self) -> None:
        """Raises `OperationMisused` in any task but the one that opened the engine."""
        if anyio.get_current_task().id != self._opened_in:
            raise OperationMisused(
                "'async with WorkflowEngine(...)' was left in another task than the one that entered it, which trio "
                "does not allow: enter and leave it in one task, or call shutdown() here and leave it there"
            )

    async def leave(self, error: BaseException | None) -> bool | None:
        """Shut down and leave the group."""
        await self._close(None)
        # The caller's error bypasses the group, which would wrap it in an exception group. A cancellation goes through
        # the group, because it may come from the group's own scope.
        try:
            if error is not None and isinstance(error, anyio.get_cancelled_exc_class()):
                return await self._group.__aexit__(type(error), error, error.__traceback__)
            await self._group.__aexit__(None, None, None)
            return None
        except BaseExceptionGroup as group:
            raise _only_error(group) from None

    async def abandon(self) -> None:
        """Cancel the tasks and leave the group."""
        self._group.cancel_scope.cancel()
        await self._group.__aexit__(None, None, None)


class OwnTask:
    """Hosts the group in a separate asyncio task."""

    def __init__(self, close: Close, hurry: Callable[[], None]) -> None:
        self._close = close
        self._hurry = hurry
        self._opened_in = asyncio.current_task()
        self._group = anyio.create_task_group()
        self._is_open = asyncio.Event()
        self._must_leave = asyncio.Event()
        self._has_cancelled = False
        self._failure: BaseException | None = None
        self._task = asyncio.create_task(self._host(), name="durable-engine")

    async def open(self) -> anyio.abc.TaskGroup:
        """Wait until the group is entered."""
        await self._is_open.wait()
        return self._group

    def is_cancelled(self) -> bool:
        """Whether the hosting task was cancelled or has ended."""
        return self._task.cancelling() > 0 or self._task.done()

    def check_leaving(self) -> None:
        """Any task may leave."""

    async def leave(self, error: BaseException | None) -> bool | None:
        """Shut down and wait for the hosting task. A cancellation cuts the drain short; it is raised in the end."""
        self._must_leave.set()
        try:
            await asyncio.wait([self._task])
        except asyncio.CancelledError:
            self._hurry()
            # Wait all the same: when this raises, the store must be free. The loop is here because asyncio's own
            # cancel() gets through the shield.
            with anyio.CancelScope(shield=True):
                while not self._task.done():
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.wait([self._task])
            if self._failure is None:
                raise
        if self._failure is not None:
            if self._has_cancelled and self._opened_in is not None and self._opened_in is asyncio.current_task():
                self._opened_in.uncancel()
            raise self._failure
        return None

    async def abandon(self) -> None:
        """Cancel the tasks without waiting for them: from Python 3.12 on the loop does not run in the child."""
        self._task.cancel()

    async def _host(self) -> None:
        try:
            async with self._group:
                self._is_open.set()
                try:
                    await self._must_leave.wait()
                finally:
                    # Without a call of `leave`, one of the tasks has failed or the loop is ending: no drain then.
                    await self._close(None if self._must_leave.is_set() else 0.0)
        except BaseExceptionGroup as group:
            self._failure = _only_error(group)
            self._report(self._failure)

    def _report(self, failure: BaseException) -> None:
        """Log a failure and cancel the task that opened the engine, which may be waiting for something else."""
        if self._must_leave.is_set() or isinstance(failure, KeyboardInterrupt):
            # `leave` raises it, or it ends the loop anyway.
            return
        _log.critical("the engine has stopped, one of its tasks failed: %r", failure, exc_info=failure)
        if self._opened_in is not None and not self._opened_in.done():
            self._has_cancelled = self._opened_in.cancel("a task of the workflow engine failed")


def _only_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    return group.exceptions[0] if len(group.exceptions) == 1 else group

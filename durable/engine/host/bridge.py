"""From the coordinator thread into the host's event loop, without waiting for it.

anyio knows both loops, but its calls into a loop wait for the answer; the coordinator must go on with the next batch.
So this takes anyio's token for the running loop and uses that loop's own fire-and-forget call, or under asyncio, where
the system has one, a bell.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import sys
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from typing import Any, cast

import anyio
from anyio.lowlevel import current_token

# Something to wait for in the loop, once, and the call that ends the wait, made in the loop as well.
Waiter = tuple[Awaitable[object], Callable[[], None]]


class _Wait:
    """Waits for an event of anyio's."""

    def __init__(self, event: anyio.Event) -> None:
        self._event = event

    def __await__(self) -> Generator[Any, Any, None]:
        return self._event.wait().__await__()


def _resolve(future: asyncio.Future[None]) -> None:
    # Whoever waited may have been cancelled.
    if not future.done():
        future.set_result(None)


class Bell:
    """Rung from any thread, heard in an asyncio loop. An eventfd: the loop's own call goes through a socket pair, which
    takes some ten microseconds more for every batch."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._posted: deque[tuple[Callable[[Any], None], object]] = deque()
        # A semaphore: it is heard once for each time that it was rung, so one call that fails keeps no other waiting.
        self._number = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK | os.EFD_SEMAPHORE)
        self._close = weakref.finalize(self, os.close, self._number)
        # The coordinator may still ring then, and the number would be another file's.
        self._close.atexit = False
        loop.add_reader(self._number, self._heard)

    def ring(self, fn: Callable[[Any], None], argument: object) -> None:
        """Have the loop call `fn(argument)`. Raises `RuntimeError` if it is closed."""
        if self._loop.is_closed():
            raise RuntimeError("the loop is closed")
        self._posted.append((fn, argument))
        os.eventfd_write(self._number, 1)

    def take_down(self) -> None:
        """In the loop, when nobody will ring any more."""
        self._loop.remove_reader(self._number)
        self._close()

    def _heard(self) -> None:
        os.eventfd_read(self._number)
        fn, argument = self._posted.popleft()
        fn(argument)


class LoopBridge:
    """Calls functions in the event loop that was running when it was made."""

    def __init__(self) -> None:
        self._native = native = cast("Any", current_token().native_token)
        self._asyncio: asyncio.AbstractEventLoop | None = None
        self._bell: Bell | None = None
        self._post: Callable[..., object]
        if not isinstance(native, asyncio.AbstractEventLoop):
            self._post = native.run_sync_soon
            return
        self._asyncio = native
        self._post = native.call_soon_threadsafe
        if sys.platform == "linux":
            # There are loops that watch no files, and processes that have no number left for one more.
            with contextlib.suppress(NotImplementedError, OSError):
                self._bell = Bell(native)
                self._post = self._bell.ring

    def post(self, fn: Callable[[Any], None], argument: object) -> bool:
        """Have the loop call `fn(argument)` soon. False if the loop is gone."""
        try:
            self._post(fn, argument)
        except RuntimeError:
            # asyncio: the loop is closed. trio: RunFinishedError, a RuntimeError as well.
            return False
        return True

    def close(self) -> None:
        """In the loop: nobody posts any more."""
        if self._bell is not None:
            self._bell.take_down()

    def is_here(self) -> bool:
        """Whether the caller runs in this loop: an answer that is posted here would never reach another one."""
        try:
            if self._asyncio is not None:
                return asyncio.get_running_loop() is self._asyncio
            return current_token().native_token is self._native
        except RuntimeError:
            # No loop of this kind runs in this thread.
            return False

    def waiter(self) -> Waiter:
        """A one-time wait. Under asyncio a bare future: every call of the engine makes one, an event costs four times
        as much."""
        if self._asyncio is None:
            event = anyio.Event()
            return _Wait(event), event.set
        future: asyncio.Future[None] = self._asyncio.create_future()
        return future, functools.partial(_resolve, future)

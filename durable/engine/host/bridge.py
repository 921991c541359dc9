"""From the coordinator's thread into the host's event loop, without waiting for it.

anyio supports both loops, but its calls into a loop wait for the result, and the coordinator must continue with the
next batch. So this takes anyio's token for the running loop and uses that loop's own fire-and-forget call; under
asyncio on Linux, an eventfd.
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

# Something to await once, and the function that ends the wait. Both are used in the loop.
Waiter = tuple[Awaitable[object], Callable[[], None]]


class _Wait:
    """Makes `await` of an `anyio.Event` wait for it."""

    def __init__(self, event: anyio.Event) -> None:
        self._event = event

    def __await__(self) -> Generator[Any, Any, None]:
        return self._event.wait().__await__()


def _resolve(future: asyncio.Future[None]) -> None:
    # It is done if the task that waited was cancelled.
    if not future.done():
        future.set_result(None)


class Bell:
    """Calls functions in an asyncio loop from any thread, through an eventfd that the loop watches.

    The loop's own `call_soon_threadsafe` goes through a socket pair, which costs some ten microseconds more per batch.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._posted: deque[tuple[Callable[[Any], None], object]] = deque()
        # A semaphore: the loop reads it once per call, so a function that raises does not delay those behind it.
        self._number = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK | os.EFD_SEMAPHORE)
        self._close = weakref.finalize(self, os.close, self._number)
        # Not at exit: the coordinator may still ring, and the number may by then belong to another file.
        self._close.atexit = False
        loop.add_reader(self._number, self._call_next)

    def ring(self, fn: Callable[[Any], None], argument: object) -> None:
        """Have the loop call `fn(argument)`. Raises `RuntimeError` if the loop is closed."""
        if self._loop.is_closed():
            raise RuntimeError("the loop is closed")
        self._posted.append((fn, argument))
        os.eventfd_write(self._number, 1)

    def take_down(self) -> None:
        """Stop watching. Call it in the loop, when no thread will ring again."""
        self._loop.remove_reader(self._number)
        self._close()

    def _call_next(self) -> None:
        os.eventfd_read(self._number)
        fn, argument = self._posted.popleft()
        fn(argument)


class LoopBridge:
    """Calls functions, from any thread, in the event loop that was running when the bridge was made."""

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
            # Some loops cannot watch files, and a process may have no file descriptor left.
            with contextlib.suppress(NotImplementedError, OSError):
                self._bell = Bell(native)
                self._post = self._bell.ring

    def post(self, fn: Callable[[Any], None], argument: object) -> bool:
        """Have the loop call `fn(argument)` soon. Returns False if the loop has ended."""
        try:
            self._post(fn, argument)
        except RuntimeError:
            # asyncio: the loop is closed. trio: RunFinishedError, a RuntimeError as well.
            return False
        return True

    def close(self) -> None:
        """Let go of the eventfd. Call it in the loop, when nothing will be posted again."""
        if self._bell is not None:
            self._bell.take_down()

    def is_here(self) -> bool:
        """Whether the caller runs in this loop. In another it would wait forever: replies are posted to this one."""
        try:
            if self._asyncio is not None:
                return asyncio.get_running_loop() is self._asyncio
            return current_token().native_token is self._native
        except RuntimeError:
            # No event loop runs in this thread.
            return False

    def waiter(self) -> Waiter:
        """Something to await once, and the function that ends the wait.

        Under asyncio a bare future: every call of the engine makes one, and an event costs four times as much.
        """
        if self._asyncio is None:
            event = anyio.Event()
            return _Wait(event), event.set
        future: asyncio.Future[None] = self._asyncio.create_future()
        return future, functools.partial(_resolve, future)

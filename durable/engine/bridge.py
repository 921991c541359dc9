"""From the coordinator thread into the host's event loop, without waiting for it.

anyio knows both loops, but its calls into a loop wait for the answer; the coordinator must go on with the next batch.
So this takes anyio's token for the running loop and uses that loop's own fire-and-forget call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, cast

import anyio
from anyio.lowlevel import current_token


class Waiter(NamedTuple):
    """Something to wait for in the loop, and the call that ends the wait, made in the loop as well."""

    wait: Callable[[], Awaitable[object]]
    wake: Callable[[], None]


class LoopBridge:
    """Calls functions in the event loop that was running when it was made."""

    def __init__(self) -> None:
        self._native = native = cast("Any", current_token().native_token)
        self._asyncio: asyncio.AbstractEventLoop | None = None
        self._post: Callable[..., object]
        if isinstance(native, asyncio.AbstractEventLoop):
            self._asyncio = native
            self._post = native.call_soon_threadsafe
        else:
            self._post = native.run_sync_soon

    def post(self, fn: Callable[[Any], None], argument: object) -> bool:
        """Have the loop call `fn(argument)` soon. False if the loop is gone."""
        try:
            self._post(fn, argument)
        except RuntimeError:
            # asyncio: the loop is closed. trio: RunFinishedError, a RuntimeError as well.
            return False
        return True

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
            return Waiter(event.wait, event.set)
        future: asyncio.Future[None] = self._asyncio.create_future()
        return Waiter(lambda: future, lambda: None if future.done() else future.set_result(None))

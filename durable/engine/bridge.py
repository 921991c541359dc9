"""From the coordinator thread into the host's event loop, without waiting for it.

anyio knows both loops, but its calls into a loop wait for the answer; the coordinator must go on with the next batch.
So this takes anyio's token for the running loop and uses that loop's own fire-and-forget call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from anyio.lowlevel import current_token


class LoopBridge:
    """Calls functions in the event loop that was running when it was made."""

    def __init__(self) -> None:
        native = cast("Any", current_token().native_token)
        # asyncio's loop, or trio's token.
        self._post: Callable[..., object] = getattr(native, "call_soon_threadsafe", None) or native.run_sync_soon

    def post(self, fn: Callable[[Any], None], argument: object) -> bool:
        """Have the loop call `fn(argument)` soon. False if the loop is gone."""
        try:
            self._post(fn, argument)
        except RuntimeError:
            # asyncio: the loop is closed. trio: RunFinishedError, a RuntimeError as well.
            return False
        return True

"""The next timers: a sorted window in memory over the store's index.

The window holds every timer up to its horizon, but for those that were taken out and are in hand. Beyond the horizon
only the store knows; when the window has run empty the coordinator refills it from there on. A million sleeping
workflows therefore cost rows, not memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from sortedcontainers import SortedList

from durable.model.clock import EARLIEST


class TimerWindow:
    """(instant, workflow key) of the timers that fire next."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._timers: SortedList[tuple[int, int]] = SortedList()
        # Timers later than this may be in the store only; None when the window holds all there are.
        self._horizon: tuple[int, int] | None = (EARLIEST, 0)
        # Whether nobody sleeps at all. Other threads may read it, so it is never asked of the list.
        self.is_empty = False

    def register_timer(self, key: int, at: int) -> None:
        """Wake a workflow or schedule at an instant. Harmless when repeated.

        A timer that came due was taken out of the window, so it is registered again if it is still needed.
        """
        timer = (at, key)
        if (self._horizon is not None and timer > self._horizon) or timer in self._timers:
            return
        self._timers.add(timer)
        self.is_empty = False
        if len(self._timers) > 2 * self._size:
            # Twice the size, so that the window is cut once for every `size` timers that come in.
            del self._timers[self._size :]
            self._horizon = self._timers[-1]

    def cancel_timer(self, key: int, at: int) -> None:
        """The deadline has moved or is gone. Harmless if its timer was taken out already."""
        self._timers.discard((at, key))
        self.is_empty = not self._timers and self._horizon is None

    def cancel_all_timers(self) -> None:
        """The engine stops. The deadlines stay in the rows, and the next engine reads them there."""
        self._timers.clear()
        self._horizon = None
        self.is_empty = True

    def refill_after(self) -> tuple[int, int] | None:
        """After which timer the store holds the next one; None if there is no need to ask.

        Not from the first on: a suspect whose timer is due and who waits for its trial would come back at once, again
        and again, and keep everybody behind it from waking.
        """
        return None if self._timers else self._horizon

    def refill(self, found: Sequence[tuple[int, int]]) -> None:
        """Take the next `size` timers of the store."""
        self._timers.update(found)
        self._horizon = found[-1] if len(found) >= self._size else None
        self.is_empty = not found

    def next(self) -> int | None:
        """When the next timer fires."""
        return self._timers[0][0] if self._timers else None

    def pop_due(self, now: int, limit: int) -> list[tuple[int, int]]:
        """Take the timers whose time has come, each with its deadline, the earliest first."""
        if not self._timers or self._timers[0][0] > now:
            return []
        count = min(limit, self._timers.bisect_right((now, 1 << 62)))
        due = self._timers[:count]
        del self._timers[:count]
        self.is_empty = not self._timers and self._horizon is None
        return due

"""Virtual time: a clock that only the simulation moves, and an agenda of actions, each with its time."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from durable.model.clock import SECOND
from durable.testing.clock import NOON
from simulation.dice import Dice

MILLISECOND = SECOND // 1000
_NOON = int(NOON.timestamp()) * SECOND


class VirtualClock:
    """Two clocks: a monotonic one, and the wall clock, which faults may set forward or back."""

    def __init__(self) -> None:
        # Microseconds since the beginning of the simulation.
        self.elapsed = 0
        self.offset = _NOON

    def now(self) -> int:
        """The wall clock, in microseconds."""
        return self.elapsed + self.offset

    def monotonic(self) -> float:
        """Seconds since the beginning."""
        return self.elapsed / SECOND

    def sleep(self, seconds: float) -> None:
        """Move the clock: there is only one thread, so sleeping takes virtual time and nothing else happens."""
        self.elapsed += round(seconds * SECOND)


class Agenda:
    """Actions by time. The dice decide the order of actions at the same instant."""

    def __init__(self, clock: VirtualClock, dice: Dice) -> None:
        self._clock = clock
        self._dice = dice
        self._items: list[tuple[int, float, Callable[[], None]]] = []

    def add(self, delay: int, action: Callable[[], None]) -> None:
        """Call `action` after `delay` microseconds."""
        heappush(self._items, (self._clock.elapsed + delay, self._dice.random(), action))

    def now(self) -> int:
        """Microseconds since the beginning."""
        return self._clock.elapsed

    def next(self) -> int | None:
        """The time of the next action, or None."""
        return self._items[0][0] if self._items else None

    def is_due(self) -> bool:
        """Whether an action is due now."""
        return bool(self._items) and self._items[0][0] <= self._clock.elapsed

    def take(self) -> Callable[[], None]:
        """Remove the next action and return it."""
        return heappop(self._items)[2]

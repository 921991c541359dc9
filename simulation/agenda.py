"""Virtual time: a clock that only the simulation moves, and what is to happen when."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from durable.model.clock import SECOND
from durable.testing.clock import NOON
from simulation.dice import Dice

MILLISECOND = SECOND // 1000
_NOON = int(NOON.timestamp()) * SECOND


class VirtualClock:
    """Two clocks: one that never goes back, and the wall clock, which faults may set."""

    def __init__(self) -> None:
        # Microseconds since the beginning of the simulation.
        self.elapsed = 0
        self.offset = _NOON

    def now(self) -> int:
        """The wall clock."""
        return self.elapsed + self.offset

    def monotonic(self) -> float:
        """Seconds since the beginning."""
        return self.elapsed / SECOND

    def sleep(self, seconds: float) -> None:
        """Whoever sleeps by this clock moves it."""
        self.elapsed += round(seconds * SECOND)


class Agenda:
    """What is to happen when; at one instant the dice decide what comes first."""

    def __init__(self, clock: VirtualClock, dice: Dice) -> None:
        self._clock = clock
        self._dice = dice
        self._items: list[tuple[int, float, Callable[[], None]]] = []

    def add(self, delay: int, action: Callable[[], None]) -> None:
        """Do something after some microseconds."""
        heappush(self._items, (self._clock.elapsed + delay, self._dice.random(), action))

    def now(self) -> int:
        """Microseconds since the beginning."""
        return self._clock.elapsed

    def next(self) -> int | None:
        """When the next thing is to happen."""
        return self._items[0][0] if self._items else None

    def is_due(self) -> bool:
        """Whether something is to happen now."""
        return bool(self._items) and self._items[0][0] <= self._clock.elapsed

    def take(self) -> Callable[[], None]:
        """What is to happen first."""
        return heappop(self._items)[2]

"""A clock that stands still until a test moves it."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone

from durable.model.clock import SECOND, from_datetime, from_duration

# An odd instant, so that code which reads the machine's clock by mistake is noticed.
NOON = datetime(2031, 5, 17, 12, 0, tzinfo=timezone.utc)


class ManualClock:
    """Time for tests. An engine notices a move with the next operation that reaches it.

    `sleep` returns at once and moves the clock: whoever waits by this clock waits in its time.
    """

    def __init__(self, start: datetime = NOON) -> None:
        self._lock = threading.Lock()
        self._now = from_datetime("start", start)
        self._monotonic = 1_000.0

    def now(self) -> int:
        """The instant, in microseconds since 1970."""
        with self._lock:
            return self._now

    def monotonic(self) -> float:
        """Seconds that never go back."""
        with self._lock:
            return self._monotonic

    def sleep(self, seconds: float) -> None:
        """Pass the time."""
        self.advance(seconds)

    def advance(self, duration: timedelta | float) -> None:
        """Let time pass."""
        micros = from_duration("advance", duration)
        with self._lock:
            self._now += micros
            self._monotonic += micros / SECOND

    def set(self, instant: datetime) -> None:
        """Set the wall clock, forward or back, as an operator or NTP would; the monotonic clock does not move."""
        with self._lock:
            self._now = from_datetime("instant", instant)

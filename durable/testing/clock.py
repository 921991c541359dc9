"""A clock that stands still until a test moves it: `ManualClock`."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone

from durable.model.clock import SECOND, from_datetime, from_duration

# Far from the present, so that code which reads the machine's clock by mistake gets visibly wrong times.
NOON = datetime(2031, 5, 17, 12, 0, tzinfo=timezone.utc)


class ManualClock:
    """Time for tests, for `WorkflowEngine(..., clock=ManualClock())`. Safe to use from any thread.

    An engine notices a move when the next operation reaches it: after `advance`, make any call, and the timers that are
    due fire. `sleep` does not wait; it moves the clock by the time it was asked to sleep.
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
        """Move the clock forward and return at once."""
        self.advance(seconds)

    def advance(self, duration: timedelta | float) -> None:
        """Move both clocks forward."""
        micros = from_duration("advance", duration)
        with self._lock:
            self._now += micros
            self._monotonic += micros / SECOND

    def set(self, instant: datetime) -> None:
        """Set the wall clock, forward or back, as NTP or an operator would. The monotonic clock does not change."""
        with self._lock:
            self._now = from_datetime("instant", instant)

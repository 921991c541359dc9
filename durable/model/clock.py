"""Time. This is the only module that reads the clock.

Inside durable an instant is an integer, microseconds since 1970 in UTC, and a duration is microseconds too: exact,
cheap to compare and to store. Datetimes and timedeltas appear only at the public surface, through the functions here.
"""

from __future__ import annotations

import math
import time
from datetime import datetime, timedelta, timezone
from typing import Protocol

from durable.errors import InvalidValue, WrongType

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
# The first instant that a datetime can hold.
EARLIEST = (datetime.min.replace(tzinfo=timezone.utc) - _EPOCH) // _MICROSECOND
# The last instant that a datetime can hold. A later deadline could not be shown to people.
LATEST = (datetime.max.replace(tzinfo=timezone.utc) - _EPOCH) // _MICROSECOND
SECOND = 1_000_000


class Clock(Protocol):
    """What the engine needs from a clock. Tests pass one that moves only when they say so."""

    def now(self) -> int:
        """The wall clock, in microseconds since 1970. It may be set back."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, for measuring and waiting."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let time pass in this thread."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> int:
        return time.time_ns() // 1000

    # The function itself, without a method around it: it is called at every step.
    monotonic = staticmethod(time.monotonic)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def to_datetime(instant: int) -> datetime:
    """The aware datetime of an instant, in UTC."""
    return _EPOCH + timedelta(microseconds=instant)


def from_datetime(what: str, value: object) -> int:
    """The instant of an aware datetime. `what` names the argument in errors.

    Raises `WrongType` for anything but an aware datetime, `InvalidValue` after the year 9999.
    """
    if not isinstance(value, datetime):
        raise WrongType(what, f"must be an aware datetime, not {type(value).__name__}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise WrongType(what, "is a naive datetime; add a time zone, as in datetime.now(timezone.utc)")
    instant = (value - _EPOCH) // _MICROSECOND
    if instant > LATEST:
        raise InvalidValue(what, f"{value} is after the year 9999 in UTC")
    return instant


def from_duration(what: str, value: object) -> int:
    """The microseconds of a timedelta or a number of seconds. `what` names the argument in errors.

    Raises `WrongType`, or `InvalidValue` for a duration that is negative, not finite or too long.
    """
    if isinstance(value, timedelta):
        micros = value // _MICROSECOND
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        # Compare before multiplying: a float may overflow to infinity, and a huge int does not fit into a float.
        if value != value or value in (math.inf, -math.inf):
            raise InvalidValue(what, f"must be finite, not {value}")
        micros = round(min(value, LATEST) * SECOND) if value >= 0 else -1
    else:
        raise WrongType(what, f"must be a timedelta or a number of seconds, not {type(value).__name__}")
    if micros < 0:
        raise InvalidValue(what, f"must not be negative, got {value}")
    if micros > LATEST:
        raise InvalidValue(what, f"{value} is longer than the calendar")
    return micros


def later(what: str, instant: int, duration: int) -> int:
    """The instant after a duration. Raises `InvalidValue` past the end of the calendar."""
    if instant + duration > LATEST:
        raise InvalidValue(what, "is after the year 9999")
    return instant + duration

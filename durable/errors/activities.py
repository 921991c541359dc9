"""How activities fail, and how they choose what happens next.

An activity raises `NonRetryable` or `RetryAfter` to override its retry policy for this failure. The other two are
raised in the workflow body when the last attempt has failed.
"""

from __future__ import annotations

from datetime import timedelta

import attrs

from durable.errors.base import DurableError


@attrs.frozen(slots=False)
class ActivityFailed(DurableError):
    """An activity failed with an error whose class cannot be rebuilt in this process.

    The stored name of the class, its message and its traceback are kept as text.
    """

    error_type: str
    message: str
    traceback: str = ""

    says = "{error_type}: {message}"


@attrs.frozen(slots=False)
class ActivityTimedOut(DurableError, TimeoutError):
    """One attempt of an activity took longer than its timeout. The retry policy treats it like any other failure."""

    activity: str
    seconds: float

    says = "activity {activity!r} did not finish within {seconds:g} s"


class NonRetryable(DurableError):
    """Raise it, or a subclass, in an activity to stop retrying."""

    # Not frozen: a subclass may define fields and its own __init__.
    def __init__(self, message: str = "", *more: object) -> None:
        super().__init__(message, *more)
        self.message = message

    def __str__(self) -> str:
        return str(self.message)  # people also write `raise NonRetryable(error)`


class RetryAfter(DurableError):
    """Raise it, or a subclass, in an activity to choose when the next attempt may run.

    `delay` is in seconds. It replaces the delay of the retry policy and may exceed its `max_delay`.
    """

    def __init__(self, delay: timedelta | float, message: str = "") -> None:
        self.delay = delay.total_seconds() if isinstance(delay, timedelta) else delay
        self.message = message
        super().__init__(self.delay, message)

    def __str__(self) -> str:
        return str(self.message or f"retry after {self.delay}")

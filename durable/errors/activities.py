"""How activities fail, and how they say what happens next."""

from __future__ import annotations

from datetime import timedelta

import attrs

from durable.errors.base import DurableError


@attrs.frozen(slots=False)
class ActivityFailed(DurableError):
    """An activity failed with an error whose class cannot be rebuilt here."""

    error_type: str
    message: str
    traceback: str = ""

    says = "{error_type}: {message}"


@attrs.frozen(slots=False)
class ActivityTimedOut(DurableError, TimeoutError):
    """One attempt of an activity took longer than its timeout."""

    activity: str
    seconds: float

    says = "activity {activity!r} did not finish within {seconds:g} s"


class NonRetryable(DurableError):
    """Raise it, or a subclass, in an activity to stop retrying."""

    # Not frozen: a subclass may have fields and an __init__ of its own.
    def __init__(self, message: str = "", *more: object) -> None:
        super().__init__(message, *more)
        self.message = message

    def __str__(self) -> str:
        return str(self.message)  # `raise NonRetryable(error)` is written too


class RetryAfter(DurableError):
    """Raise it, or a subclass, in an activity to say when the next attempt may run."""

    def __init__(self, delay: timedelta | float, message: str = "") -> None:
        self.delay = delay.total_seconds() if isinstance(delay, timedelta) else delay
        self.message = message
        super().__init__(self.delay, message)

    def __str__(self) -> str:
        return str(self.message or f"retry after {self.delay}")

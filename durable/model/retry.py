"""Whether and when a failed activity is tried again: a policy, and one pure function over it."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import attrs

from durable.errors import DurableError, InvalidValue, NonRetryable, RetryAfter, WrongType
from durable.model.clock import SECOND, from_duration
from durable.model.ids import seed

Duration = timedelta | float
# The first and the longest delay of the default policy, in seconds.
_FIRST, _CAP = 0.1, 300.0


def _attempts(_policy: object, _field: object, value: object) -> None:
    """attrs validator: None, or an int from 1 to 1,000,000."""
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise WrongType("Retry.max_attempts", f"must be an int or None, not {type(value).__name__}")
    if not 1 <= value <= 1_000_000:
        raise InvalidValue("Retry.max_attempts", f"must be 1 to 1,000,000 (it counts the first attempt), not {value}")


def _number(low: float, high: float) -> Callable[[Any, Any, Any], None]:
    """attrs validator: a number in a range. A bool is not a number here."""

    def check(_policy: Any, field: Any, value: Any) -> None:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise WrongType(f"Retry.{field.name}", f"must be a number, not {type(value).__name__}")
        if math.isnan(value) or not low <= value <= high:
            raise InvalidValue(f"Retry.{field.name}", f"must be {low:g} to {high:g}, not {value}")

    return check


def _duration(_policy: Any, field: Any, value: Any) -> None:
    """attrs validator: a timedelta or a number of seconds, not negative."""
    from_duration(f"Retry.{field.name}", value)


def _classes(_policy: object, _field: object, value: object) -> None:
    """attrs validator: an exception class, or a tuple with at least one. `BaseException` itself is refused."""
    classes = value if isinstance(value, tuple) else (value,)
    if not classes or not all(isinstance(cls, type) and issubclass(cls, Exception) for cls in classes):
        raise WrongType("Retry.retry_on", "must be an exception class or a tuple of them")


def _default_cap(policy: Any) -> Duration:
    """The default of `max_delay`: five minutes, or the first delay if that is longer."""
    first: Duration = policy.first_delay
    return first if from_duration("Retry.first_delay", first) > _CAP * SECOND else _CAP


def _cap(policy: Any, field: Any, value: Any) -> None:
    """attrs validator: a duration that is not shorter than the first delay."""
    longest, first = from_duration(f"Retry.{field.name}", value), from_duration("Retry.first_delay", policy.first_delay)
    # A cap below the default first delay is not a contradiction: the caller passed only the cap.
    if first > longest and policy.first_delay != _FIRST:
        seconds = f"is {first / SECOND:g} s, longer than max_delay={longest / SECOND:g} s"
        raise InvalidValue("Retry.first_delay", f"{seconds}: raise max_delay, or omit it")


@attrs.frozen(kw_only=True)
class Retry:
    """How often and when a failed activity is tried again. `max_attempts` counts the first attempt; None: no limit.

    Delays grow from `first_delay` by `factor` up to `max_delay`. A `first_delay` of more than 300 s raises the default
    `max_delay` to it. `max_delay` does not limit a delay that an activity asks for with `RetryAfter`.
    """

    max_attempts: int | None = attrs.field(default=3, validator=_attempts)
    first_delay: Duration = attrs.field(default=_FIRST, validator=_duration)
    factor: float = attrs.field(default=2.0, validator=_number(1.0, 1000.0))
    max_delay: Duration = attrs.field(default=attrs.Factory(_default_cap, takes_self=True), validator=_cap)
    jitter: float = attrs.field(default=0.1, validator=_number(0.0, 1.0))
    retry_on: type[Exception] | tuple[type[Exception], ...] = attrs.field(default=Exception, validator=_classes)

    @classmethod
    def never(cls) -> Retry:
        """A single attempt, without retries."""
        return cls(max_attempts=1)


def next_delay(policy: Retry, error: BaseException, attempt: int, place: str) -> int | None:
    """Microseconds from this failed attempt to the next, or None if the failure is final.

    `place` names the workflow and position. The jitter is derived from it, so the same failure gives the same delay in
    a decision, in a replay and in a test.
    """
    if policy.max_attempts is not None and attempt >= policy.max_attempts:
        return None
    if isinstance(error, RetryAfter):
        try:
            return from_duration("RetryAfter.delay", error.delay)
        except DurableError:
            # A senseless delay is a mistake in the activity. Another attempt would not fix it.
            return None
    if isinstance(error, NonRetryable) or not isinstance(error, policy.retry_on):
        return None
    longest = from_duration("Retry.max_delay", policy.max_delay)
    first = from_duration("Retry.first_delay", policy.first_delay)
    # The exponent is bounded: attempt 5,000 of an unlimited policy must not overflow.
    delay = min(float(longest), first * policy.factor ** min(attempt - 1, 64))
    spread = (seed(place, str(attempt)) % 2_000_001 - SECOND) / SECOND
    return min(longest, round(delay * (1 + policy.jitter * spread)))


def is_permanent(error: BaseException) -> bool:
    """Whether an error is one of durable's own that a retry cannot fix, such as a value that cannot be stored."""
    return isinstance(error, DurableError) and isinstance(error, ValueError | TypeError)

"""When a failed activity is tried again: a policy and one pure function over it."""

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
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise WrongType("Retry.max_attempts", f"must be an int or None, not {type(value).__name__}")
    if not 1 <= value <= 1_000_000:
        raise InvalidValue("Retry.max_attempts", f"must be 1 to 1,000,000 (it counts the first attempt), not {value}")


def _number(low: float, high: float) -> Callable[[Any, Any, Any], None]:
    def check(_policy: Any, field: Any, value: Any) -> None:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise WrongType(f"Retry.{field.name}", f"must be a number, not {type(value).__name__}")
        if math.isnan(value) or not low <= value <= high:
            raise InvalidValue(f"Retry.{field.name}", f"must be {low:g} to {high:g}, not {value}")

    return check


def _duration(_policy: Any, field: Any, value: Any) -> None:
    from_duration(f"Retry.{field.name}", value)


def _classes(_policy: object, _field: object, value: object) -> None:
    classes = value if isinstance(value, tuple) else (value,)
    if not classes or not all(isinstance(one, type) and issubclass(one, Exception) for one in classes):
        raise WrongType("Retry.retry_on", "must be an exception class or a tuple of them")


def _default_cap(policy: Any) -> Duration:
    """The longest delay where none is given: five minutes, or the first delay if that is longer."""
    first: Duration = policy.first_delay
    return first if from_duration("Retry.first_delay", first) > _CAP * SECOND else _CAP


def _cap(policy: Any, field: Any, value: Any) -> None:
    longest, first = from_duration(f"Retry.{field.name}", value), from_duration("Retry.first_delay", policy.first_delay)
    # A cap below the first delay of the default policy is no contradiction: only the cap was given.
    if first > longest and policy.first_delay != _FIRST:
        seconds = f"is {first / SECOND:g} s, longer than max_delay={longest / SECOND:g} s"
        raise InvalidValue("Retry.first_delay", f"{seconds}: raise max_delay, or leave it out")


@attrs.frozen(kw_only=True)
class Retry:
    """How often and when a failed activity is tried again. `max_attempts` counts the first attempt.

    Delays grow from `first_delay` by `factor` up to `max_delay`. A `first_delay` of more than 300 s lifts the default
    `max_delay`. What an activity asks for with `RetryAfter` is not capped.
    """

    max_attempts: int | None = attrs.field(default=3, validator=_attempts)
    first_delay: Duration = attrs.field(default=_FIRST, validator=_duration)
    factor: float = attrs.field(default=2.0, validator=_number(1.0, 1000.0))
    max_delay: Duration = attrs.field(default=attrs.Factory(_default_cap, takes_self=True), validator=_cap)
    jitter: float = attrs.field(default=0.1, validator=_number(0.0, 1.0))
    retry_on: type[Exception] | tuple[type[Exception], ...] = attrs.field(default=Exception, validator=_classes)

    @classmethod
    def never(cls) -> Retry:
        """One attempt and no other."""
        return cls(max_attempts=1)


def next_delay(policy: Retry, error: BaseException, attempt: int, place: str) -> int | None:
    """Microseconds from this failed attempt to the next, or None when the failure is final.

    `place` names the workflow and position: the jitter follows from it, so that it is the same for everybody who asks.
    """
    if policy.max_attempts is not None and attempt >= policy.max_attempts:
        return None
    if isinstance(error, RetryAfter):
        try:
            return from_duration("RetryAfter.delay", error.delay)
        except DurableError:
            # A delay that makes no sense is a mistake of the activity, and no later attempt mends it.
            return None
    if isinstance(error, NonRetryable) or not isinstance(error, policy.retry_on):
        return None
    longest = from_duration("Retry.max_delay", policy.max_delay)
    first = from_duration("Retry.first_delay", policy.first_delay)
    # The exponent is bounded, so that attempt 5,000 of an unlimited policy is no overflow.
    delay = min(float(longest), first * policy.factor ** min(attempt - 1, 64))
    spread = (seed(place, str(attempt)) % 2_000_001 - SECOND) / SECOND
    return min(longest, round(delay * (1 + policy.jitter * spread)))


def is_permanent(error: BaseException) -> bool:
    """Whether an error is one of ours that no retry can mend, such as a value that cannot be stored."""
    return isinstance(error, DurableError) and isinstance(error, ValueError | TypeError)

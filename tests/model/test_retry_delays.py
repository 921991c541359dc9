"""A first delay is used as given: it lifts the default cap, and an explicit cap below it is refused."""

from __future__ import annotations

from datetime import timedelta

import attrs
import pytest

from durable.errors import InvalidValue, RetryAfter
from durable.model.clock import SECOND
from durable.model.retry import Retry, next_delay

HOUR = timedelta(hours=1)


@pytest.mark.parametrize("first", [3600, 3600.0, HOUR])
def test_first_delay_lifts_the_default_cap(first: timedelta | float) -> None:
    """`Retry(first_delay=3600)` waits for an hour, and not for the five minutes of the default cap."""
    policy = Retry(first_delay=first, jitter=0, max_attempts=None)
    assert policy.max_delay == first
    assert [next_delay(policy, ValueError(), attempt, "w") for attempt in (1, 2, 9)] == [3600 * SECOND] * 3


@pytest.mark.parametrize("first", [0.1, 10, 300, timedelta(seconds=300)])
def test_first_delay_below_the_default_cap_leaves_it(first: timedelta | float) -> None:
    """A short first delay changes nothing else."""
    assert Retry(first_delay=first).max_delay == 300.0


@pytest.mark.parametrize("cap", [60, timedelta(minutes=1), 0])
def test_first_delay_above_an_explicit_cap_is_refused(cap: timedelta | float) -> None:
    """Two contradictory settings are an error when the policy is built, with both values."""
    with pytest.raises(InvalidValue, match=r"Retry\.first_delay: is 3600 s, longer than max_delay=\d+ s"):
        Retry(first_delay=HOUR, max_delay=cap)
    with pytest.raises(ValueError, match="first_delay"):
        attrs.evolve(Retry(max_delay=cap), first_delay=3600)


def test_cap_below_the_default_first_delay_is_kept() -> None:
    """A policy with only a cap below the default first delay has delays no longer than the cap."""
    assert next_delay(Retry(max_delay=0), ValueError(), 1, "w") == 0
    assert next_delay(Retry(max_delay=0.05, jitter=0), ValueError(), 2, "w") == 0.05 * SECOND


def test_retry_after_is_not_capped() -> None:
    """The delay that an activity asks for is used in full: `max_delay` caps only delays that grow."""
    assert next_delay(Retry(max_delay=10), RetryAfter(HOUR), 1, "w") == 3600 * SECOND

"""When a failed activity is tried again: the policy, and the one function over it."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable.errors import CodecError, InvalidValue, NonRetryable, OperationMisused, RetryAfter, WrongType
from durable.model.clock import SECOND
from durable.model.retry import Retry, is_permanent, next_delay

PLAIN = Retry(max_attempts=None, jitter=0.0)
ERROR = ValueError("no")


class Fatal(NonRetryable):
    """A user's error that no retry can fix."""


class Busy(RetryAfter):
    """A user's error that says when to try again."""


def delays(policy: Retry, *attempts: int) -> list[float | None]:
    """The delays in seconds after these failed attempts."""
    delays = [next_delay(policy, ERROR, attempt, "w-1 0") for attempt in attempts]
    return [None if delay is None else delay / SECOND for delay in delays]


def test_retry_has_the_documented_defaults() -> None:
    """A policy without settings is the documented one."""
    assert attrs.asdict(Retry()) == {
        "max_attempts": 3, "first_delay": 0.1, "factor": 2.0, "max_delay": 300.0, "jitter": 0.1, "retry_on": Exception,
    }  # fmt: skip


def test_delay_grows_by_the_factor_up_to_the_cap() -> None:
    """Each delay is the last one times the factor, and never longer than the longest."""
    assert delays(PLAIN, 1, 2, 3, 4, 12, 13, 100) == [0.1, 0.2, 0.4, 0.8, 204.8, 300.0, 300.0]
    thrice = Retry(max_attempts=None, jitter=0, first_delay=timedelta(seconds=2), factor=3, max_delay=timedelta(0, 20))
    assert delays(thrice, 1, 2, 3, 4) == [2.0, 6.0, 18.0, 20.0]


def test_delay_may_stay_the_same_or_be_nothing() -> None:
    """A factor of one gives equal delays, a first delay of zero gives none."""
    assert delays(attrs.evolve(PLAIN, factor=1.0), 1, 2, 900) == [0.1, 0.1, 0.1]
    assert delays(attrs.evolve(PLAIN, first_delay=0), 1, 2, 900) == [0.0, 0.0, 0.0]
    assert delays(attrs.evolve(PLAIN, max_delay=0), 1, 2, 900) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_max_attempts_counts_the_first(attempts: int) -> None:
    """After attempt number `max_attempts` the failure is final, and before it is not."""
    policy = Retry(max_attempts=attempts)
    delays = [next_delay(policy, ERROR, attempt, "w-1 0") is None for attempt in range(1, attempts + 3)]
    assert delays == [False] * (attempts - 1) + [True] * 3


def test_never_is_one_attempt() -> None:
    """`Retry.never()` allows the first attempt and no other, not even one that the error asks for."""
    assert Retry.never().max_attempts == 1
    assert next_delay(Retry.never(), ERROR, 1, "w-1 0") is None
    assert next_delay(Retry.never(), RetryAfter(5), 1, "w-1 0") is None


@pytest.mark.parametrize("factor", [1.0, 2.0, 1000.0, 1000])
@pytest.mark.parametrize("attempt", [64, 65, 66, 5_000, 1_000_000])
def test_unlimited_attempts_do_not_overflow(factor: float, attempt: int) -> None:
    """Without a limit the five-thousandth delay is a delay like any other."""
    policy = Retry(max_attempts=None, factor=factor, first_delay=timedelta(days=1000), jitter=1.0)
    delay = next_delay(policy, ERROR, attempt, "w-1 0")
    assert delay is not None
    assert 0 <= delay <= timedelta(days=1000) / timedelta(microseconds=1)


def test_jitter_is_pinned() -> None:
    """Stored workflows rely on it: the jitter follows from place and attempt alone."""
    delays = [next_delay(Retry(max_attempts=None), ERROR, attempt, "w-1 0") for attempt in (1, 2, 3)]
    assert delays == [105_908, 194_335, 419_584]


@given(st.floats(0, 1), st.integers(1, 2_000), st.text(max_size=20).filter(str.isprintable))
def test_jitter_is_bounded(jitter: float, attempt: int, place: str) -> None:
    """Jitter moves a delay by at most its share, never beyond the longest, and is the same each time."""
    policy = attrs.evolve(PLAIN, jitter=jitter)
    base, delay = next_delay(PLAIN, ERROR, attempt, place), next_delay(policy, ERROR, attempt, place)
    assert base is not None
    assert delay is not None
    assert base * (1 - jitter) - 1 <= delay <= min(base * (1 + jitter) + 1, 300 * SECOND)
    assert delay == next_delay(policy, KeyError("another error"), attempt, place)


def test_jitter_differs_between_places_and_attempts() -> None:
    """Two workflows, and two attempts of one workflow, are not tried again at the same moment."""
    policy = Retry(max_attempts=None, factor=1.0)
    delays = {next_delay(policy, ERROR, attempt, place) for attempt in range(1, 20) for place in "abc"}
    assert len(delays) > 50


@pytest.mark.parametrize(("delay", "expected"), [(5, 5.0), (timedelta(hours=1), 3600.0), (0, 0.0), (0.5, 0.5)])
@pytest.mark.parametrize("kind", [RetryAfter, Busy])
def test_retry_after_sets_the_delay(delay: Any, expected: float, kind: type[RetryAfter]) -> None:
    """The error's own delay is taken as it is: no jitter, no cap, whatever `retry_on` says."""
    policy = Retry(retry_on=KeyError, max_delay=1)
    assert next_delay(policy, kind(delay), 1, "w-1 0") == expected * SECOND
    assert next_delay(policy, kind(delay), 3, "w-1 0") is None


@pytest.mark.parametrize("delay", [-1, math.nan, math.inf, timedelta.max, "5", None])
def test_retry_after_a_senseless_delay_is_final(delay: Any) -> None:
    """A senseless delay is a mistake that no later attempt fixes."""
    assert next_delay(PLAIN, RetryAfter(delay), 1, "w-1 0") is None


@pytest.mark.parametrize("error", [NonRetryable("no"), Fatal("no"), Fatal()])
def test_non_retryable_is_final(error: Exception) -> None:
    """NonRetryable and its subclasses end the attempts, whatever the policy allows."""
    assert next_delay(PLAIN, error, 1, "w-1 0") is None
    assert next_delay(Retry(retry_on=(NonRetryable, Fatal)), error, 1, "w-1 0") is None


def test_retry_on_says_which_errors_are_tried_again() -> None:
    """Only the named classes and their subclasses are retried, and never an error that is not an Exception."""
    policy = Retry(retry_on=(LookupError, OSError))
    tried = [KeyError(), IndexError(), TimeoutError(), ValueError(), SystemExit(), KeyboardInterrupt()]
    assert [next_delay(policy, error, 1, "w-1 0") is not None for error in tried] == [True] * 3 + [False] * 3
    assert next_delay(Retry(), SystemExit(), 1, "w-1 0") is None


SENSELESS: list[tuple[str, Any, type[Exception]]] = [
    *(("max_attempts", value, InvalidValue) for value in (0, -1, 1_000_001)),
    *(("max_attempts", value, WrongType) for value in (1.0, True, "3", math.inf)),
    *(("first_delay", value, InvalidValue) for value in (-1, math.nan, math.inf, timedelta(-1), timedelta.max)),
    *(("max_delay", value, InvalidValue) for value in (-1, math.nan, math.inf, timedelta(-1), timedelta.max)),
    *(("first_delay", value, WrongType) for value in (None, "1", True)),
    *(("max_delay", value, WrongType) for value in (None, "1", True)),
    *(("factor", value, InvalidValue) for value in (0.99, 0, -2, 1000.1, math.nan, math.inf)),
    *(("factor", value, WrongType) for value in (None, "2", True)),
    *(("jitter", value, InvalidValue) for value in (-0.1, 1.1, math.nan, math.inf)),
    *(("jitter", value, WrongType) for value in (None, "0", False)),
    *(("retry_on", value, WrongType) for value in ((), None, ValueError("x"), int, BaseException, [ValueError])),
    *(("retry_on", value, WrongType) for value in ((ValueError, 5), (ValueError, KeyboardInterrupt), "ValueError")),
]


@pytest.mark.parametrize(("field", "value", "expected"), SENSELESS, ids=repr)
def test_retry_refuses_senseless_values(field: str, value: Any, expected: type[Exception]) -> None:
    """A senseless value is refused when the policy is built, by the name of its field."""
    with pytest.raises(expected, match=f"Retry.{field}"):
        Retry(**{field: value})


@pytest.mark.parametrize(
    "settings",
    [
        {"max_attempts": 1}, {"max_attempts": 1_000_000}, {"max_attempts": None}, {"factor": 1}, {"factor": 1000},
        {"jitter": 0}, {"jitter": 1}, {"first_delay": 0}, {"retry_on": OSError}, {"retry_on": (OSError, KeyError)},
    ],
    ids=repr,
)  # fmt: skip
def test_retry_takes_the_edges(settings: dict[str, Any]) -> None:
    """Values at the edge of the valid range are accepted as they are, and the policy is immutable."""
    policy = Retry(**settings)
    assert [getattr(policy, name) for name in settings] == list(settings.values())
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        policy.jitter = 0.5  # type: ignore[misc]


def test_is_permanent_knows_our_own_refusals() -> None:
    """Values and types that durable itself refuses would be refused again; errors of users may be temporary."""
    ours = [CodecError("a", "b"), InvalidValue("a", "b"), WrongType("a", "b"), OperationMisused("a")]
    assert all(map(is_permanent, ours))
    assert not any(map(is_permanent, [ValueError(), TypeError(), NonRetryable("x"), RetryAfter(1), SystemExit()]))

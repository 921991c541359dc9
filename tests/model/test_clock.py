"""Instants and durations: integers inside, datetimes and timedeltas at the surface."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable.errors import InvalidValue, WrongType
from durable.model.clock import LATEST, SECOND, SystemClock, from_datetime, from_duration, later, to_datetime

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
LAST = datetime.max.replace(tzinfo=timezone.utc)


class Vague(tzinfo):
    """A zone without an offset."""

    def __repr__(self) -> str:
        return "Vague()"

    def utcoffset(self, _when: datetime | None) -> None:
        return None

    def dst(self, _when: datetime | None) -> None:
        return None

    def tzname(self, _when: datetime | None) -> None:
        return None


@pytest.mark.parametrize(
    ("value", "micros"),
    [
        (EPOCH, 0),
        (EPOCH + timedelta(microseconds=1), 1),
        (EPOCH - timedelta(microseconds=1), -1),
        (datetime(2026, 1, 1, tzinfo=timezone.utc), 1_767_225_600 * SECOND),
        (datetime(2026, 1, 1, 9, tzinfo=timezone(timedelta(hours=9))), 1_767_225_600 * SECOND),
        (datetime(2026, 3, 29, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")), 1_774_747_800 * SECOND),
        (LAST, LATEST),
    ],
    ids=str,
)
def test_instants_are_microseconds(value: datetime, micros: int) -> None:
    """An aware datetime becomes its microseconds since 1970 in UTC, whatever its zone."""
    assert from_datetime("until", value) == micros
    assert to_datetime(micros).tzinfo is timezone.utc


@given(st.datetimes(timezones=st.timezones()).filter(lambda value: 1 < value.year < 9999))
def test_instants_come_back(value: datetime) -> None:
    """A datetime comes back as the same instant, to the microsecond."""
    assert to_datetime(from_datetime("until", value)) == value.astimezone(timezone.utc)


@pytest.mark.parametrize(
    "value",
    [datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=Vague()), date(2026, 1, 1), 5, "2026-01-01", None, timedelta()],
    ids=repr,
)
def test_instants_must_be_aware_datetimes(value: Any) -> None:
    """A naive datetime, or anything else, is refused by name."""
    with pytest.raises(WrongType, match=r"^until"):
        from_datetime("until", value)


@pytest.mark.parametrize(
    ("value", "micros"),
    [
        (0, 0), (0.0, 0), (-0.0, 0), (1, SECOND), (1.5, 1_500_000), (1e-6, 1), (0.1, 100_000),
        (timedelta(), 0), (timedelta(microseconds=1), 1), (timedelta(days=1), 86_400 * SECOND),
        (timedelta(microseconds=LATEST), LATEST), (LATEST // SECOND, LATEST // SECOND * SECOND),
    ],
    ids=repr,
)  # fmt: skip
def test_durations_are_microseconds(value: Any, micros: int) -> None:
    """A timedelta or a number of seconds becomes whole microseconds."""
    assert from_duration("limit", value) == micros
    assert type(from_duration("limit", value)) is int


@pytest.mark.parametrize(
    "value",
    [-1, -0.5, timedelta(microseconds=-1), timedelta.min, math.nan, math.inf, -math.inf, timedelta.max, 1e15,
     timedelta(microseconds=LATEST + 1), 10**18],
    ids=repr,
)  # fmt: skip
def test_durations_must_be_finite_and_not_negative(value: Any) -> None:
    """A duration that is negative, not finite, or longer than the calendar is refused by name."""
    with pytest.raises(InvalidValue, match=r"^limit"):
        from_duration("limit", value)


@pytest.mark.parametrize("value", [None, "1", True, False, 1j, [1], Decimal(1), Fraction(1), EPOCH], ids=repr)
def test_durations_must_be_timedeltas_or_numbers(value: Any) -> None:
    """A bool, a text or another number class is refused by name."""
    with pytest.raises(WrongType, match=r"^limit"):
        from_duration("limit", value)


@given(st.integers(0, LATEST), st.integers(0, LATEST))
def test_later_stays_in_the_calendar(instant: int, duration: int) -> None:
    """The instant after a duration is their sum, or it is refused because no datetime can hold it."""
    if instant + duration <= LATEST:
        assert to_datetime(later("sleep", instant, duration)) <= LAST
        assert later("sleep", instant, duration) == instant + duration
    else:
        with pytest.raises(InvalidValue, match=r"^sleep: is after the year 9999"):
            later("sleep", instant, duration)


def test_later_reaches_the_last_instant() -> None:
    """The last microsecond of the year 9999 is an instant, the next is not."""
    assert later("sleep", LATEST - 1, 1) == LATEST
    assert to_datetime(LATEST) == LAST
    with pytest.raises(InvalidValue):
        later("sleep", LATEST, 1)


def test_system_clock_tells_the_time_of_this_machine() -> None:
    """The wall clock is today in microseconds, and the other one never goes back."""
    clock = SystemClock()
    assert (
        datetime(2025, 1, 1, tzinfo=timezone.utc) < to_datetime(clock.now()) < datetime(2100, 1, 1, tzinfo=timezone.utc)
    )
    first = clock.monotonic()
    clock.sleep(0)
    assert clock.monotonic() >= first

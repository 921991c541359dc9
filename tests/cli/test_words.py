"""Durations, instants and statuses in words, and back."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from durable import WorkflowStatus
from durable.cli.words import age, ago, clock_time, duration, parse_moment, parse_status, plural
from durable.model.durations import parse_duration
from tests.cli.values import START, after

BERLIN = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("2h", 7200), ("1h30m", 5400), ("7d", 604800), ("2w", 1209600), ("0.5s", 0.5)],
)
def test_duration_is_read(text: str, seconds: float) -> None:
    """A duration is numbers with units."""
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "2", "h", "2x", "-2h", "2 h", "9999999999w", "٣h"])
def test_duration_is_refused(text: str) -> None:
    """Anything else is refused, with the text."""
    with pytest.raises(ValueError, match=r"duration|hundred"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.0204, "20 ms"),
        (4.24, "4.2 s"),
        (59.97, "1m 00s"),
        (63, "1m 03s"),
        (3599.6, "1h 00m"),
        (8040, "2h 14m"),
        (86399.9, "1d 0h"),
        (273600, "3d 4h"),
    ],
)
def test_duration_is_written_in_two_units(seconds: float, text: str) -> None:
    """A duration has at most two units, and rounding never gives 60 of one."""
    assert duration(timedelta(seconds=seconds)) == text


def test_moment_is_a_duration_or_a_time() -> None:
    """A duration counts back from now; a time without a zone is in the zone of the reader."""
    assert parse_moment("2h", START, BERLIN) == after(-7200)
    assert parse_moment("2026-03-01T04:12", START, BERLIN) == START
    assert parse_moment("2026-03-01T03:12+00:00", START, BERLIN) == START
    assert parse_moment("2026-03-01", START, None) == datetime(2026, 3, 1).astimezone()
    with pytest.raises(ValueError, match="'soon' is neither"):
        parse_moment("soon", START, BERLIN)


def test_status_is_read() -> None:
    """A status is its word, in any case; another word is answered with all of them."""
    assert parse_status("Parked") is WorkflowStatus.PARKED
    with pytest.raises(ValueError, match="running, suspended, parked"):
        parse_status("stuck")


def test_instants_are_seen_from_now() -> None:
    """An instant is in the past, in the future, or now; its clock time has a date unless it is today."""
    assert ago(after(-63), START) == "1m 03s ago"
    assert ago(after(63), START) == "in 1m 03s"
    assert ago(after(0.2), START) == "now"
    assert [age(after(seconds), START) for seconds in (-59, -60, -7300, -200_000, 0.4, 3599)] == [
        "59s ago", "1m ago", "2h ago", "2d ago", "now", "in 59m",
    ]  # fmt: skip
    assert clock_time(START, START, BERLIN) == "04:12:00"
    assert clock_time(after(-86400), START, BERLIN) == "2026-02-28 04:12:00"


def test_counts_have_a_noun() -> None:
    """One is singular."""
    assert (plural(1, "run"), plural(0, "run"), plural(1200, "run")) == ("1 run", "0 runs", "1,200 runs")

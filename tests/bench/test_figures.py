"""Medians, percentiles, and many calls at a time."""

from __future__ import annotations

import asyncio
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.figures import latencies, many, percentile


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([5.0], 0.5, 5.0),
        ([5.0], 0.99, 5.0),
        ([3.0, 1.0, 2.0], 0.5, 2.0),
        ([4.0, 3.0, 2.0, 1.0], 0.5, 2.0),
        ([float(n) for n in range(100)], 0.99, 98.0),
        ([float(n) for n in range(1000)], 0.99, 989.0),
        ([1.0, 2.0], 1.0, 2.0),
        ([1.0, 2.0], 0.0, 1.0),
    ],
)
def test_percentile_is_one_of_the_values(values: list[float], share: float, expected: float) -> None:
    """A percentile is the smallest value that the given share does not exceed, without interpolation."""
    assert percentile(values, share) == expected


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 1))
def test_percentile_holds_by_definition(values: list[float], share: float) -> None:
    """At least the given share of all values do not exceed the percentile."""
    result = percentile(values, share)
    assert sum(value <= result for value in values) >= share * len(values) * (1 - 1e-12)
    assert percentile(values, 0.5) == statistics.median_low(values)


def test_percentile_of_nothing_is_refused() -> None:
    """The percentile of no values is refused."""
    with pytest.raises(ValueError):
        percentile([], 0.5)


def test_latencies_are_milliseconds() -> None:
    """Latencies are given in seconds and shown in milliseconds, under names that say so."""
    assert latencies([0.001, 0.002, 0.003], "start_") == {"start_p50_ms": 2.0, "start_p99_ms": 3.0}


def test_many_makes_each_call_once_and_so_many_at_a_time() -> None:
    """Every number comes once. Never more than `at_once` calls are under way, and that many are."""
    calls: list[int] = []
    under_way: list[int] = [0]
    most: list[int] = []

    async def call(number: int) -> None:
        calls.append(number)
        under_way[0] += 1
        most.append(under_way[0])
        await asyncio.sleep(0)
        under_way[0] -= 1

    took = asyncio.run(many(20, 4, call))
    assert sorted(calls) == list(range(20))
    assert max(most) == 4
    assert len(took) == 20
    assert all(seconds > 0 for seconds in took)

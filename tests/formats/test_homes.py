"""The shard of a row is a format: another hash would look for rows in other shards."""

from __future__ import annotations

import pytest

from durable.model.homes import Shard, event_home, key_home, schedule_home, workflow_home

SHARDS = (1, 2, 3, 16)


@pytest.mark.parametrize(
    ("text", "homes"),
    [
        ("order-42", [0, 1, 2, 3]),
        ("", [0, 1, 1, 9]),
        ("☃", [0, 0, 0, 8]),
    ],
)
def test_home_of_a_workflow_is_pinned(text: str, homes: list[int]) -> None:
    """An id lives in the same shard as long as there are stores."""
    assert [workflow_home(text, shards) for shards in SHARDS] == homes


def test_homes_of_schedules_and_events_are_pinned() -> None:
    """They are hashed apart from ids; an event by its name and its key."""
    assert [schedule_home("nightly", shards) for shards in SHARDS] == [0, 0, 1, 6]
    assert [event_home("paid", "", shards) for shards in SHARDS] == [0, 1, 2, 5]
    assert [event_home("paid", "k", shards) for shards in SHARDS] == [0, 1, 1, 13]


def test_key_tells_its_shard() -> None:
    """With one shard every row is at home."""
    assert [key_home(key, 3) for key in (0, 1, 5, 3 * 10**12 + 2)] == [0, 1, 2, 2]
    assert Shard().owns_key(7)
    assert Shard().owns_workflow("anything")
    assert [Shard(number, 3).owns_key(5) for number in range(3)] == [False, False, True]


def test_homes_are_spread() -> None:
    """No shard of sixteen has less than half or more than twice its share of ten thousand ids."""
    counts = [0] * 16
    for number in range(10_000):
        counts[workflow_home(f"order-{number}", 16)] += 1
    assert all(312 < count < 1250 for count in counts), counts

"""Settings are checked when they are created."""

from __future__ import annotations

from typing import Any

import pytest

from durable import EngineConfig, InvalidValue, WrongType


@pytest.mark.parametrize("value", [0, -1])
def test_counts_are_at_least_one(value: int) -> None:
    """A limit below 1 would stop everything, so it is refused."""
    with pytest.raises(InvalidValue, match=r"EngineConfig\.max_batch: must be at least 1"):
        EngineConfig(max_batch=value)


@pytest.mark.parametrize("value", [1.5, "1", True, None])
def test_counts_are_ints(value: Any) -> None:
    """A limit that is not an int is refused by name."""
    with pytest.raises(WrongType, match=r"EngineConfig\.max_inbox"):
        EngineConfig(max_inbox=value)


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
def test_durations_make_sense(value: float) -> None:
    """An impossible duration is refused by name."""
    with pytest.raises(InvalidValue, match=r"EngineConfig\.drain"):
        EngineConfig(drain=value)


def test_policy_is_a_policy() -> None:
    """A policy that is only a string is refused."""
    wrong: Any = "discard"
    with pytest.raises(WrongType, match="dead_letter_policy"):
        EngineConfig(dead_letter_policy=wrong)

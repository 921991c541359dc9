"""The one source of chance: everything random in a simulation is drawn from dice that follow from its seed."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Dice(Random):
    """Random numbers that follow from a seed, and the few ways in which a simulation asks for them."""

    def chance(self, share: float) -> bool:
        """True in this share of cases."""
        return self.random() < share

    def below(self, end: int) -> int:
        """A number from 0 up, below the end. Cheaper than `randrange`, and good enough."""
        return int(self.random() * end)

    def between(self, first: int, last: int) -> int:
        """A number from the first to the last, both included."""
        return first + int(self.random() * (last - first + 1))

    def weighted(self, table: Mapping[T, int]) -> T:
        """One key of a table, by its weight."""
        left = self.below(sum(table.values()))
        for key, weight in table.items():
            left -= weight
            if left < 0:
                return key
        raise AssertionError("a table needs weights")

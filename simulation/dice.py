"""The only source of chance: everything random in a simulation is drawn from dice that follow from its seed."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Dice(Random):
    """Random numbers that follow from a seed, with the few draws that a simulation needs."""

    def chance(self, share: float) -> bool:
        """True in this share of cases, between 0 and 1."""
        return self.random() < share

    def below(self, end: int) -> int:
        """A number from 0 up to, but not including, `end`. Cheaper than `randrange`, and good enough."""
        return int(self.random() * end)

    def between(self, first: int, last: int) -> int:
        """A number from `first` to `last`, both included."""
        return first + int(self.random() * (last - first + 1))

    def weighted(self, table: Mapping[T, int]) -> T:
        """A key of a table, drawn by its weight."""
        ticket = self.below(sum(table.values()))
        for key, weight in table.items():
            ticket -= weight
            if ticket < 0:
                return key
        raise AssertionError("a table needs weights")

"""Counts the draws of `uuid` and `random` by name. The count makes each draw unique and the same on every replay."""

from __future__ import annotations


class Draws(dict[str, int]):
    """Counts by kind and name. A body has one, made at the first draw. Each loop has one for its current round."""

    __slots__ = ()

    def count(self, kind: str, name: str) -> int:
        """The number of earlier draws of this name. Counts the present one for the next call."""
        key = f"{kind} {name}"
        times = self.get(key, 0)
        self[key] = times + 1
        return times

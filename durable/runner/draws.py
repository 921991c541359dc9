"""How often a body has drawn which name, so that each draw differs from the others and is the same on every replay."""

from __future__ import annotations


class Draws(dict[str, int]):
    """Draws by kind and name. A body has one, made at the first draw, and each loop has one for the current round."""

    __slots__ = ()

    def count(self, kind: str, name: str) -> int:
        """How often this was drawn before. The draw that asks is counted."""
        key = f"{kind} {name}"
        times = self.get(key, 0)
        self[key] = times + 1
        return times

"""What a broken promise looks like."""

from __future__ import annotations


class Violation(Exception):
    """An invariant does not hold: which one, and what was seen."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(invariant, what)
        self.invariant = invariant
        self.what = what

    def __str__(self) -> str:
        return f"{self.invariant}: {self.what}"

    def notes(self) -> list[str]:
        """Where it happened, and what came before."""
        return list(getattr(self, "__notes__", ()))

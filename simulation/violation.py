"""The error that reports a broken invariant."""

from __future__ import annotations


class Violation(Exception):
    """An invariant is broken: its number, and what was seen instead."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(invariant, what)
        self.invariant = invariant
        self.what = what

    def __str__(self) -> str:
        return f"{self.invariant}: {self.what}"

    def notes(self) -> list[str]:
        """The seed and the step, then the last lines of the trace; empty outside of `simulate`."""
        return list(getattr(self, "__notes__", ()))

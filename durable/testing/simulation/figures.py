"""What simulations came to, in numbers."""

from __future__ import annotations

import attrs


@attrs.define
class Figures:
    """Sums over any number of seeds."""

    seeds: int = 0
    # Operations that the engine decided.
    transitions: int = 0
    commits: int = 0
    crashes: int = 0
    # Everything else that went wrong: commits and calls that failed, answers twice or too late, clocks, restarts.
    faults: int = 0
    workflows: int = 0
    activities: int = 0
    # Workflows that had not ended when nothing was left to happen.
    waiting: int = 0
    virtual_seconds: int = 0

    def __add__(self, other: Figures) -> Figures:
        return Figures(*(a + b for a, b in zip(attrs.astuple(self), attrs.astuple(other), strict=True)))

    def lines(self, seconds: float) -> list[str]:
        """A page of them."""
        rows = attrs.asdict(self)
        page = [f"{name.replace('_', ' '):16} {number:>14,}" for name, number in rows.items()]
        return [*page, f"{'seeds a second':16} {self.seeds / max(seconds, 0.001):>14.1f}"]

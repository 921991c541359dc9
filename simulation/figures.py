"""The figures of simulations: how much happened, to show that a run without violations was not an empty run."""

from __future__ import annotations

import attrs


@attrs.define
class Figures:
    """Sums over any number of seeds."""

    seeds: int = 0
    # Operations that the engine decided.
    operations: int = 0
    commits: int = 0
    crashes: int = 0
    # All other faults: failed commits and calls, answers that came twice or too late, clock steps, restarts.
    faults: int = 0
    workflows: int = 0
    # Activities that began, and those that returned or raised.
    activities: int = 0
    answers: int = 0
    # Workflows that still waited when nothing was left to happen.
    waiting: int = 0
    virtual_seconds: int = 0
    # Seeds in which the store has several shards, and the letters that went between them.
    clusters: int = 0
    letters: int = 0

    def __add__(self, other: Figures) -> Figures:
        return Figures(*(a + b for a, b in zip(attrs.astuple(self), attrs.astuple(other), strict=True)))

    @property
    def transitions(self) -> int:
        """Everything that changes a world: operations decided, commits, activities begun or ended, crashes."""
        return self.operations + self.commits + self.activities + self.answers + self.crashes

    def lines(self, seconds: float) -> list[str]:
        """The figures as lines of text; `seconds` is how long the seeds took."""
        rows = attrs.asdict(self)
        rows = {"seeds": rows.pop("seeds"), "transitions": self.transitions} | rows
        page = [f"{name.replace('_', ' '):16} {number:>14,}" for name, number in rows.items()]
        return [*page, f"{'seeds a second':16} {self.seeds / max(seconds, 0.001):>14.1f}"]

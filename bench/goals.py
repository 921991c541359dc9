"""What durable wants to reach, and how close it is: ratios within one run, rather than times of one machine."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import attrs

from bench.results import Results, Spread
from bench.tables import table
from bench.workloads.w8 import EMPTY

Cell = tuple[str, str, str]
Measure = Callable[[Results], Spread | None]

# /proc counts in MiB, the goals in MB.
MIB = 1024 * 1024 / 1e6


@attrs.frozen(kw_only=True)
class Goal:
    """A figure, the value it must have, and the value it should have."""

    label: str
    must: float
    goal: float
    unit: str
    measure: Measure
    # Whether more is better, and `must` and `goal` are lower bounds.
    is_floor: bool
    format: str = ".2f"

    def row(self, results: Results) -> list[str]:
        """The cells of its row."""
        sign = "≥" if self.is_floor else "≤"
        wanted = [f"{sign} {value:g}{self.unit}" for value in (self.must, self.goal)]
        spread = self.measure(results)
        if spread is None:
            return [self.label, *wanted, "not measured", ""]
        # z: no minus before a zero.
        values = (spread.lowest, spread.median, spread.highest)
        low, middle, high = (format(value, f"z{self.format}") for value in values)
        span = "" if low == high else f" ({low}–{high})"
        return [self.label, *wanted, f"**{middle}{self.unit}**{span}", self._verdict(spread.median)]

    def _verdict(self, value: float) -> str:
        factor = 1 if self.is_floor else -1
        if factor * value >= factor * self.goal:
            return "goal reached"
        return "holds" if factor * value >= factor * self.must else "missed"


def ratio(figure: str, cell: Cell, base: Cell) -> Measure:
    """A figure of one cell divided by that of another, repeat by repeat: a disturbance of a minute hits both."""

    def measure(results: Results) -> Spread | None:
        bases = {line.repeat: line.figures[figure] for line in results.of(*base)}
        ratios = [line.figures[figure] / bases[line.repeat] for line in results.of(*cell) if bases.get(line.repeat)]
        return Spread(statistics.median(ratios), min(ratios), max(ratios)) if ratios else None

    return measure


def quotient(figure: str, cell: Cell, peer: Cell) -> Measure:
    """A figure of one cell divided by that of a peer, median by median.

    A run of a peer takes so long that runs side by side would not share their disturbances either.
    """

    def measure(results: Results) -> Spread | None:
        ours, theirs = results.spread(*cell, figure), results.spread(*peer, figure)
        if ours is None or theirs is None:
            return None
        return Spread(ours.median / theirs.median, ours.lowest / theirs.highest, ours.highest / theirs.lowest)

    return measure


def growth(finished: int) -> Measure:
    """Speed on a file with this many finished runs, divided by the speed on an empty one."""
    case = f"{finished:,} finished"
    return ratio("steps_per_s", ("W8", case, "durable"), ("W8", case, EMPTY))


def value(figure: str, cell: Cell, factor: float = 1.0) -> Measure:
    """A figure by itself."""

    def measure(results: Results) -> Spread | None:
        spread = results.spread(*cell, figure)
        return None if spread is None else Spread(*(value * factor for value in attrs.astuple(spread)))

    return measure


def difference(figure: str, cell: Cell, base: Cell, factor: float) -> Measure:
    """A figure of one cell minus the median of another."""

    def measure(results: Results) -> Spread | None:
        more, less = results.spread(*cell, figure), results.spread(*base, figure)
        if more is None or less is None:
            return None
        return Spread(*((value - less.median) * factor for value in attrs.astuple(more)))

    return measure


def _bare(case: str) -> Measure:
    return ratio("steps_per_s", ("W1", case, "durable"), ("W1", case, "bare loop"))


def _peer(name: str) -> Measure:
    return quotient("steps_per_s", ("W1", "100 at once", "durable"), ("W1", "100 at once", name))


_ALONE = "one after the other"
_W2 = ratio("p50_ms", ("W2", _ALONE, "durable"), ("W2", _ALONE, "two commits"))
_W3 = ratio("p50_ms", ("W3", "alone", "durable"), ("W3", "alone", "one commit"))
_W6 = difference(
    "rss_mib", ("W6", "1,000,000 in the store", "durable"), ("W6", "an idle engine", "durable"), factor=MIB
)

GOALS: Sequence[Goal] = (
    Goal(label="W1: steps/s against DBOS on SQLite", must=80, goal=150, unit=" ×", is_floor=True,
         measure=_peer("dbos"), format=".0f"),
    Goal(label="W1: steps/s against Restate", must=14, goal=25, unit=" ×", is_floor=True,
         measure=_peer("restate"), format=".1f"),
    Goal(label="W1: steps/s against the bare loop, 100 at once", must=0.5, goal=0.75, unit=" ×", is_floor=True,
         measure=_bare("100 at once")),
    Goal(label="W1: steps/s against the bare loop, 1,000 at once", must=0.5, goal=0.75, unit=" ×", is_floor=True,
         measure=_bare("1,000 at once")),
    Goal(label="W2 alone: start to result against two bare commits", must=1.6, goal=1.2, unit=" ×", is_floor=False,
         measure=_W2),
    Goal(label="W3 alone: send to result against one bare commit", must=1.8, goal=1.3, unit=" ×", is_floor=False,
         measure=_W3),
    Goal(label="W4: p99 of `start` while 100,000 sleepers wake up", must=250, goal=50, unit=" ms", is_floor=False,
         measure=value("start_p99_ms", ("W4", "100,000", "durable")), format=".0f"),
    Goal(label="W5: process start to ready with 1,000,000 suspended", must=2, goal=0.5, unit=" s", is_floor=False,
         measure=value("ready_s", ("W5", "1,000,000", "durable"))),
    Goal(label="W6: memory of 1,000,000 suspended above an idle engine", must=100, goal=20, unit=" MB", is_floor=False,
         measure=_W6, format=".1f"),
    Goal(label="W6: idle CPU with 10,000 waiting", must=0.5, goal=0.1, unit=" %", is_floor=False,
         measure=value("idle", ("W6", "10,000 just started", "durable"), 100.0)),
    Goal(label="W8: steps/s with 1,000,000 finished runs against an empty file", must=0.8, goal=0.95, unit=" ×",
         is_floor=True, measure=growth(1_000_000)),
)  # fmt: skip


def goals(results: Results) -> str:
    """The goals as a table."""
    return table(["", "must", "goal", "measured", ""], [goal.row(results) for goal in GOALS])

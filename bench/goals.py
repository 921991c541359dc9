"""What durable wants to reach, and how far it is: ratios within one run, never times of one machine alone."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import attrs

from bench.results import Results, Spread
from bench.tables import table
from bench.workloads.w8 import EMPTY

Cell = tuple[str, str, str]
Measure = Callable[[Results], Spread | None]

# MiB, as /proc says, in MB, as the goals say.
MIB = 1024 * 1024 / 1e6


@attrs.frozen(kw_only=True)
class Goal:
    """A figure, what it must be and what it should be."""

    what: str
    must: float
    goal: float
    unit: str
    measure: Measure
    # Whether more is better.
    is_floor: bool
    format: str = ".2f"

    def row(self, results: Results) -> list[str]:
        """The cells of its row."""
        sign = "≥" if self.is_floor else "≤"
        wanted = [f"{sign} {value:g}{self.unit}" for value in (self.must, self.goal)]
        found = self.measure(results)
        if found is None:
            return [self.what, *wanted, "not measured", ""]
        # z: no minus before a zero.
        low, middle, high = (format(value, f"z{self.format}") for value in (found.lowest, found.median, found.highest))
        spread = "" if low == high else f" ({low}–{high})"
        return [self.what, *wanted, f"**{middle}{self.unit}**{spread}", self._verdict(found.median)]

    def _verdict(self, value: float) -> str:
        factor = 1 if self.is_floor else -1
        if factor * value >= factor * self.goal:
            return "goal reached"
        return "holds" if factor * value >= factor * self.must else "missed"


def ratio(figure: str, one: Cell, other: Cell) -> Measure:
    """A figure against another one, repeat by repeat: what disturbs a minute of the run disturbs both."""

    def measure(results: Results) -> Spread | None:
        others = {line.repeat: line.figures[figure] for line in results.of(*other)}
        pairs = [line.figures[figure] / others[line.repeat] for line in results.of(*one) if others.get(line.repeat)]
        return Spread(statistics.median(pairs), min(pairs), max(pairs)) if pairs else None

    return measure


def quotient(figure: str, one: Cell, other: Cell) -> Measure:
    """A figure against that of somebody who takes so long that no two runs lie side by side: median by median."""

    def measure(results: Results) -> Spread | None:
        ours, theirs = results.spread(*one, figure), results.spread(*other, figure)
        if ours is None or theirs is None:
            return None
        return Spread(ours.median / theirs.median, ours.lowest / theirs.highest, ours.highest / theirs.lowest)

    return measure


def growth(finished: int) -> Measure:
    """Speed on a file with so many finished runs against that on an empty one."""
    case = f"{finished:,} finished"
    return ratio("steps_per_s", ("W8", case, "durable"), ("W8", case, EMPTY))


def value(figure: str, cell: Cell, factor: float = 1.0) -> Measure:
    """A figure by itself."""

    def measure(results: Results) -> Spread | None:
        found = results.spread(*cell, figure)
        return None if found is None else Spread(*(one * factor for one in attrs.astuple(found)))

    return measure


def difference(figure: str, one: Cell, other: Cell, factor: float) -> Measure:
    """How much more a figure is than another one."""

    def measure(results: Results) -> Spread | None:
        more, less = results.spread(*one, figure), results.spread(*other, figure)
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
    Goal(what="W1: steps/s against DBOS on SQLite", must=80, goal=150, unit=" ×", is_floor=True,
         measure=_peer("dbos"), format=".0f"),
    Goal(what="W1: steps/s against Restate", must=14, goal=25, unit=" ×", is_floor=True,
         measure=_peer("restate"), format=".1f"),
    Goal(what="W1: steps/s against the bare loop, 100 at once", must=0.5, goal=0.75, unit=" ×", is_floor=True,
         measure=_bare("100 at once")),
    Goal(what="W1: steps/s against the bare loop, 1,000 at once", must=0.5, goal=0.75, unit=" ×", is_floor=True,
         measure=_bare("1,000 at once")),
    Goal(what="W2 alone: start to result against two bare commits", must=1.6, goal=1.2, unit=" ×", is_floor=False,
         measure=_W2),
    Goal(what="W3 alone: send to result against one bare commit", must=1.8, goal=1.3, unit=" ×", is_floor=False,
         measure=_W3),
    Goal(what="W4: p99 of `start` while 100,000 sleepers wake up", must=250, goal=50, unit=" ms", is_floor=False,
         measure=value("start_p99_ms", ("W4", "100,000", "durable")), format=".0f"),
    Goal(what="W5: process start to ready with 1,000,000 suspended", must=2, goal=0.5, unit=" s", is_floor=False,
         measure=value("ready_s", ("W5", "1,000,000", "durable"))),
    Goal(what="W6: memory of 1,000,000 suspended above an idle engine", must=100, goal=20, unit=" MB", is_floor=False,
         measure=_W6, format=".1f"),
    Goal(what="W6: idle CPU with 10,000 waiting", must=0.5, goal=0.1, unit=" %", is_floor=False,
         measure=value("idle", ("W6", "10,000 just started", "durable"), 100.0)),
    Goal(what="W8: steps/s with 1,000,000 finished runs against an empty file", must=0.8, goal=0.95, unit=" ×",
         is_floor=True, measure=growth(1_000_000)),
)  # fmt: skip


def goals(results: Results) -> str:
    """The goals as a table."""
    return table(["", "must", "goal", "measured", ""], [one.row(results) for one in GOALS])

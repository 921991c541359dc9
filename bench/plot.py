"""The plot beside the tables. The only module that needs matplotlib, which the extra `bench` installs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from bench.goals import growth
from bench.results import Results
from bench.workloads.w8 import SIZES

# Text stays text, and equal results give equal files.
matplotlib.use("svg")
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "durable", "font.size": 9})

OURS, LIMIT, PEER = "#1b6ca8", "#9aa5b1", "#d98e32"
LIMITS = ("bare loop", "one commit", "two commits")


def draw(results: Results, path: Path) -> None:
    """Write the plot to a file."""
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    axes: Any = figure.subplots(1, 4)
    _bars(axes[0], results, "W1, 100 at once\nsteps/s", ("W1", "100 at once", "steps_per_s"))
    _bars(axes[1], results, "W2, one after the other\np50, ms", ("W2", "one after the other", "p50_ms"))
    _bars(axes[2], results, "W3, alone\np50, ms", ("W3", "alone", "p50_ms"))
    _growth(axes[3], results)
    figure.savefig(path, metadata={"Date": None})


def _bars(axis: Any, results: Results, title: str, source: tuple[str, str, str]) -> None:
    """The medians of all contenders of a case, on a logarithmic scale. `source` is workload, case and figure."""
    workload, case, figure = source
    names = dict.fromkeys(line.contender for line in results.lines if (line.workload, line.case) == (workload, case))
    medians = {name: spread.median for name in names if (spread := results.spread(workload, case, name, figure))}
    axis.set_title(title)
    if not medians:
        return
    bars = axis.bar(list(medians), list(medians.values()), color=[_colour(name) for name in medians])
    axis.bar_label(bars, labels=[f"{value:,.0f}" if value >= 100 else f"{value:.2g}" for value in medians.values()])
    axis.set_yscale("log")
    axis.margins(y=0.15)
    axis.tick_params("x", rotation=30)


def _colour(name: str) -> str:
    if name in LIMITS:
        return LIMIT
    return OURS if name.startswith("durable") else PEER


def _growth(axis: Any, results: Results) -> None:
    """The speed of W8 on ever bigger files, as a share of that on an empty one."""
    axis.set_title("W8, finished runs in the file\nspeed against an empty file")
    shares = {size: growth(size)(results) for size in SIZES}
    points = [(size, share.median) for size, share in shares.items() if share is not None]
    if not points:
        return
    axis.plot(*zip(*points, strict=True), marker="o", color=OURS)
    axis.set_xscale("log")
    axis.set_ylim(0, 1.2)

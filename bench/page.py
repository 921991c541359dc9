"""docs/benchmarks.md: what a person wrote stays, the part between the two marks is written anew."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.goals import goals
from bench.results import Results
from bench.tables import table, workloads

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
PLOT = PAGE.with_suffix(".svg")
BEGIN, END = "<!-- begin: written by make bench -->", "<!-- end: written by make bench -->"


def renewed(text: str, results: Results, *, has_plot: bool) -> str:
    """The page with the results in it."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page must hold the two lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{section(results, has_plot=has_plot)}\n\n{END}{after}"


def section(results: Results, *, has_plot: bool) -> str:
    """The generated part."""
    parts = [
        "## Figures",
        _machine(results.about),
        "### Goals",
        "A ratio to a limit is that of two runs made one after the other; here is the median over the repeats, with "
        "the lowest and the highest behind it. One to a peer is that of the medians. Times of the machine itself are "
        "in the tables below.",
        goals(results),
        f"![Steps per second, latencies, and growth]({PLOT.name})" if has_plot else "",
        workloads(results),
        "### Durability",
        "How each contender stored what it acknowledged, as the running engine says.",
        table(["", "settings"], sorted(results.settings().items())),
        _failures(results),
    ]
    return "\n\n".join(filter(None, parts))


def _machine(about: Mapping[str, Any]) -> str:
    rows = [
        ("date", about["date"]),
        ("machine", f"{about['cores']} cores, {about['memory_gb']} GB, {about['system']}, {about['file_system']}"),
        ("Python, SQLite", f"{about['python']}, {about['sqlite']}"),
        ("durable", about["durable"]),
        ("command", f"`{about['command']}`"),
    ]
    said = table(["", ""], rows)
    if not about["quick"]:
        return said
    return f"{said}\n\n**A quick look: counts are smaller than the names of the cases say.**"


def _failures(results: Results) -> str:
    rows = [[*case, why] for case, why in results.failures().items()]
    return f"### What did not run\n\n{table(['workload', 'case', '', 'why'], rows)}" if rows else ""


def write(results: Results, *, has_plot: bool) -> None:
    """Write the page."""
    PAGE.write_text(renewed(PAGE.read_text(), results, has_plot=has_plot))

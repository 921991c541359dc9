"""docs/benchmarks.md: the part between the two marks is replaced with new results; the rest was written by hand."""

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
    """The page with these results between the marks. Raises `ValueError` if it does not have both marks."""
    before, begin, behind = text.partition(BEGIN)
    _, end, after = behind.partition(END)
    if not begin or not end:
        raise ValueError(f"the page must hold the two lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{section(results, has_plot=has_plot)}\n\n{END}{after}"


def section(results: Results, *, has_plot: bool) -> str:
    """The generated part: the machine, the goals, all tables, the settings, and what failed."""
    parts = [
        "## Figures",
        _machine(results.about),
        "### Goals",
        "A ratio to a limit compares two runs made one after the other; shown is the median over the repeats, with the "
        "lowest and the highest in brackets. A ratio to a peer compares the medians. The times themselves are in the "
        "tables below.",
        goals(results),
        f"![Steps per second, latencies, and growth]({PLOT.name})" if has_plot else "",
        workloads(results),
        "### Durability",
        "How each contender stored what it acknowledged, as the running engine reports it.",
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
    facts = table(["", ""], rows)
    if not about["quick"]:
        return facts
    return f"{facts}\n\n**A quick look: counts are smaller than the names of the cases say.**"


def _failures(results: Results) -> str:
    rows = [[*case, why] for case, why in results.failures().items()]
    return f"### What did not run\n\n{table(['workload', 'case', '', 'why'], rows)}" if rows else ""


def write(results: Results, *, has_plot: bool) -> None:
    """Write the page."""
    PAGE.write_text(renewed(PAGE.read_text(), results, has_plot=has_plot))

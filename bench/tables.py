"""Results as Markdown tables. It knows results and columns, and no files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.plan import WORKLOADS
from bench.results import Results, Spread
from bench.workload import Case, Column, Workload


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [list(heads), ["---"] * len(heads), *map(list, rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def workloads(results: Results) -> str:
    """A section for each workload that has runs."""
    return "\n\n".join(filter(None, (_workload(results, workload) for workload in WORKLOADS)))


def _workload(results: Results, workload: Workload) -> str:
    rows = [row for case in workload.cases for row in _case(results, workload, case)]
    if not rows:
        return ""
    heads = ["case", "", *(column.heading for column in workload.columns), "runs", "strangers"]
    return f"### {workload.name}: {workload.title}\n\n{workload.about}\n\n{table(heads, rows)}"


def _case(results: Results, workload: Workload, case: Case) -> Iterable[list[str]]:
    failures = results.failures()
    name = case.name
    for contender in case.contenders:
        runs = results.of(workload.name, case.name, contender)
        why = failures.get((workload.name, case.name, contender))
        if not runs and why is None:
            continue
        if not runs:
            yield [name, contender, f"did not run: {why}", *[""] * (len(workload.columns) + 1)]
        else:
            figures = [cell(results, workload, case, contender, column) for column in workload.columns]
            strangers = max(run.figures.get("strangers", 0.0) for run in runs)
            yield [name, contender, *figures, str(len(runs)), f"{strangers:.0%}"]
        name = ""


def cell(results: Results, workload: Workload, case: Case, contender: str, column: Column) -> str:
    """The median with the lowest and the highest in brackets; empty if this contender does not have the figure."""
    spread = results.spread(workload.name, case.name, contender, column.figure)
    return "" if spread is None else shown(spread, column)


def shown(spread: Spread, column: Column) -> str:
    """A spread as the text of a cell."""
    low, middle, high = (
        format(value * column.factor, column.format) for value in (spread.lowest, spread.median, spread.highest)
    )
    return middle if low == high else f"**{middle}** ({low}–{high})"

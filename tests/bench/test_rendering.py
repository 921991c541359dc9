"""From lines of results to tables, goals and the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import page
from bench.goals import GOALS, goals
from bench.results import Line, Results, Spread, read, read_file
from bench.tables import shown, workloads
from bench.workload import Column

ABOUT = {
    "date": "2026-01-02",
    "cores": 2,
    "memory_gb": 8,
    "system": "Linux x86_64",
    "file_system": "ext4",
    "python": "3.11.7",
    "sqlite": "3.40.1",
    "durable": "0.1.0",
    "command": "python -m bench",
    "quick": False,
}


def line(workload: str, case: str, contender: str, repeat: int = 0, **figures: float) -> Line:
    """A run with these figures."""
    return Line(workload=workload, case=case, contender=contender, repeat=repeat, figures=figures, settings="WAL")


def results(*lines: Line, **about: Any) -> Results:
    """Results as they are read from a file."""
    return read([json.dumps({"about": ABOUT | about}), *(result.to_json() for result in lines), ""])


def w1(contender: str, *rates: float) -> list[Line]:
    """Runs of W1, 100 at once."""
    return [line("W1", "100 at once", contender, number, steps_per_s=rate) for number, rate in enumerate(rates)]


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    """The lines of results and the line about the machine are read back as written."""
    lines = [line("W1", "100 at once", "durable", 2, steps_per_s=5.5), Line(
        workload="W2", case="x", contender="dbos", did_not_run="npm is missing")]  # fmt: skip
    path = tmp_path / "results.jsonl"
    path.write_text("\n".join([json.dumps({"about": ABOUT}), *(result.to_json() for result in lines)]))
    read_back = read_file(path)
    assert (read_back.about, read_back.lines) == (ABOUT, lines)
    assert read_back.failures() == {("W2", "x", "dbos"): "npm is missing"}
    assert read_back.spread("W1", "100 at once", "durable", "steps_per_s") == Spread(5.5, 5.5, 5.5)
    assert read_back.spread("W1", "100 at once", "dbos", "steps_per_s") is None


def test_cell_is_the_median_with_the_spread() -> None:
    """A cell has the median, then the lowest and the highest. A share is shown in per cent."""
    column = Column(figure="x", heading="x", format=",.1f")
    assert shown(Spread(2000.04, 1.0, 3.0), column) == "**2,000.0** (1.0–3.0)"
    assert shown(Spread(2.0, 2.01, 1.99), column) == "2.0"
    assert shown(Spread(0.5, 0.5, 0.5), Column(figure="x", heading="x", factor=100.0)) == "50"


def test_table_has_a_row_for_each_contender_that_was_run() -> None:
    """Rows are in the order of the case, its name appears once, and a contender that did not run has no row."""
    table = workloads(results(*w1("durable", 300.0, 100.0, 200.0), *w1("bare loop", 400.0)))
    rows = [row for row in table.splitlines() if row.startswith("| ")]
    assert rows[2:] == [
        "| 100 at once | bare loop | 400 |  |  |  | 1 | 0% |",
        "|  | durable | **200** (100–300) |  |  |  | 3 | 0% |",
    ]
    assert "### W1" in table
    assert "### W2" not in table


def test_table_says_why_a_contender_did_not_run() -> None:
    """A contender that did not run has its reason in its row, and the others are shown."""
    failed = Line(workload="W1", case="100 at once", contender="restate", did_not_run="npm is missing")
    table = workloads(results(*w1("durable", 300.0), failed))
    assert "|  | restate | did not run: npm is missing |" in table
    assert "| 100 at once | durable | 300 |" in table


@pytest.mark.parametrize(
    ("bare", "ours", "measured"),
    [
        # Three pairs with 0.5, 0.8 and 0.6. The ratio of the medians would be 0.5.
        ((100.0, 200.0, 400.0), (50.0, 160.0, 240.0), "**0.60 ×** (0.50–0.80) | holds"),
        ((100.0,), (80.0,), "**0.80 ×** | goal reached"),
        ((100.0,), (49.0,), "**0.49 ×** | missed"),
        # The third run of ours has no partner.
        ((100.0, 100.0), (60.0, 60.0, 1.0), "**0.60 ×** | holds"),
        ((), (80.0,), "not measured | "),
    ],
)
def test_goal_is_a_ratio_of_pairs(bare: tuple[float, ...], ours: tuple[float, ...], measured: str) -> None:
    """Runs of the same repeat are compared, and the median of their ratios is judged."""
    table = goals(results(*w1("bare loop", *bare), *w1("durable", *ours)))
    assert f"| W1: steps/s against the bare loop, 100 at once | ≥ 0.5 × | ≥ 0.75 × | {measured} |" in table


def test_goal_against_a_peer_is_the_ratio_of_medians() -> None:
    """Peers run less often and longer, so the spread is that of the best and the worst runs."""
    table = goals(results(*w1("dbos", 10.0, 20.0), *w1("durable", 900.0, 1500.0, 3000.0)))
    assert "| W1: steps/s against DBOS on SQLite | ≥ 80 × | ≥ 150 × | **100 ×** (45–300) | holds |" in table


def test_goal_with_a_ceiling_is_met_from_below() -> None:
    """Less is better for memory, times and idle CPU."""
    table = goals(
        results(
            line("W6", "1,000,000 in the store", "durable", rss_mib=60.0),
            line("W6", "an idle engine", "durable", rss_mib=30.0),
            line("W6", "10,000 just started", "durable", idle=0.0005),
            line("W5", "1,000,000", "durable", ready_s=2.5),
        )
    )
    assert "| ≤ 100 MB | ≤ 20 MB | **31.5 MB** | holds |" in table
    assert "| ≤ 0.5 % | ≤ 0.1 % | **0.05 %** | goal reached |" in table
    assert "| ≤ 2 s | ≤ 0.5 s | **2.50 s** | missed |" in table


def test_goals_exceed_their_minimum() -> None:
    """A goal lies beyond its minimum, in its own direction."""
    for goal in GOALS:
        assert (goal.goal > goal.must) is goal.is_floor, goal.label


def test_page_keeps_what_a_person_wrote() -> None:
    """Only the text between the marks is renewed, and renewing twice is the same as once."""
    text = f"# Benchmarks\n\nwords\n\n{page.BEGIN}\nold\n{page.END}\nmore words\n"
    once = page.renewed(text, results(*w1("durable", 300.0)), has_plot=True)
    assert once.startswith(f"# Benchmarks\n\nwords\n\n{page.BEGIN}\n")
    assert once.endswith(f"{page.END}\nmore words\n")
    assert "old" not in once
    assert "benchmarks.svg" in once
    assert "| durable | WAL |" in once
    assert "What did not run" not in once
    assert page.renewed(once, results(*w1("durable", 300.0)), has_plot=True) == once


def test_page_without_marks_is_refused() -> None:
    """A page without marks is refused, so that nothing is lost by mistake."""
    with pytest.raises(ValueError, match="must hold the two lines"):
        page.renewed("words", results(), has_plot=False)


def test_page_tells_a_quick_look_from_a_figure() -> None:
    """Small counts are always marked as a quick look, and what did not run is listed with its reason."""
    failed = Line(workload="W1", case="100 at once", contender="restate", did_not_run="npm is missing")
    section = page.section(results(failed, quick=True), has_plot=False)
    assert "A quick look" in section
    assert "| W1 | 100 at once | restate | npm is missing |" in section
    assert "benchmarks.svg" not in section
    assert "A quick look" not in page.section(results(), has_plot=False)


def test_page_in_docs_has_its_marks() -> None:
    """The page in docs can be renewed."""
    page.renewed(page.PAGE.read_text(), results(), has_plot=False)


@pytest.mark.timeout(120)  # matplotlib looks for fonts when it is first imported
def test_plot_shows_who_was_measured(tmp_path: Path) -> None:
    """The picture names every contender of a panel as text, and has no date, so only figures change it."""
    plot = pytest.importorskip("bench.plot", reason="matplotlib comes with the extra `bench`", exc_type=ImportError)
    grown = line("W8", "1,000 finished", "durable", steps_per_s=9)
    plot.draw(results(*w1("durable", 300.0), *w1("bare loop", 400.0), grown), tmp_path / "plot.svg")
    picture = (tmp_path / "plot.svg").read_text()
    assert all(f">{text}</text>" in picture for text in ("durable", "bare loop", "300", "400"))
    assert "dc:date" not in picture

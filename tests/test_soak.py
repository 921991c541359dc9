"""People run the soak for hours. Here it starts, reports its figures, and notices broken promises."""

from __future__ import annotations

import pytest

from simulation.runs import Runs
from simulation.violation import Violation
from tests import soak


def test_soak_without_time_has_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    """Without time nothing is tried, and the page says so."""
    page = soak.Page(0.0)
    lines = page.lines(soak.soak(0.0, 7, page), 7)
    assert [line.split()[-1] for line in lines if line.startswith(("kill -9", "broken"))] == ["load)", "0"]
    assert capsys.readouterr().out == ""


def test_soak_ends_with_the_first_broken_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing turn is reported with its number, the other turns still run once, and then the soak ends."""
    numbers: list[int] = []

    def broken(_page: soak.Page, number: int) -> None:
        raise AssertionError("an acknowledged start is lost")

    def sound(_page: soak.Page, number: int) -> None:
        numbers.append(number)

    monkeypatch.setattr(soak, "TURNS", (broken, sound))
    monkeypatch.setattr(soak, "_simulate", _nothing)
    page = soak.Page(1.0)
    soak.soak(1.0, 7, page)
    assert numbers == [0]
    assert page.problems[0].startswith("broken 0:")
    assert "an acknowledged start is lost" in page.problems[0]


def _nothing(_first_seed: int, _seconds: float) -> Runs:
    return Runs()


def test_page_lists_failed_seeds() -> None:
    """A seed that broke an invariant is on the page, with what it broke."""
    runs = Runs(failures={9: Violation("I5", "two ends")})
    assert soak.Page(1.0).lines(runs, 7)[-1] == "seed 9: I5: two ends"

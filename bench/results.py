"""Lines of results: one JSON object per run, and a first one that says where and how they were taken."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class Line:
    """One run: its figures, or why there are none."""

    workload: str
    case: str
    contender: str
    repeat: int = 0
    sizes: dict[str, float] = attrs.field(factory=dict)
    figures: dict[str, float] = attrs.field(factory=dict)
    settings: str = ""
    did_not_run: str = ""

    def to_json(self) -> str:
        """As one line of text."""
        return json.dumps(attrs.asdict(self), ensure_ascii=False)


@attrs.frozen
class Spread:
    """A figure over several runs."""

    median: float
    lowest: float
    highest: float


@attrs.frozen(kw_only=True)
class Results:
    """All lines of a session."""

    about: dict[str, Any]
    lines: list[Line]

    def of(self, workload: str, case: str, contender: str) -> list[Line]:
        """The runs of one contender that came to figures."""
        wanted = (workload, case, contender)
        return [one for one in self.lines if (one.workload, one.case, one.contender) == wanted and one.figures]

    def spread(self, workload: str, case: str, contender: str, figure: str) -> Spread | None:
        """A figure over the repeats; None when nobody has measured it."""
        values = [one.figures[figure] for one in self.of(workload, case, contender) if figure in one.figures]
        return Spread(statistics.median(values), min(values), max(values)) if values else None

    def failures(self) -> dict[tuple[str, str, str], str]:
        """Workload, case and contender of the runs that did not come to anything, and why."""
        return {(one.workload, one.case, one.contender): one.did_not_run for one in self.lines if one.did_not_run}

    def settings(self) -> dict[str, str]:
        """How each contender stored what it acknowledged."""
        return {one.contender: one.settings for one in self.lines if one.settings}


def read(lines: Iterable[str]) -> Results:
    """The results that some lines of text hold."""
    first, *others = [json.loads(line) for line in lines if line.strip()]
    return Results(about=first["about"], lines=[Line(**one) for one in others])


def read_file(path: Path) -> Results:
    """The results in a file."""
    return read(path.read_text().splitlines())

"""Lines of results: one JSON object per run, after a first one that says where and how they were measured."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class Line:
    """One run: its figures, or the reason why it has none."""

    workload: str
    case: str
    contender: str
    repeat: int = 0
    sizes: dict[str, float] = attrs.field(factory=dict)
    figures: dict[str, float] = attrs.field(factory=dict)
    settings: str = ""
    did_not_run: str = ""

    def to_json(self) -> str:
        """The run as one line of JSON."""
        return json.dumps(attrs.asdict(self), ensure_ascii=False)


@attrs.frozen
class Spread:
    """A figure over the repeats of a case."""

    median: float
    lowest: float
    highest: float


@attrs.frozen(kw_only=True)
class Results:
    """All lines of one session of `make bench`."""

    about: dict[str, Any]
    lines: list[Line]

    def of(self, workload: str, case: str, contender: str) -> list[Line]:
        """The runs of one contender that have figures."""
        wanted = (workload, case, contender)
        return [line for line in self.lines if (line.workload, line.case, line.contender) == wanted and line.figures]

    def spread(self, workload: str, case: str, contender: str, figure: str) -> Spread | None:
        """A figure over the repeats; None if no run has it."""
        values = [line.figures[figure] for line in self.of(workload, case, contender) if figure in line.figures]
        return Spread(statistics.median(values), min(values), max(values)) if values else None

    def failures(self) -> dict[tuple[str, str, str], str]:
        """Workload, case and contender of the runs that failed, and why."""
        return {(line.workload, line.case, line.contender): line.did_not_run for line in self.lines if line.did_not_run}

    def settings(self) -> dict[str, str]:
        """How each contender stored what it acknowledged."""
        return {line.contender: line.settings for line in self.lines if line.settings}


def read(lines: Iterable[str]) -> Results:
    """The results in lines of text."""
    first, *runs = [json.loads(line) for line in lines if line.strip()]
    return Results(about=first["about"], lines=[Line(**run) for run in runs])


def read_file(path: Path) -> Results:
    """The results in a file."""
    return read(path.read_text().splitlines())

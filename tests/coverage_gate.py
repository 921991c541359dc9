"""How much of durable the tests must cover, as a command: `python tests/coverage_gate.py coverage.json`.

The pure parts (the runner and the decisions) are covered completely, every branch. Everything else together is covered
to 95 %. A file named here that the report does not have is an error, so that a rename cannot lower the bar unnoticed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

# Rooms in which every file is covered completely.
WHOLE_ROOMS = ("durable/runner/", "durable/engine/state/", "durable/engine/decide/", "durable/engine/repair/")
# Single files that are covered completely.
WHOLE_FILES = ("durable/engine/coordinator/decisions.py", "durable/model/schedule.py")
REST_PERCENT = 95.0

Files = dict[str, dict[str, Any]]


def is_whole(path: str) -> bool:
    """Whether every branch of a file must be covered."""
    return path in WHOLE_FILES or path.startswith(WHOLE_ROOMS)


def unknown_names(files: Files) -> list[str]:
    """Names in the tables above that the report does not have."""
    missing = [
        f"{name}: named in {Path(__file__).name}, not in the report" for name in WHOLE_FILES if name not in files
    ]
    for room in WHOLE_ROOMS:
        if not any(path.startswith(room) for path in files):
            missing.append(f"{room}: named in {Path(__file__).name}, no file of it is in the report")
    return missing


def ranges(lines: list[int]) -> str:
    """Line numbers in short form: `3-5, 9`."""
    spans: list[list[int]] = []
    for line in sorted(lines):
        if spans and line == spans[-1][1] + 1:
            spans[-1][1] = line
        else:
            spans.append([line, line])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def holes(path: str, report: dict[str, Any]) -> list[str]:
    """What the tests did not reach in one file, as `file:line what`."""
    lines: list[int] = report["missing_lines"]
    gaps = [f"{path}:{lines[0]} never run: {ranges(lines)}"] if lines else []
    for start, end in report["missing_branches"]:
        if start not in lines:
            gaps.append(f"{path}:{start} never goes to {'the end' if end < 0 else f'line {end}'}")
    return gaps


def percent(reports: list[dict[str, Any]]) -> float:
    """The share of covered lines and branches of several files together."""
    summaries = [report["summary"] for report in reports]
    total = sum(summary["num_statements"] + summary["num_branches"] for summary in summaries)
    covered = sum(summary["covered_lines"] + summary["covered_branches"] for summary in summaries)
    return 100.0 * covered / total if total else 100.0


def problems(files: Files) -> list[str]:
    """Everything that keeps the gate closed. Empty if it is open."""
    gaps = unknown_names(files)
    for path in sorted(files):
        if is_whole(path):
            gaps += holes(path, files[path])
    rest = {path: report for path, report in files.items() if not is_whole(path)}
    together = percent(list(rest.values()))
    if together < REST_PERCENT:
        gaps.append(f"the rest of durable is covered to {together:.1f} %, {REST_PERCENT:g} % are required")
    return gaps


def low_files(files: Files) -> list[str]:
    """Files below the bar for the rest, worst first. They are listed even if the total is high enough."""
    low = [(percent([report]), path, report) for path, report in files.items() if not is_whole(path)]
    return [
        f"{path} {share:.1f} %, never run: {ranges(report['missing_lines']) or 'no line, but branches'}"
        for share, path, report in sorted(low, key=lambda row: row[:2])
        if share < REST_PERCENT
    ]


def main(report: str) -> int:
    """Print what is missing. Returns 0 if the gate is open."""
    read: Files = json.loads(Path(report).read_text())["files"]
    files = {path.replace("\\", "/"): file_report for path, file_report in read.items()}
    for line in low_files(files):
        print(f"coverage: below {REST_PERCENT:g} %: {line}")
    blocking = problems(files)
    for line in blocking:
        print(f"coverage: {line}")
    if not blocking:
        whole = sum(map(is_whole, files))
        rest = percent([file_report for path, file_report in files.items() if not is_whole(path)])
        print(f"coverage: {whole} files of the runner and the decisions 100 %, the rest {rest:.1f} %")
    return 1 if blocking else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

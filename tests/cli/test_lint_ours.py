"""The lint over durable's own examples, docs and scenarios reports only what is wrong on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

from durable.cli.lint.files import find_files, read_text
from durable.cli.lint.findings import Linted, lint
from tests.test_docs import blocks

ROOT = Path(__file__).parents[2]
# Code that is wrong because a test or a page shows how it fails, as (file, code).
ON_PURPOSE = {
    ("determinism.md", "DUR101"),
    ("test_endings.py", "DUR103"),
    ("test_forgotten_calls.py", "DUR101"),
    ("test_schedules.py", "DUR105"),
    ("test_sync_engine.py", "DUR105"),
}


def linted_documents() -> Linted:
    """Every piece of Python in the docs, each as its own file."""
    pieces = [block for block in blocks() if block.info.startswith("python")]
    return lint((Path(f"{number}") / block.page, block.code) for number, block in enumerate(pieces))


def linted_folder(name: str) -> Linted:
    """A folder of this repository."""
    return lint((path, read_text(path)) for path in find_files([str(ROOT / name)]))


@pytest.mark.parametrize(
    ("source", "bodies"), [("examples", 2), ("tests/scenarios", 100), ("bench", 3), ("documents", 30)]
)
def test_no_false_alarm(source: str, bodies: int) -> None:
    """Working workflows have no findings except what is wrong on purpose."""
    linted = linted_documents() if source == "documents" else linted_folder(source)
    assert linted.bodies >= bodies
    alarms = [finding for finding in linted.findings if (Path(finding.path).name, finding.code) not in ON_PURPOSE]
    assert not alarms, "\n".join(map(str, alarms))


def test_broken_workflows_of_the_tests_are_reported() -> None:
    """The tests of the guards break every rule about operations, and the lint reports most of them."""
    reported = [finding.code for finding in linted_folder("tests/runner").findings]
    assert reported.count("DUR101") >= 10
    assert reported.count("DUR102") >= 3
    assert "DUR004" in reported

"""The lint over durable's own examples, documents and scenarios: what it finds there is really wrong, on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

from durable.cli.lint.files import find_files, read_text
from durable.cli.lint.findings import Linted, lint
from tests.test_docs import blocks

ROOT = Path(__file__).parents[2]
# What stands there because a test or a page shows how it goes wrong, as (file, code).
ON_PURPOSE = {
    ("determinism.md", "DUR101"),
    ("test_endings.py", "DUR103"),
    ("test_forgotten_calls.py", "DUR101"),
    ("test_schedules.py", "DUR105"),
    ("test_sync_engine.py", "DUR105"),
}


def linted_documents() -> Linted:
    """Every piece of Python in the documents, each as a file of its own."""
    pieces = [one for one in blocks() if one.info.startswith("python")]
    return lint((Path(f"{number}") / one.page, one.code) for number, one in enumerate(pieces))


def linted_folder(name: str) -> Linted:
    """A folder of this repository."""
    return lint((path, read_text(path)) for path in find_files([str(ROOT / name)]))


@pytest.mark.parametrize(
    ("source", "bodies"), [("examples", 2), ("tests/scenarios", 100), ("bench", 3), ("documents", 30)]
)
def test_no_false_alarm(source: str, bodies: int) -> None:
    """In many working workflows nothing is found but what is wrong on purpose."""
    linted = linted_documents() if source == "documents" else linted_folder(source)
    assert linted.bodies >= bodies
    alarms = [one for one in linted.findings if (Path(one.path).name, one.code) not in ON_PURPOSE]
    assert not alarms, "\n".join(map(str, alarms))


def test_broken_workflows_of_the_tests_are_found() -> None:
    """The tests of the guards break every rule about operations, and most are seen by reading."""
    found = [one.code for one in linted_folder("tests/runner").findings]
    assert found.count("DUR101") >= 10
    assert found.count("DUR102") >= 3
    assert "DUR004" in found

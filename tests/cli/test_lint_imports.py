"""What the lint knows of imported names: from a star, and from files that are not checked themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from durable.cli.lint.findings import lint

ACTIVITIES = """
from durable import activity, sleep

@activity
def charge(order: str) -> bool:
    return True

def helper(order):
    yield from charge(order)
    yield from sleep(1)
"""
BODY = """

@workflow
def checkout(order: str):
    {statement}
    yield from sleep(1)
"""


def codes_of(path: Path) -> list[str]:
    """The codes of the findings in this one file."""
    return [finding.code for finding in lint([(path, path.read_text())]).findings]


def shop(folder: Path, header: str, statement: str) -> Path:
    """A package with activities, and a file that is checked alone."""
    package = folder / "shop"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "activities.py").write_text(ACTIVITIES)
    (package / "broken.py").write_text("def (")
    path = package / "workflows.py"
    path.write_text(header + BODY.format(statement=statement))
    return path


HEADERS = {
    "absolute": "from durable import sleep, workflow\nfrom shop.activities import charge, helper",
    "relative": "from durable import sleep, workflow\nfrom .activities import charge, helper",
    "star": "from durable import *\nfrom shop.activities import *",
    "relative star": "from durable import *\nfrom .activities import *",
    "star of a star": "from shop.activities import *\nfrom .broken import *\nfrom durable import workflow, sleep",
}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("charge(order)", ["DUR101"]),
        ("x = 1 if charge(order) else 2", ["DUR106"]),
        ("helper(order)", ["DUR101"]),
        ("yield from charge(order)", []),
        ("yield from helper(order)", []),
        ("unknown(order)", []),
        ("checkout.continue_as(order)", ["DUR108"]),
        ("x = 1 if helper(order) else 2", ["DUR106"]),
    ],
)
@pytest.mark.parametrize("header", HEADERS)
def test_lint_knows_activities_and_helpers_of_other_files(
    tmp_path: Path, header: str, statement: str, expected: list[str]
) -> None:
    """A file that is checked alone is checked with its imports, and the imported files are not reported."""
    assert codes_of(shop(tmp_path, HEADERS[header], statement)) == expected


def test_lint_knows_modules_that_are_imported_whole(tmp_path: Path) -> None:
    """`from shop import activities` and `import shop.activities` are followed too."""
    header = "from durable import sleep, workflow\nfrom shop import activities\nimport shop.activities as acts"
    assert codes_of(shop(tmp_path, header, "activities.charge(order); acts.charge(order)")) == ["DUR101", "DUR101"]


def test_lint_finds_modules_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's own packages are found where Python would find them, and installed packages are not read."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "billing.py").write_text(ACTIVITIES)
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    path = tmp_path / "w.py"
    text = "from durable import *\nfrom billing import charge\nimport attrs\n"
    path.write_text(text + BODY.format(statement="charge(order); attrs.asdict(order)"))
    assert codes_of(path) == ["DUR101"]


@pytest.mark.parametrize("statement", ["charge(order)", "if charge(order): pass", "return charge(order)"])
def test_lint_understands_a_star_of_durable(tmp_path: Path, statement: str) -> None:
    """A file that imports everything from durable is checked like any other."""
    path = tmp_path / "w.py"
    header = "from durable import *\n\n@activity\ndef charge(order: str) -> bool: ...\n"
    path.write_text(header + BODY.format(statement=statement))
    assert codes_of(path) == [{"c": "DUR101", "i": "DUR106", "r": "DUR101"}[statement[0]]]


def test_lint_counts_workflows_behind_a_star(tmp_path: Path) -> None:
    """The report says that a body was checked."""
    path = tmp_path / "w.py"
    path.write_text("from durable import *\n" + BODY.format(statement="pass"))
    assert lint([(path, path.read_text())]).bodies == 1

"""Which Pythons `make pythons` runs and `make test` takes, and that the package claims no others."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from tests import pythons

CURRENT = sys.version_info[:2]


def fake(folder: Path, name: str, says: str) -> str:
    """A program that answers like an interpreter."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{says}\n")
    path.chmod(0o755)
    return str(path)


def test_interpreters_are_asked_for_their_version(tmp_path: Path) -> None:
    """The first interpreter of each version counts. Those that do not run, or are too old or too new, do not."""
    paths = [
        fake(tmp_path, "shim", "exit 127"), fake(tmp_path, "new", "echo 3 15"), fake(tmp_path, "old", "echo 3 10"),
        fake(tmp_path, "b", "echo 3 13"), fake(tmp_path, "a", "echo 3 12"), fake(tmp_path, "c", "echo 3 13"),
    ]  # fmt: skip
    assert pythons.interpreters(paths) == {(3, 12): paths[4], (3, 13): paths[3]}


def test_newest_other_interpreter_is_taken() -> None:
    """The newest version other than the current one is taken, if there is one."""
    by_version = {(3, 11): "a", (3, 12): "b", (3, 13): "c"}
    assert pythons.newest_other(by_version, (3, 11)) == {(3, 13): "c"}
    assert pythons.newest_other(by_version, (3, 13)) == {(3, 12): "b"}
    assert pythons.newest_other({(3, 11): "a"}, (3, 11)) == {}


def test_machine_with_one_python_says_what_was_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without another interpreter nothing runs, and a line says so."""
    monkeypatch.setattr(pythons, "candidates", lambda: [sys.executable])
    assert pythons.main(["--newest"]) == 0
    assert capsys.readouterr().out.startswith("skipped: no other Python")


def test_slow_tests_that_are_left_out_exist() -> None:
    """The names of slow tests exist, because a renamed one would be run after all."""
    assert [name for name in pythons.SLOW if not (pythons.ROOT / "tests" / name).exists()] == []


def test_package_claims_the_pythons_that_are_tried() -> None:
    """The classifiers name exactly the versions from the oldest to the newest that is tried."""
    project = tomllib.loads((pythons.ROOT / "pyproject.toml").read_text())["project"]
    label = "Programming Language :: Python :: 3."
    claimed = [
        int(classifier.removeprefix(label)) for classifier in project["classifiers"] if classifier.startswith(label)
    ]
    assert project["requires-python"] == f">={pythons.name_of(pythons.OLDEST)}"
    assert claimed == sorted(claimed)
    assert (claimed[0], CURRENT >= pythons.OLDEST) == (pythons.OLDEST[1], True)
    assert claimed[-1] <= pythons.NEWEST[1]

"""`lint` as a command: which files it reads, what it can ignore, what it prints and how it ends."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from durable.cli.lint.codes import RULES
from tests.cli.kit import codes, module, run

BAD = module("time.time()\nprint(order)\nyield from sleep(1)")
GOOD = module("yield from sleep(1)")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in which the command runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def write(path: Path, text: str) -> Path:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_findings_are_lines_that_an_editor_can_jump_to(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A finding is `file:line:column: code`, the last line counts the findings, and the exit code is 1."""
    write(here / "shop" / "flows.py", BAD)
    ran = run(capsys, "lint", "shop")
    first, second, last = ran.out.splitlines()
    assert ran.code == 1
    assert first.startswith("shop/flows.py:")
    assert ": DUR001 time.time() reads the clock in workflow body; use now()" in first
    assert ": DUR008 " in second
    assert last == "2 found in 2 functions of workflows in 1 files; why: durable lint --explain DUR001"


def test_nothing_found_is_zero(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Clean files end with 0. The number of checked files is printed, so that checking none is noticed."""
    write(here / "flows.py", GOOD)
    ran = run(capsys, "lint", "flows.py")
    assert (ran.code, ran.out) == (0, "2 functions of workflows in 1 files: nothing found\n")
    write(here / "none.py", "")
    assert run(capsys, "lint", "none.py").out == "0 functions of workflows in 1 files: nothing found\n"


@pytest.mark.parametrize("word", ["shop", "shop/", "shop/flows.py", "shop.flows", "shop/flows.py shop shop.flows"])
def test_file_folder_and_package_are_found_once(here: Path, capsys: pytest.CaptureFixture[str], word: str) -> None:
    """However a file is named, and however often, it is read once, and its code is never imported."""
    trap = "raise SystemExit('was imported')\n"
    write(here / "shop" / "__init__.py", trap)
    write(here / "shop" / "flows.py", trap + BAD)
    ran = run(capsys, "lint", *word.split())
    assert ran.out.count("DUR001 ") == 1
    assert "shop" not in sys.modules


def test_package_that_is_installed_elsewhere_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package is found where Python would import it from, with all its modules."""
    write(tmp_path / "site" / "shop" / "inner" / "flows.py", BAD)
    write(tmp_path / "site" / "shop" / "__init__.py", "raise SystemExit('was imported')")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert "../site/shop/inner/flows.py:" in run(capsys, "lint", "shop").out
    assert "in 1 files" in run(capsys, "lint", "shop.inner").out
    assert run(capsys, "lint", "msgspec._core").code == 2


@pytest.mark.parametrize("word", ["nowhere", "nowhere.flows", "shop.nowhere", "shop.flows.nowhere", "sys", "./x.py"])
def test_unknown_path_is_refused(here: Path, capsys: pytest.CaptureFixture[str], word: str) -> None:
    """An unknown path ends with 2 and is named."""
    write(here / "shop" / "__init__.py", "")
    write(here / "shop" / "flows.py", BAD)
    ran = run(capsys, "lint", word)
    assert (ran.code, ran.out) == (2, "")
    assert f"Error: {word}: there is no such file, folder or package" in ran.err


def test_folders_of_others_are_skipped(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Hidden folders, caches and virtual environments are skipped."""
    for folder in (".git", "__pycache__", "node_modules", "env/lib", "src"):
        write(here / folder / "flows.py", BAD)
    write(here / "env" / "pyvenv.cfg", "")
    ran = run(capsys, "lint", ".")
    assert "in 1 files" in ran.out
    assert ran.out.startswith("src/flows.py:")


def test_file_that_cannot_be_read_is_a_finding(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not Python, or not text, is a finding with its line, and does not stop the others."""
    write(here / "a.py", "x = 1\ndef (")
    (here / "b.py").write_bytes(b"\xff\xfe\x00")
    (here / "c.py").write_bytes(b"x = '\0'")
    write(here / "d.py", BAD)
    write(here / "e.py", "x = " + "(" * 10_000)
    ran = run(capsys, "lint", ".")
    unreadable = [line.split(":")[0] for line in ran.out.splitlines() if "DUR000 cannot be checked" in line]
    assert unreadable == ["a.py", "b.py", "c.py", "e.py"]
    assert "a.py:2:1: " in ran.out
    assert "DUR001" in ran.out


def test_file_that_may_not_be_read_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that the system does not let us read ends with 2 and the reason."""
    os.symlink("loop.py", here / "loop.py")
    ran = run(capsys, "lint", ".")
    assert ran.code == 2
    assert "loop.py" in ran.err


def test_json_is_one_document(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` prints a list with every field, even if it is empty."""
    write(here / "flows.py", BAD)
    first, second = json.loads(run(capsys, "lint", ".", "--json").out)
    assert first.keys() == {
        "path", "line", "column", "end_line", "code", "message", "fix", "function", "workflow",
    }  # fmt: skip
    assert (first["code"], first["path"], first["function"]) == ("DUR001", "flows.py", "body")
    assert second["fix"] == RULES["DUR008"].fix
    assert json.loads(run(capsys, "lint", ".", "--json", "--select", "DUR1").out) == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--select", "DUR001"], ["DUR001"]),
        (["--select", "dur0"], ["DUR001", "DUR008"]),
        (["--select", "DUR008,DUR103"], ["DUR008"]),
        (["--ignore", "DUR008"], ["DUR001"]),
        (["--ignore", "DUR001", "--ignore", "DUR008"], []),
        (["--select", "DUR0", "--ignore", "DUR001"], ["DUR008"]),
    ],
)
def test_codes_can_be_chosen(
    here: Path, capsys: pytest.CaptureFixture[str], options: list[str], expected: list[str]
) -> None:
    """`--select` and `--ignore` take codes, groups and lists of them, and decide the exit code."""
    write(here / "flows.py", BAD)
    ran = run(capsys, "lint", ".", "--json", *options)
    assert [finding["code"] for finding in json.loads(ran.out)] == expected
    assert ran.code == bool(expected)


@pytest.mark.parametrize("options", [["--select", "DUR999"], ["--ignore", "E501"], ["--explain", "DUR1"]])
def test_code_that_does_not_exist_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    """A typo in a code is refused, not taken for "nothing found"."""
    ran = run(capsys, "lint", ".", *options)
    assert ran.code == 2
    assert "there is no code" in ran.err
    assert "DUR001" in ran.err


def test_explain_needs_no_path(capsys: pytest.CaptureFixture[str]) -> None:
    """`--explain` prints the rule and ends with 0."""
    ran = run(capsys, "lint", "--explain", "dur103")
    assert ran.code == 0
    assert ran.out.startswith("DUR103: operation in a finally block\n")


IGNORED = {
    "time.time()  # durable: ignore[DUR001]": [],
    "time.time()  # durable: ignore": [],
    "time.time()  # noqa: X  # durable:ignore[DUR003, DUR001] because": [],
    "time.time()  # durable: ignore[DUR003]": ["DUR001"],
    "time.time()  # ignore[DUR001]": ["DUR001"],
    "x = '# durable: ignore'; time.time()": ["DUR001"],
    "open(  # durable: ignore[DUR003]\n    'a',\n)": [],
    "open(\n    'a',\n)  # durable: ignore[DUR003]": [],
    "open(\n    'a',  # durable: ignore[DUR003]\n)": ["DUR003"],
    "# durable: ignore[DUR001]\ntime.time()": ["DUR001"],
}


@pytest.mark.parametrize("statement", IGNORED)
def test_comment_leaves_a_finding_out(statement: str) -> None:
    """A comment on the first or last line of a finding hides the codes that it names. Only a comment does."""
    assert codes(module(f"{statement}\nyield from sleep(1)")) == IGNORED[statement]

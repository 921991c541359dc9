"""A program without an event loop that forks, or is interrupted at a bad moment."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).with_name("sync_scripts.py")


def run(name: str, store: Path) -> list[Any]:
    """The output of a program, which must exit by itself."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", str(SCRIPTS), name, str(store)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=25)
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.mark.parametrize(("name", "code"), [("fork_and_exit", 7), ("fork_and_fall_through", 0), ("fork_and_fail", 1)])
def test_forked_child_is_refused_and_ends(tmp_path: Path, name: str, code: int) -> None:
    """In the child every call raises `EngineForked`, and leaving the block and the program does not hang."""
    assert run(name, tmp_path / "store.db") == [["child", [True]], ["parent", code, 1]]


def test_interrupt_while_opening_leaves_nothing_behind(tmp_path: Path) -> None:
    """Ctrl-C while the store is being opened is raised immediately, and the file can be opened again."""
    assert run("interrupt_opening", tmp_path / "store.db") == ["interrupted", 0]


def test_interrupt_at_any_line_of_enter_leaves_nothing_behind(tmp_path: Path) -> None:
    """At whichever line of `__enter__` Ctrl-C arrives, nothing hangs, and the file can be opened again."""
    assert run("interrupt_everywhere", tmp_path / "store.db") == [True]


def test_second_interrupt_cuts_the_drain_short(tmp_path: Path) -> None:
    """Ctrl-C while the engine waits for activities abandons them, and the file can be opened again."""
    assert run("interrupt_leaving", tmp_path / "store.db") == ["interrupted", "WorkflowStatus.PARKED"]

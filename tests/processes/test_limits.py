"""Too few file descriptors or threads: the error names the cause, the store is unharmed, and later it works again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.scenarios.kit import query

LIMITS = Path(__file__).with_name("limits.py")


def run(name: str, store: Path) -> list[Any]:
    """The report of a service under a limit."""
    command = [sys.executable, str(LIMITS), name, str(store)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=25)
    assert query(store, "PRAGMA integrity_check") == [("ok",)]
    seen: list[Any] = json.loads(ended.stdout)
    return seen


def test_engine_without_descriptors_does_not_open(tmp_path: Path) -> None:
    """Each try with too few descriptors is refused with the file's name and leaks none; with enough the store opens."""
    store = tmp_path / "store.db"
    first, *refused, last, result = run("no_descriptors", store)
    refused = [error for error in refused if error != "open"]
    assert (first, last, result) == ("open", "open", 6)
    assert len(refused) >= 2
    assert all(str(store) in error and "unavailable" in error for error in refused)
    assert "Too many open files" in refused[0]


def test_engine_at_work_needs_no_more_descriptors(tmp_path: Path) -> None:
    """When all other descriptors are taken, the engine keeps working with its own."""
    assert run("none_left_while_running", tmp_path / "store.db") == [6] * 20


def test_threads_that_cannot_be_started(tmp_path: Path) -> None:
    """Without threads the engine cannot open and says so; an activity fails with that reason, the next one works."""
    opened, failed, worked = run("no_threads", tmp_path / "store.db")
    assert "can't start new thread" in opened
    assert "'a' failed with builtins.RuntimeError: can't start new thread" in failed
    assert worked == 6

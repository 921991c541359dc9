"""A fork, an interpreter that exits without a shutdown, and a service that gets a signal to stop."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).with_name("scripts.py")


def run(name: str, store: Path) -> list[Any]:
    """The output of a script, which must exit by itself and without an error."""
    command = [sys.executable, str(SCRIPTS), name, str(store)]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    assert process.returncode == 0, process.stderr
    assert "Traceback" not in process.stderr
    return [json.loads(line) for line in process.stdout.splitlines()]


def is_clean(store: Path) -> bool:
    """Whether the last engine on this store stopped cleanly."""
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        return bool(connection.execute("SELECT clean FROM meta").fetchone()[0])


def test_forked_child_cannot_use_the_engine(tmp_path: Path) -> None:
    """In the child every call raises `EngineForked`; the parent's engine does not notice."""
    assert run("fork", tmp_path / "store.db") == [{"child": 42, "result": 2}]
    assert is_clean(tmp_path / "store.db")


def test_interpreter_exit_without_shutdown_loses_nothing(tmp_path: Path) -> None:
    """A program that exits without a shutdown does not hang, and the next one finishes the acknowledged work."""
    store = tmp_path / "store.db"
    assert run("leave_open", store) == ["started"]
    assert not is_clean(store)
    assert run("finish", store) == [[3, 2]]
    assert is_clean(store)


def test_service_that_is_told_to_stop_stops_in_order(tmp_path: Path) -> None:
    """A cancelled main task lets the running activity finish, records it and marks the stop as clean."""
    store = tmp_path / "store.db"
    command = [sys.executable, str(SCRIPTS), "stop_on_signal", str(store)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == "working"
        process.send_signal(signal.SIGTERM)
        assert json.loads(process.stdout.readline()) == "stopped"
    assert process.returncode == 0
    assert is_clean(store)
    assert run("look", store) == ["working", [["2"], 3]]

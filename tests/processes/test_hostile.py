"""Activities that exhaust memory, hold the GIL or the loop, or end the process; the other work continues."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scenarios.kit import query

HOSTILE = Path(__file__).with_name("hostile.py")
HONEST = [[2, 3, 4], 12]
# Lines of the log about a crash that does not count against one workflow alone.
SHARED_BLAME = re.compile(r"the process died (?:while the body of|when \d+ workflows began)")


def run(name: str, store: Path) -> subprocess.CompletedProcess[str]:
    """One life of the service."""
    command = [sys.executable, str(HOSTILE), name, str(store)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=25)


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("eat_memory", "builtins.MemoryError"),
        ("eat_memory_on_the_loop", "builtins.MemoryError"),
        ("hold_the_gil", "1"),
        ("hold_the_loop", "0"),
    ],
)
def test_process_survives(tmp_path: Path, name: str, end: str) -> None:
    """Too little memory fails that activity, and a GIL or a loop that is held for a while becomes free again."""
    ended = run(name, tmp_path / "store.db")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == [end, *HONEST]


def test_activity_that_ends_the_process_is_parked(tmp_path: Path) -> None:
    """A crash in C code ends the process; after the third one its workflow is parked and the others continue.

    A crash does not count against the attack if something else was suspected with it: the body of another workflow
    that happened to run, or another activity that had just begun. The log of the next life reports each such crash.
    """
    deaths = shared = 0
    ended = run("segfault", tmp_path / "store.db")
    while ended.returncode == -signal.SIGSEGV:
        deaths += 1
        ended = run("segfault", tmp_path / "store.db")
        shared += len(SHARED_BLAME.findall(ended.stderr))
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == ["ParkReason.CRASHED", *HONEST]
    assert deaths == 3 + shared


def test_interrupt_on_the_loop_ends_the_process_in_order(tmp_path: Path) -> None:
    """A `KeyboardInterrupt` on the loop is Ctrl-C: the engine stops cleanly, and no work is lost.

    Activities that were handed out but had not begun are not waited for, so the drain takes no time.
    """
    store = tmp_path / "store.db"
    ended = run("interrupt", store)
    assert ended.returncode == -signal.SIGINT
    assert query(store, "SELECT clean FROM meta") == [(1,)]
    assert query(store, "SELECT status FROM workflow WHERE id = 'attack'") == [("running",)]

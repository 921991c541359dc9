"""Activities that exhaust memory, hold the GIL or the loop, or end the process; the other work continues."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scenarios.kit import query

HOSTILE = Path(__file__).with_name("hostile.py")
HONEST = [[2, 3, 4], 12]


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
    """A crash in C code ends the process. The workflow is parked, not before the third time, and the others continue.

    On a busy machine the crash may come later than 0.3 s after the activity began. Such a death is not counted.
    """
    deaths = 0
    while (ended := run("segfault", tmp_path / "store.db")).returncode == -signal.SIGSEGV:
        deaths += 1
        assert deaths <= 10
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == ["ParkReason.CRASHED", *HONEST]
    assert deaths >= 3


def test_interrupt_on_the_loop_ends_the_process_in_order(tmp_path: Path) -> None:
    """A `KeyboardInterrupt` on the loop is Ctrl-C: the engine stops cleanly, and no work is lost.

    Activities that were handed out but had not begun are not waited for, so the drain takes no time.
    """
    store = tmp_path / "store.db"
    ended = run("interrupt", store)
    assert ended.returncode == -signal.SIGINT
    assert query(store, "SELECT clean FROM meta") == [(1,)]
    assert query(store, "SELECT status FROM workflow WHERE id = 'attack'") == [("running",)]

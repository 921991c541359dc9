"""The demo keeps its promises, and notices when one is broken."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples.checkout_demo import ACTIVITIES, NotAsPromised, Report, Timeline, judge

ROOT = Path(__file__).parents[1]
NEVER_TWICE = ("reserve_stock", "charge", "render_receipt", "send_email")


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The demo as a user runs it, with its database in a folder of the test."""
    command = [sys.executable, "-m", "examples.checkout_demo", *arguments]
    environment = os.environ | {"TMPDIR": str(folder)}
    return subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, timeout=50, check=False)


@pytest.mark.timeout(60)
def test_demo_shows_what_ran_once_and_what_ran_again(tmp_path: Path) -> None:
    """Two processes are killed, the charge runs once, the interrupted activity runs twice, and the order succeeds."""
    done = run(folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for line in (
        r"process 1   KILLED while the order waits \(SIGKILL\)",
        r"process 2   charge          not run: its result is replayed from history",
        r"process 2   KILLED in the middle of ship \(SIGKILL\)",
        r"process 3   charge          not run: its result is replayed from history",
        r"process 3   ship            begins again: no result was recorded",
        r"process 3   order-42 has succeeded",
        r"\ncharge +1 +1   ran once\n",
        r"\nship +2 +1   ran again",
        r"approved by the sales desk",
    ):
        assert re.search(line, done.stdout), f"{line} is missing in:\n{done.stdout}"
    assert "\033" not in done.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.timeout(60)
def test_demo_keeps_the_database_when_asked(tmp_path: Path) -> None:
    """With --keep the database stays where the last line says."""
    done = run("--keep", folder=tmp_path)
    store = Path(done.stdout.rstrip().rpartition("The database: ")[2])
    assert done.returncode == 0
    assert store.is_relative_to(tmp_path)
    assert store.stat().st_size > 0


@pytest.mark.parametrize("name", NEVER_TWICE)
def test_demo_refuses_an_activity_that_ran_twice(name: str) -> None:
    """If a recorded activity begins again, a promise is broken, and the demo says which."""
    timeline = Timeline(colours=False)
    timeline.reports += [Report(0.0, 1, begun, "begins") for begun in (*ACTIVITIES, "ship", name)]
    timeline.reports += [Report(0.0, 3, "history", "complete", [*ACTIVITIES, "approval"])]
    with pytest.raises(NotAsPromised, match=f"{name} was begun 2 times"):
        judge(timeline)

"""The mark of the body that ran when the process died: a number in a file beside the store."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from durable.backends.sqlite import SqliteBackend
from durable.backends.sqlite.stepmark import StepMark


def test_mark_outlives_a_process_that_is_killed(tmp_path: Path) -> None:
    """The next process reads the last number that was written, however the process died."""
    store = str(tmp_path / "store.db")
    module = "durable.backends.sqlite.stepmark"
    script = f"import os; from {module} import StepMark; StepMark({store!r}).cell[0] = 77; os._exit(1)"
    subprocess.run([sys.executable, "-c", script], check=False)
    mark = StepMark(store)
    assert mark.left == 77
    mark.close()


def test_mark_of_a_store_is_told_at_the_next_start(tmp_path: Path) -> None:
    """A backend returns the last mark, and gives the cell to write to."""
    for left in (0, 5):
        backend = SqliteBackend(tmp_path / "store.db")
        opened = backend.open(f"after {left}")
        assert opened.marked == left
        opened.mark[0] = 5
        backend.close()


def test_mark_file_is_private(tmp_path: Path) -> None:
    """Only its owner may read and write it."""
    StepMark(str(tmp_path / "store.db")).close()
    assert stat.S_IMODE(os.stat(tmp_path / "store.db-step").st_mode) == 0o600


def test_mark_file_that_others_may_open_is_made_private(tmp_path: Path) -> None:
    """A mark that others could read and write is tightened, and its number is kept."""
    file = tmp_path / "store.db-step"
    file.write_bytes((77).to_bytes(8, sys.byteorder) + bytes(8184))
    file.chmod(0o666)
    mark = StepMark(str(tmp_path / "store.db"))
    mark.close()
    assert (mark.left, stat.S_IMODE(file.stat().st_mode)) == (77, 0o600)


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_mark_file_is_never_a_link(
    tmp_path: Path, link: Callable[[Path, Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    """A link in its place and its target are left alone; the engine works without the mark, and logs that."""
    (tmp_path / "victim").write_bytes(b"precious")
    link(tmp_path / "store.db-step", tmp_path / "victim")
    mark = StepMark(str(tmp_path / "store.db"))
    mark.cell[0] = 5
    mark.close()
    assert (mark.left, (tmp_path / "victim").read_bytes()) == (0, b"precious")
    assert "store.db-step cannot be used" in caplog.text


def test_mark_file_with_nonsense_is_ignored(tmp_path: Path) -> None:
    """A negative number is not a key."""
    (tmp_path / "store.db-step").write_bytes(b"\xff" * 8192)
    mark = StepMark(str(tmp_path / "store.db"))
    assert mark.left == 0
    mark.close()

"""A store that is owned for a moment: who starts meanwhile waits, and others see nobody."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from durable import StoreInUse
from durable.backends.base import Batch
from durable.backends.sqlite import SqliteBackend

# Owns the store argv[1], briefly if argv[2] says so, until its input ends; then lets go of it in order.
_HOLDER = """
import sys
from durable.backends.sqlite import SqliteBackend
store = SqliteBackend(sys.argv[1])
store.open_briefly("holder") if sys.argv[2] == "briefly" else store.open("holder")
print("open", flush=True)
sys.stdin.read()
store.close()
"""


def holder(path: Path, how: str) -> subprocess.Popen[str]:
    """Another process that owns the store."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(path), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    """Let the other process go on to its end."""
    process.communicate()
    assert process.returncode == 0


@pytest.mark.parametrize("how", ["briefly", "for long"])
def test_owner_for_a_moment_does_not_count(tmp_path: Path, how: str) -> None:
    """`is_taken` sees only owners that stay, and changes nothing for them."""
    path = tmp_path / "store.db"
    store = SqliteBackend(path)
    assert not store.is_taken()
    process = holder(path, how)
    assert store.is_taken() == (how == "for long")
    end(process)
    assert not store.is_taken()


def test_engine_waits_for_an_owner_in_another_process(tmp_path: Path) -> None:
    """It is not refused, and opens as soon as the other one has let go."""
    path = tmp_path / "store.db"
    process = holder(path, "briefly")
    timer = threading.Timer(0.05, lambda: end(process))
    timer.start()
    store = SqliteBackend(path)
    store.open("engine")
    store.close()
    timer.join()


def test_engine_waits_for_an_owner_in_this_process(tmp_path: Path) -> None:
    """The same between two threads. A refusal says that the store is in use, if it lasts longer than a moment."""
    path = tmp_path / "store.db"
    first, second = SqliteBackend(path), SqliteBackend(path)
    first.open_briefly("first")
    timer = threading.Timer(0.05, first.close)
    timer.start()
    second.open("second")
    assert SqliteBackend(path).is_taken()
    timer.join()
    with pytest.raises(StoreInUse) as refused:
        SqliteBackend(path).open("third")
    assert type(refused.value) is StoreInUse
    second.close()


def test_owner_for_a_moment_leaves_the_evidence_of_a_crash(tmp_path: Path) -> None:
    """If the last engine did not stop in order, the next one still sees that; and an orderly stop stays one."""
    path = tmp_path / "store.db"
    for is_clean in (True, False):
        engine, brief = SqliteBackend(path), SqliteBackend(path)
        opened = engine.open("engine")
        opened.mark[0] = 0 if is_clean else 7
        engine.commit(Batch(number=1, clean_stop=is_clean))
        engine.close()
        opened = brief.open_briefly("brief")
        brief.commit(Batch(number=1, clean_stop=opened.clean))
        brief.close()
        opened = engine.open("next")
        assert (opened.clean, opened.marked) == (is_clean, 0 if is_clean else 7)
        engine.close()

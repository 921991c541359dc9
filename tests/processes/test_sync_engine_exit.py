"""A program may exit without leaving its engine: it does not hang, and nothing is lost."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
from durable import SyncWorkflowEngine
engine = SyncWorkflowEngine(sys.argv[1])
engine.__enter__()
"""


@pytest.mark.parametrize("end", ["", "del engine\n"], ids=["exit", "dropped"])
def test_interpreter_exit_without_shutdown_does_not_hang(tmp_path: Path, end: str) -> None:
    """The interpreter exits although the engine was not closed."""
    subprocess.run([sys.executable, "-c", SCRIPT + end, str(tmp_path / "a.db")], timeout=10, check=True)

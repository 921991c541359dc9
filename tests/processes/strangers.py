"""Other processes that have a store's file open, for tests of engines that meet them."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HOLDER = Path(__file__).with_name("holder.py")


class Holder:
    """A process that has opened the file and executed these statements."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def let_go(self) -> None:
        """Return when the process has released the lock."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "free\n"


@contextlib.contextmanager
def held(file: Path, *statements: str) -> Iterator[Holder]:
    """Let another process execute these statements on the file, and keep it running."""
    command = [sys.executable, str(HOLDER), str(file), *statements]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield Holder(process)
        finally:
            process.kill()

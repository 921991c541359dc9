"""Which body runs right now, in a file that survives the process.

Knows one small file beside the store, `<store>-step`, and the numbers in it. The first number is the key of the
workflow whose body is running, 0 while none is. The others belong to the engine. The engine writes before every step,
through a memory map: some tens of nanoseconds per number, without a system call or a commit. When the process dies, the
kernel still has the page, so the next engine reads which body ran. After a power cut the numbers may be old or lost.
That does not matter: a body cannot cause a power cut.

Knows nothing about workflows. If the file cannot be created, the evidence is lost, but the engine starts.
"""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
import stat

from durable.backends.base import MARK_CELLS, Mark

_log = logging.getLogger("durable")
# A whole page, written in advance: writing through a map to a hole in a file fails if the disk is full.
_SIZE = mmap.PAGESIZE


class StepMark:
    """The mark of one open store: `left` is the key that the last engine left, `cell` the cells to write."""

    def __init__(self, store: str) -> None:
        self.left = 0
        self.cell: Mark = [0] * MARK_CELLS
        self._map: mmap.mmap | None = None
        path = f"{store}-step"
        try:
            self._open(path)
        except (OSError, ValueError) as problem:
            _log.warning("%s cannot be used, so a body that kills the process will not be found: %s", path, problem)

    def _open(self, path: str) -> None:
        """Map the file, after checks that it is private and plain. Raises `OSError` or `ValueError`."""
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(path, flags, 0o600)
        try:
            opened = os.fstat(descriptor)
            if not stat.S_ISREG(opened.st_mode) or opened.st_nlink > 1:
                # Not a file that durable has made, so it must not be written to.
                raise ValueError(f"{path} is not a plain file, or has hard links")
            if opened.st_mode & 0o077 and hasattr(os, "fchmod"):
                # Anyone who can write to it can blame a workflow. Only its owner may change the mode.
                with contextlib.suppress(PermissionError):
                    os.fchmod(descriptor, 0o600)
            if opened.st_size < _SIZE:
                os.write(descriptor, bytes(_SIZE))
            self._map = mmap.mmap(descriptor, _SIZE)
        finally:
            os.close(descriptor)
        self.cell = memoryview(self._map).cast("q")
        self.left = max(0, self.cell[0])

    def close(self) -> None:
        """Close the file. The engine must not write to the cells any more."""
        if self._map is not None:
            assert isinstance(self.cell, memoryview)
            self.cell.release()
            self._map.close()

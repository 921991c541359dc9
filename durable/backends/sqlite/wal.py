"""The write-ahead log, lengthened before SQLite writes to it.

When a commit makes a file longer, the file system must also record the new length, in a commit of its journal. On ext4
that is half the time of an fsync. After a checkpoint SQLite overwrites its log from the start, so a service that has
run for a while no longer pays this. Zeros after the end of the log spare a young service most of it. A reader of a log
stops at the first frame with a wrong checksum, so the zeros have no effect.

Knows one file and its length. Knows nothing about its content.
"""

from __future__ import annotations

import os

# A log is checkpointed after this many frames, each a page of 4 KiB with a header of 24 bytes. `_ENOUGH` adds room for
# the last batch.
CHECKPOINT_FRAMES = 4000
_FULL = CHECKPOINT_FRAMES * (4096 + 24)
_ENOUGH = _FULL + 200 * (4096 + 24)
# The length doubles, so that an idle store has a small log and a busy one soon needs no more.
_LEAST = 1 << 17
# A look takes three system calls. A few slow commits are cheaper than a look at every commit.
_LOOK_EVERY = 8


class Log:
    """The log of one database."""

    def __init__(self, database: str) -> None:
        self._path = f"{database}-wal"
        # The length at the last look, and the number of commits since then.
        self._length = 0
        self._unseen = _LOOK_EVERY

    def lay_out(self) -> None:
        """Lengthen the log, if it has been used up to its end. It never fails.

        Call it only inside a write transaction: nothing else adds to the log then. Zeros are only appended.
        """
        # The log has room for everything between two checkpoints.
        if self._length >= _FULL:
            return
        self._unseen += 1
        if self._unseen < _LOOK_EVERY:
            return
        self._unseen = 0
        try:
            length = self._look()
            if length <= self._length:
                return
            self._length = max(length, min(_ENOUGH, max(2 * length, _LEAST)))
            if self._length > length:
                self._append(length, self._length - length)
        except OSError:
            # A full disk, or a limit on file sizes. The log then grows with each commit, or the commit reports why not.
            self._length = _ENOUGH

    def _look(self) -> int:
        """The length of the log now.

        Not by `stat`, which also asks for the times of the file. Since Linux 6.13 the next write then records its exact
        time, so the fsync of that commit must write one more block. Otherwise that happens every few milliseconds.
        """
        file = os.open(self._path, os.O_RDONLY)
        try:
            return os.lseek(file, 0, os.SEEK_END)
        finally:
            os.close(file)

    def _append(self, length: int, count: int) -> None:
        """Append zeros. A method, so that the tests of power loss see it."""
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, bytes(count))
        finally:
            os.close(file)

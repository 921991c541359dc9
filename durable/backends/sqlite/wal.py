"""The write-ahead log, made longer ahead of what SQLite will write to it.

A commit that makes a file longer has the file system write down the new length too, in a commit of its own: on ext4
half the time of an fsync. SQLite writes its log over and over from the start once it has been checkpointed, so a
service that has run for a while pays this no more; with zeros behind the log's end a young one hardly does. Whoever
reads a log stops at the first frame with a wrong checksum, so the zeros say nothing.

Knows one file and its length. Must not know what is in it.
"""

from __future__ import annotations

import os

# A log is checkpointed after so many frames, each a page of 4 KiB with its header; some room for the last batch.
CHECKPOINT_FRAMES = 4000
_FULL = CHECKPOINT_FRAMES * (4096 + 24)
_ENOUGH = _FULL + 200 * (4096 + 24)
# It doubles, so that a store with little to do has a small log, and a busy one is soon done.
_LEAST = 1 << 17
# Looking takes three calls of the system, so not every commit looks: a few that are slow are cheaper than that.
_LOOK_EVERY = 8


class Log:
    """The log of one database."""

    def __init__(self, database: str) -> None:
        self._path = f"{database}-wal"
        # Up to here it was long enough the last time that anybody looked, and how many times nobody did since.
        self._length = 0
        self._unseen = _LOOK_EVERY

    def lay_out(self) -> None:
        """Make it longer, if it has been used up to its end.

        Only inside a transaction that may write: nobody else adds to the log then. Zeros are only ever appended.
        """
        # A log that holds all that comes between two checkpoints is looked at no more.
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
            # A full disk, a limit on the size of files: the log then grows as it always did, or a commit tells why not.
            self._length = _ENOUGH

    def _look(self) -> int:
        """How long it is now.

        Not by `stat`, which asks for the file's times too: since Linux 6.13 the next write then notes its time exactly,
        and the fsync of that commit has one block more to write. Otherwise that happens once in some milliseconds.
        """
        file = os.open(self._path, os.O_RDONLY)
        try:
            return os.lseek(file, 0, os.SEEK_END)
        finally:
            os.close(file)

    def _append(self, length: int, count: int) -> None:
        """So many zeros behind what is there. A method, so that tests of power loss see it."""
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, bytes(count))
        finally:
            os.close(file)

"""A disk that keeps a diary: every write, truncation, sync and deletion of SQLite's files, in order.

`DiaryVFS` is SQLite's own file layer with a diary. From the diary, `images` builds the files as a power cut at any
moment may leave them. This file knows files and offsets. It must not know their contents.
"""

from __future__ import annotations

import os
from typing import Any

import apsw
import attrs


@attrs.frozen
class Write:
    """Bytes that were handed to the operating system."""

    file: str
    offset: int
    data: bytes


@attrs.frozen
class Truncate:
    """A new length."""

    file: str
    size: int


@attrs.frozen
class Sync:
    """Everything written to this file so far is on the disk."""

    file: str


@attrs.frozen
class Delete:
    """The file is deleted; permanently, if the directory was synced."""

    file: str
    is_synced: bool


Act = Write | Truncate | Sync | Delete


class DiaryVFS(apsw.VFS):
    """SQLite's usual file layer, with a diary of what it does."""

    def __init__(self, name: str, diary: list[Act]) -> None:
        self.diary = diary
        self.name = name
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - the name is SQLite's
        if name is None:
            # A file for one statement, which nobody needs after a power cut.
            return apsw.VFSFile("", name, flags)
        return _File(name, flags, self.diary)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self.diary.append(Delete(os.path.basename(filename), bool(syncdir)))


class _File(apsw.VFSFile):
    def __init__(self, name: Any, flags: list[int], diary: list[Act]) -> None:
        super().__init__("", name, flags)
        self._name = os.path.basename(name if isinstance(name, str) else name.filename())
        is_log = flags[0] & (apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL)
        if is_log and not isinstance(name, str):
            self._name += "-wal" if flags[0] & apsw.SQLITE_OPEN_WAL else "-journal"
        self._diary = diary

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        self._diary.append(Write(self._name, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._diary.append(Truncate(self._name, newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._diary.append(Sync(self._name))

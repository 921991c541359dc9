"""Pages that nothing uses any more go back to the file system.

Knows SQLite's incremental vacuum. Must not know why the pages are free.
"""

from __future__ import annotations

import sqlite3

from durable.backends.sqlite.owner import Owner

_INCREMENTAL = 2
# How many pages one step moves: a transaction of about a millisecond.
_STEP = 64
# So much stays free for what comes next: at least a megabyte, or a tenth of the file. Otherwise a store that removes
# as much as it adds would move pages for nothing.
_KEEP, _SHARE = 256, 10


def enable(connection: sqlite3.Connection) -> None:
    """Have a database without any page yet created so that it can shrink. Harmless for any other."""
    if not _pragma(connection, "page_count"):
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")


def convert(connection: sqlite3.Connection, held: Owner) -> None:
    """Rewrite a file that cannot shrink yet, so that it has no free pages and can. Takes time and twice the room."""
    if _pragma(connection, "auto_vacuum") != _INCREMENTAL:
        # SQLite gives the file another generation in the middle of this.
        held.remember((), None)
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("VACUUM")


class Shrinking:
    """How far the file of one open store has been made smaller."""

    def __init__(self) -> None:
        # Pages were given back, and the log that says so is not written back whole.
        self._is_owed = False

    def step(self, connection: sqlite3.Connection) -> bool:
        """Give a few free pages back; whether there is more to do at once."""
        spare = _pragma(connection, "freelist_count")
        spare -= max(_KEEP, _pragma(connection, "page_count") // _SHARE)
        if spare > 0 and _pragma(connection, "auto_vacuum") == _INCREMENTAL:
            # Every row that is fetched is a page that has moved.
            connection.execute(f"PRAGMA incremental_vacuum({min(spare, _STEP)})").fetchall()
            self._is_owed = True
            if spare > _STEP:
                return True
        if self._is_owed:
            # The file becomes shorter when the whole log is written back. A reader keeps a part of it from that; then
            # it is tried again with the next step, which comes in its own time.
            _, pages, written = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            self._is_owed = written < pages
        return False


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    number: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return number

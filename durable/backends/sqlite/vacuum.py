"""Returns unused pages to the file system.

Knows SQLite's incremental vacuum. Knows nothing about why pages are free.
"""

from __future__ import annotations

import sqlite3

from durable.backends.sqlite.owner import Owner

_INCREMENTAL = 2
# The number of pages that one step moves: a transaction of about a millisecond.
_STEP = 64
# What stays free: 256 pages (1 MiB), or a tenth of the file if that is more. Otherwise a store that removes as much as
# it adds would move pages for nothing.
_KEEP, _SHARE = 256, 10


def enable(connection: sqlite3.Connection) -> None:
    """Make a database that has no pages yet able to shrink. No effect on any other database."""
    if not _pragma(connection, "page_count"):
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")


def convert(connection: sqlite3.Connection, held: Owner) -> None:
    """Rewrite a file that cannot shrink, so that it has no free pages and can. Takes time and twice the space."""
    if _pragma(connection, "auto_vacuum") != _INCREMENTAL:
        # VACUUM changes the generation of the file, so allow any until it is announced.
        held.remember((), None)
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("VACUUM")


class Shrinking:
    """The progress of shrinking the file of one open store."""

    def __init__(self) -> None:
        # Whether pages were returned, but the log that says so is not fully written back to the file.
        self._is_owed = False

    def step(self, connection: sqlite3.Connection) -> bool:
        """Return a few free pages. Returns whether there is more to do at once."""
        spare = _pragma(connection, "freelist_count")
        spare -= max(_KEEP, _pragma(connection, "page_count") // _SHARE)
        if spare > 0 and _pragma(connection, "auto_vacuum") == _INCREMENTAL:
            # The pages move as the rows are fetched.
            connection.execute(f"PRAGMA incremental_vacuum({min(spare, _STEP)})").fetchall()
            self._is_owed = True
            if spare > _STEP:
                return True
        if self._is_owed:
            # The file becomes shorter when the whole log is written back. A reader can prevent that. Then the next
            # regular step tries again.
            _, pages, written = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            self._is_owed = written < pages
        return False


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    number: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return number

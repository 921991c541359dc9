"""The SQLite settings of a peer that uses SQLAlchemy, read from its own connections."""

from __future__ import annotations

from typing import Any

import sqlalchemy

_SYNCHRONOUS = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}


class Pragmas:
    """Reads the settings of every new connection, after the peer has set them."""

    def __init__(self) -> None:
        self.text = ""
        sqlalchemy.event.listen(sqlalchemy.engine.Engine, "connect", self._read)

    def _read(self, connection: Any, _record: Any) -> None:
        def pragma(name: str) -> Any:
            cursor = connection.cursor()
            cursor.execute(f"PRAGMA {name}")
            return cursor.fetchone()[0]

        version = connection.cursor()
        version.execute("SELECT sqlite_version()")
        self.text = (
            f"SQLite {version.fetchone()[0]}, journal_mode={pragma('journal_mode')}, "
            f"synchronous={_SYNCHRONOUS[pragma('synchronous')]}"
        )

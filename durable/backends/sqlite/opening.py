"""How the one connection of a store is set up and let go of.

Knows SQLite's settings, and how a connection is closed so that nothing is lost. Must not know what is stored.
"""

from __future__ import annotations

import contextlib
import sqlite3

from durable.backends.sqlite import vacuum
from durable.backends.sqlite.filewatch import FileWatch
from durable.backends.sqlite.wal import CHECKPOINT_FRAMES
from durable.errors import StoreUnusable


def prepare(connection: sqlite3.Connection, path: str, synchronous: str) -> None:
    """Set up a connection that may write. Raises `StoreUnusable` where WAL does not work."""
    vacuum.enable(connection)
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise StoreUnusable(path, f"this file system does not support WAL (journal mode {mode!r})")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("PRAGMA foreign_keys = OFF")
    # A WAL that one great batch has blown up is cut back at the next checkpoint.
    connection.execute("PRAGMA journal_size_limit = 67108864")
    # A checkpoint writes every changed page once, so fewer of them write less; 16 MB of WAL are read quickly.
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_FRAMES}")


def close(connection: sqlite3.Connection, watch: FileWatch | None) -> None:
    """Let go of a connection. It never fails: the log holds everything that was committed."""
    roll_back(connection)
    if watch is not None and watch.is_spoilt():
        # The log belongs to what was in the file before; the next engine that opens it says what to do. Or it was cut
        # off, and SQLite would write zeros over pages that are sound.
        with watch.keeping_log(), contextlib.suppress(sqlite3.Error):
            connection.close()
        return
    # PASSIVE does not wait for readers.
    with contextlib.suppress(sqlite3.Error):
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    with contextlib.suppress(sqlite3.Error):
        connection.close()


def roll_back(connection: sqlite3.Connection) -> None:
    """End a transaction that went wrong, if it is still open."""
    # SQLite ends the transaction by itself on some errors (a full disk), and a broken disk can fail here as well; the
    # error that led here is the one to tell.
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")

"""How the connection of a store is set up and closed.

Knows SQLite's settings, and how to close a connection without losing anything. Knows nothing about what is stored.
"""

from __future__ import annotations

import contextlib
import sqlite3

from durable.backends.sqlite import vacuum
from durable.backends.sqlite.filewatch import FileWatch
from durable.backends.sqlite.wal import CHECKPOINT_FRAMES
from durable.errors import StoreUnusable


def prepare(connection: sqlite3.Connection, path: str, synchronous: str) -> None:
    """Set up the connection that writes. Raises `StoreUnusable` if the file system does not support WAL."""
    vacuum.enable(connection)
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise StoreUnusable(path, f"this file system does not support WAL (journal mode {mode!r})")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("PRAGMA foreign_keys = OFF")
    # After one huge batch the log is truncated to 64 MiB at the next checkpoint.
    connection.execute("PRAGMA journal_size_limit = 67108864")
    # A checkpoint writes every changed page once, so fewer checkpoints write less. 16 MB of log are read quickly.
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_FRAMES}")


def close(connection: sqlite3.Connection, watch: FileWatch | None) -> None:
    """Close the connection. It never fails: the log contains everything that was committed."""
    roll_back(connection)
    if watch is not None and watch.is_spoilt():
        # Keep the log away from the database. Either it belongs to the previous content of the file, and the next open
        # explains what to do; or it was cut off, and SQLite would write zeros over sound pages.
        with watch.keeping_log(), contextlib.suppress(sqlite3.Error):
            connection.close()
        return
    # PASSIVE does not wait for readers, so closing cannot block.
    with contextlib.suppress(sqlite3.Error):
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    with contextlib.suppress(sqlite3.Error):
        connection.close()


def roll_back(connection: sqlite3.Connection) -> None:
    """End a failed transaction, if it is still open."""
    # SQLite ends the transaction itself on some errors, such as a full disk. A broken disk can fail here too. In both
    # cases the caller reports the error that led here.
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")

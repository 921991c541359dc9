"""The store in a SQLite file."""

from durable.backends.sqlite.store import SqliteBackend

__all__ = [
    "SqliteBackend",
]

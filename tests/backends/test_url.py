"""The values that an engine accepts as its store."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from durable.backends.memory import MemoryBackend
from durable.backends.sqlite import SqliteBackend
from durable.backends.url import open_store
from durable.errors import StoreUnusable, WrongType
from durable.testing.faults import FaultyBackend


@pytest.mark.parametrize(
    ("store", "path"),
    [
        ("flows.db", "flows.db"),
        ("/var/lib/flows.db", "/var/lib/flows.db"),
        (pathlib.Path("a") / "flows.db", "a/flows.db"),
        ("sqlite:///flows.db", "flows.db"),
        ("sqlite:////var/lib/flows.db", "/var/lib/flows.db"),
        ("SQLite:///flows.db", "flows.db"),
        ("odd name%20.db", "odd name%20.db"),
    ],
)
def test_paths_and_sqlite_urls(store: str | pathlib.Path, path: str) -> None:
    """A path, as text or object, and a sqlite URL name a file, without interpretation."""
    assert repr(open_store(store)) == f"SqliteBackend({path!r})"


def test_naming_a_store_touches_no_file(tmp_path: pathlib.Path) -> None:
    """Nothing is created before the engine opens the store."""
    open_store(tmp_path / "flows.db")
    assert list(tmp_path.iterdir()) == []


def test_memory_url() -> None:
    """Each memory:// is a new store."""
    first, second = open_store("memory://"), open_store("memory://")
    assert isinstance(first, MemoryBackend)
    assert first is not second


def test_a_backend_is_passed_through() -> None:
    """A backend object is used as it is, also one from outside durable."""
    for backend in (MemoryBackend(), SqliteBackend("x"), FaultyBackend(MemoryBackend())):
        assert open_store(backend) is backend


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("postgresql://u:secret@host/db", "PostgreSQL is not supported"),
        ("postgres://u:secret@host/db", "PostgreSQL is not supported"),
        ("postgresql+psycopg://u:secret@host/db", "PostgreSQL is not supported"),
        ("mysql://u:secret@host/db", "'mysql' is unknown"),
        ("file:///secret.db", "'file' is unknown"),
        ("memory://name", "has no name"),
        ("memory://u:secret@name", "has no name"),
        ("sqlite://u:secret@host/flows.db", "sqlite:///"),
        (" postgresql://u:secret@host/db", "begins with its scheme"),
        ("sqlite://", "memory://"),
        ("sqlite:///", "memory://"),
        ("sqlite://flows.db", "sqlite:///"),
        ("sqlite:///flows.db?mode=ro", "options"),
    ],
)
def test_other_urls_are_refused(url: str, hint: str) -> None:
    """A URL that does not name a store is refused with what to write instead, and without repeating a password."""
    with pytest.raises(StoreUnusable) as caught:
        open_store(url)
    assert hint in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("store", [None, 7, b"flows.db", ["flows.db"], MemoryBackend, object()])
def test_other_types_are_refused(store: Any) -> None:
    """Anything but a path, URL or backend object is a `WrongType`; a class is not an object of it."""
    with pytest.raises(WrongType, match="store: must be a path, a URL or a backend"):
        open_store(store)

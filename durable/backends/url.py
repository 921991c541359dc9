"""What a user may pass as the store of an engine: a path, a URL or a backend.

Knows the names of the stores in the box and imports each only when it is asked for. Must not open anything: a backend
that comes out of here has touched no file yet.
"""

from __future__ import annotations

import os
import re
from typing import cast

from durable.backends.base import Backend
from durable.errors import StoreUnusable, WrongType

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_METHODS = tuple(name for name in vars(Backend) if not name.startswith("_"))


def open_store(store: str | os.PathLike[str] | Backend) -> Backend:
    """The backend for a store. Raises `StoreUnusable` for a URL that means none, `WrongType` for other things."""
    given: object = store
    if isinstance(given, str):
        scheme = _SCHEME.match(given)
        return _file(given) if scheme is None else _url(scheme[1].lower(), given, given[scheme.end() :])
    if isinstance(given, os.PathLike):
        return _file(cast("os.PathLike[str]", given))
    # A class has the methods as well, but nobody to call them on.
    if isinstance(given, type) or not all(callable(getattr(given, name, None)) for name in _METHODS):
        raise WrongType("store", f"must be a path, a URL or a backend, not {given!r:.200}")
    return cast(Backend, given)


def _file(path: str | os.PathLike[str]) -> Backend:
    from durable.backends.sqlite import SqliteBackend

    return SqliteBackend(path)


def _url(scheme: str, url: str, rest: str) -> Backend:
    if scheme == "memory":
        if rest:
            raise StoreUnusable(url, "a store in memory has no name; write memory://, or share a backend object")
        from durable.backends.memory import MemoryBackend

        return MemoryBackend()
    # Only the scheme is repeated below: the rest of an unknown URL may hold a password.
    shown = f"{scheme}://…"
    if scheme != "sqlite":
        known = "a path, sqlite:///path or memory://"
        if scheme.partition("+")[0] in ("postgres", "postgresql"):
            raise StoreUnusable(shown, f"PostgreSQL is not supported by this version of durable; use {known}")
        raise StoreUnusable(shown, f"the scheme {scheme!r} is unknown; use {known}")
    if "?" in rest:
        raise StoreUnusable(shown, "options in the URL are not supported; pass a SqliteBackend with its arguments")
    if not rest.startswith("/") or rest == "/":
        raise StoreUnusable(url, "write sqlite:///relative.db or sqlite:////absolute.db; for memory, memory://")
    return _file(rest[1:])

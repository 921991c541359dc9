"""What a user may pass as the store of an engine: a path, a URL or a backend.

Knows the names of the built-in stores and imports each only on request. Opens nothing: a backend from here has not
touched any file yet.
"""

from __future__ import annotations

import os
import re
from typing import cast

from durable.backends.base import Backend, Reads
from durable.errors import StoreUnusable, WrongType
from durable.model.redaction import redacted

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_METHODS = tuple(name for part in (Reads, Backend) for name in vars(part) if not name.startswith("_"))


def open_store(store: str | os.PathLike[str] | Backend) -> Backend:
    """The backend for a store. Raises `StoreUnusable` for a URL of no known store, `WrongType` for any other value."""
    target: object = store
    if isinstance(target, str):
        scheme = _SCHEME.match(target)
        if scheme is None and "://" in target:
            # As a path it would be shown in errors, with whatever password is in it.
            raise StoreUnusable(
                redacted(target), "a URL begins with its scheme; use sqlite:///path, memory:// or a path"
            )
        return _file(target) if scheme is None else _url(scheme[1].lower(), target, target[scheme.end() :])
    if isinstance(target, os.PathLike):
        return _file(cast("os.PathLike[str]", target))
    # A class has the methods too, but without an instance to call them on.
    if isinstance(target, type) or not all(callable(getattr(target, name, None)) for name in _METHODS):
        raise WrongType("store", f"must be a path, a URL or a backend, not {target!r:.200}")
    return cast(Backend, target)


def _file(path: str | os.PathLike[str]) -> Backend:
    """The backend for a path. Imported here, so that a store in memory does not load SQLite."""
    from durable.backends.sqlite import SqliteBackend

    return SqliteBackend(path)


def _url(scheme: str, url: str, location: str) -> Backend:
    """The backend for a URL. Errors never show more than the scheme of an unknown URL."""
    shown_url = redacted(url)
    if scheme == "memory":
        if location:
            raise StoreUnusable(shown_url, "a store in memory has no name; write memory://, or share a backend object")
        from durable.backends.memory import MemoryBackend

        return MemoryBackend()
    # Errors show only the scheme: the location of an unknown URL may contain a password.
    shown = f"{scheme}://…"
    if scheme != "sqlite":
        choices = "a path, sqlite:///path or memory://"
        if scheme.partition("+")[0] in ("postgres", "postgresql"):
            raise StoreUnusable(shown, f"PostgreSQL is not supported by this version of durable; use {choices}")
        raise StoreUnusable(shown, f"the scheme {scheme!r} is unknown; use {choices}")
    if "?" in location:
        raise StoreUnusable(shown, "options in the URL are not supported; pass a SqliteBackend with its arguments")
    if not location.startswith("/") or location == "/":
        raise StoreUnusable(
            redacted(url), "write sqlite:///relative.db or sqlite:////absolute.db; for memory, memory://"
        )
    return _file(location[1:])

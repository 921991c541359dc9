"""The store cannot be used, or can no longer be used.

No workflow causes these errors: the fix is in the file system, the deployment or the other process.
"""

from __future__ import annotations

import attrs

from durable.errors.base import DurableError


class StorageError(DurableError):
    """The base of every error about a store."""


@attrs.frozen(slots=False)
class StorageUnavailable(StorageError):
    """The store does not accept writes. What was acknowledged is stored; anything later may be lost."""

    problem: str

    says = "the store is unavailable: {problem}. Fix this and restart the service; it then recovers by itself"


@attrs.frozen(slots=False)
class StoreUnusable(StorageError):
    """The path cannot hold a store or a backup, or its file is damaged or was removed. Nothing was changed."""

    store: str
    problem: str

    says = "cannot use {store!r} as a store: {problem}"


@attrs.frozen(slots=False)
class StoreInUse(StorageError):
    """Another engine has this store open. `holder` describes it: its host and process, as far as the lock says."""

    store: str
    holder: str

    says = (
        "{store!r} is in use by {holder}: only one engine may use a file; stop the other engine first, or open the "
        "engine in every process of the service with shared=True"
    )


@attrs.frozen(slots=False)
class StoreTooNew(StorageError):
    """A newer durable wrote this store. `found` is its schema version, `known` the newest that this durable reads."""

    store: str
    found: int
    known: int

    says = (
        "{store!r} has schema version {found}, this durable supports versions up to {known}: "
        "upgrade durable-engine; nothing was changed"
    )


@attrs.frozen(slots=False)
class StoreFenced(StorageError):
    """Another engine has taken over the store. This one stops at once and writes nothing more."""

    store: str

    says = "another engine has taken over {store!r}; this one stops"

"""The store cannot be used, or not any more."""

from __future__ import annotations

import attrs

from durable.errors.base import DurableError


class StorageError(DurableError):
    """Something is wrong with the store."""


@attrs.frozen(slots=False)
class StorageUnavailable(StorageError):
    """The store does not take writes; what was not acknowledged may not be stored."""

    problem: str

    says = "the store is unavailable: {problem}; put it right and restart the service, it recovers by itself"


@attrs.frozen(slots=False)
class StoreUnusable(StorageError):
    """This path cannot hold a store or a backup, or its file is damaged or was taken away; nothing was changed."""

    store: str
    problem: str

    says = "cannot use {store!r} as a store: {problem}"


@attrs.frozen(slots=False)
class StoreInUse(StorageError):
    """Another engine works on this store."""

    store: str
    holder: str

    says = "{store!r} is in use by {holder}: one engine per file; stop that one first"


@attrs.frozen(slots=False)
class StoreTooNew(StorageError):
    """The store was written by a newer durable."""

    store: str
    found: int
    known: int

    says = (
        "{store!r} has schema version {found}, this durable knows up to {known}: "
        "upgrade durable-engine; nothing was changed"
    )


@attrs.frozen(slots=False)
class StoreFenced(StorageError):
    """Another incarnation has taken the store over; this one must not write any more."""

    store: str

    says = "another engine has taken over {store!r}; this one stops"

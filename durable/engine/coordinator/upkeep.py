"""What the coordinator does for a store in a file, besides commits.

It looks whether the file is still there, and gives room back that is no longer used. The former comes before anything
is acknowledged, the latter when nobody waits for anything.

Knows the optional half of a store, `FileStore`, and the clock. A store that has no file needs none of it.
"""

from __future__ import annotations

import logging

from durable.backends.base import Backend, FileStore
from durable.errors import StorageUnavailable
from durable.model.clock import Clock

_log = logging.getLogger("durable")
# Seconds between two looks. A look costs a few system calls.
_CHECK_EVERY = 1.0
# Longest sleep of the thread otherwise: how soon it notices that the wall clock was set forward.
_NAP = 5.0


class Upkeep:
    """The care for one store; everything happens in the coordinator's thread."""

    def __init__(self, backend: Backend, clock: Clock) -> None:
        self._store = backend if isinstance(backend, FileStore) else None
        self._clock = clock
        # An engine that has nothing to do looks as well, so that it does not learn of a loss from the next caller.
        self.longest_nap = _NAP if self._store is None else _CHECK_EVERY
        self._check_at = 0.0
        self._is_due = False
        # Whether the store has more room to give back.
        self.has_more = False

    def check(self) -> None:
        """Raise `StoreUnusable` if the store's files were taken away; at most one look a second."""
        if self._store is not None and (now := self._clock.monotonic()) >= self._check_at:
            self._check_at = now + _CHECK_EVERY
            self._is_due = True
            self._store.check()

    def tidy(self, *, is_idle: bool) -> None:
        """Have the store give back a little room: at every chance while there is nothing to do, else once a second."""
        if self._store is None or not (self._is_due or (is_idle and self.has_more)):
            return
        self._is_due = False
        try:
            self.has_more = self._store.shrink()
        except StorageUnavailable as error:
            # A full disk, or somebody else's lock. Commits tell that; this is only tidying.
            self.has_more = False
            _log.debug("no room was given back: %s", error)

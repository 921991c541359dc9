"""What the coordinator does for a store in a file, besides commits.

It checks that the file is still there, before anything is acknowledged. And it gives unused space back to the file
system, when no caller is waiting.

Knows the optional half of a store, `FileStore`, and the clock. For a store without a file it does nothing.
"""

from __future__ import annotations

import logging

from durable.backends.base import Backend, FileStore
from durable.errors import StorageUnavailable
from durable.model.clock import Clock

_log = logging.getLogger("durable")
# Seconds between two checks of the file. A check costs a few system calls.
_CHECK_EVERY = 1.0
# Longest sleep of the thread for a store without a file: how soon it notices that the wall clock was set forward.
_NAP = 5.0


class Upkeep:
    """Checks and shrinks the file of one store, in the coordinator's thread."""

    def __init__(self, backend: Backend, clock: Clock) -> None:
        self._store = backend if isinstance(backend, FileStore) else None
        self._clock = clock
        # An idle engine checks as well, so that it notices a loss before the next call does.
        self.longest_nap = _NAP if self._store is None else _CHECK_EVERY
        self._check_at = 0.0
        self._is_due = False
        # Whether the store has more space to give back.
        self.has_more = False

    def check(self) -> None:
        """Raise `StoreUnusable` if the store's files were removed; checks at most once a second."""
        if self._store is not None and (now := self._clock.monotonic()) >= self._check_at:
            self._check_at = now + _CHECK_EVERY
            self._is_due = True
            self._store.check()

    def tidy(self, *, is_idle: bool) -> None:
        """Let the store give back a little space: at every chance while there is nothing to do, else once a second."""
        if self._store is None or not (self._is_due or (is_idle and self.has_more)):
            return
        self._is_due = False
        try:
            self.has_more = self._store.shrink()
        except StorageUnavailable as error:
            # A full disk, or another process's lock. If that matters, the next commit fails; this is only tidying.
            self.has_more = False
            _log.debug("no space was given back: %s", error)

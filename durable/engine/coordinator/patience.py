"""A commit that has failed once is repeated for a while, unreleased, before the engine gives up.

Knows the store and the clock. Must not know what is in the batch.
"""

from __future__ import annotations

import logging

from durable.backends.base import Backend, Batch, FileStore
from durable.errors import StorageUnavailable
from durable.model.clock import Clock

_log = logging.getLogger("durable")


class Patience:
    """How many seconds one commit may take, from the beginning of the first try to the end of the last."""

    def __init__(self, backend: Backend, clock: Clock, seconds: float) -> None:
        self._backend = backend
        self._store = backend if isinstance(backend, FileStore) else None
        self._clock = clock
        self._seconds = seconds

    def limit(self, left: float | None = None) -> None:
        """Keep the store from waiting for a lock longer than the patience lasts, or what is left of it."""
        if self._store is not None:
            self._store.limit_wait(self._seconds if left is None else left)

    def commit_again(self, batch: Batch, error: StorageUnavailable, began: float) -> None:
        """Try again what was begun then and has failed, or raise the last error.

        A failed commit may have happened after all: the batch number tells.
        """
        clock, end = self._clock, began + self._seconds
        left, pause = end - clock.monotonic(), 0.02
        if left > 0:
            # Logged once: a full disk is not made better by a log that grows.
            _log.warning("a commit failed and is tried again for up to %g s: %s", round(left, 3), error)
        while left > 0:
            is_last = pause >= left
            clock.sleep(min(pause, left))
            try:
                self.limit(max(0.0, end - clock.monotonic()))
                if self._backend.last_batch() < batch.number:
                    self._backend.commit(batch)
                break
            except StorageUnavailable as again:
                error = again
            # The last pause is cut to what is left, so that the last try comes at the very end.
            left = 0.0 if is_last else end - clock.monotonic()
            pause = min(pause * 2, 5.0)
        else:
            raise error
        self.limit()
        _log.warning("the store takes commits again, after %.1f s", clock.monotonic() - began)

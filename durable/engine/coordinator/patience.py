"""A commit that has failed once is repeated for a while, unreleased, before the engine gives up.

Knows the store and the clock, but nothing about what is in the batch.
"""

from __future__ import annotations

import logging

from durable.backends.base import Backend, Batch, FileStore
from durable.errors import StorageUnavailable
from durable.model.clock import Clock

_log = logging.getLogger("durable")


class Patience:
    """The time that one commit may take in seconds, from the start of the first try to the end of the last."""

    def __init__(self, backend: Backend, clock: Clock, seconds: float) -> None:
        self._backend = backend
        self._store = backend if isinstance(backend, FileStore) else None
        self._clock = clock
        self._seconds = seconds

    def limit(self, seconds_left: float | None = None) -> None:
        """Keep the store from waiting for a lock longer than the whole patience, or than what remains of it."""
        if self._store is not None:
            self._store.limit_wait(self._seconds if seconds_left is None else seconds_left)

    def commit_again(self, batch: Batch, error: StorageUnavailable, began: float) -> None:
        """Repeat a commit that began at `began` and failed with `error`. Raises the last error when the time is over.

        A failed commit may have happened after all, so the batch number is checked before each try.
        """
        clock, end = self._clock, began + self._seconds
        seconds_left, pause = end - clock.monotonic(), 0.02
        if seconds_left > 0:
            # Logged once: a growing log does not help a full disk.
            _log.warning("a commit failed and is tried again for up to %g s: %s", round(seconds_left, 3), error)
        while seconds_left > 0:
            is_last = pause >= seconds_left
            clock.sleep(min(pause, seconds_left))
            try:
                self.limit(max(0.0, end - clock.monotonic()))
                if self._backend.last_batch() < batch.number:
                    self._backend.commit(batch)
                break
            except StorageUnavailable as latest:
                error = latest
            # The last pause is cut to the remaining time, so that the last try comes at the very end.
            seconds_left = 0.0 if is_last else end - clock.monotonic()
            pause = min(pause * 2, 5.0)
        else:
            raise error
        self.limit()
        _log.warning("the store takes commits again, after %.1f s", clock.monotonic() - began)

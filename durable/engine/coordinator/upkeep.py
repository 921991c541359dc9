"""What the coordinator does for its store besides commits: it repeats one that failed, and looks after the file.

A commit that has failed is repeated for a while, unreleased, before the engine gives up (`Patience`). A store in a file
is checked to be still there before anything is acknowledged, and unused space is given back to the file system when no
caller is waiting (`Upkeep`).

Knows the store with its optional half, `FileStore`, and the clock, but nothing about what is in a batch.
"""

from __future__ import annotations

import logging

from durable.backends.base import Backend, Batch, FileStore
from durable.errors import StorageUnavailable
from durable.model.clock import Clock

_log = logging.getLogger("durable")
# Seconds between two checks of the file. A check costs a few system calls.
_CHECK_EVERY = 1.0
# Longest sleep of the thread for a store without a file: how soon it notices that the wall clock was set forward.
_NAP = 5.0


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

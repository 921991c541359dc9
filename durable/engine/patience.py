"""A commit that has failed once is repeated for a while, unreleased, before the engine gives up.

Knows the store and the clock. Must not know what is in the batch.
"""

from __future__ import annotations

import logging

from durable.backends.base import Backend, Batch
from durable.clock import Clock
from durable.errors import StorageUnavailable

_log = logging.getLogger("durable")


def commit_again(backend: Backend, batch: Batch, error: StorageUnavailable, *, clock: Clock, patience: float) -> None:
    """Try for `patience` seconds what has failed once, or raise the last error.

    A failed commit may have happened after all: the batch number tells.
    """
    began = clock.monotonic()
    left, pause = patience, 0.02
    if left > 0:
        # Logged once: a full disk is not made better by a log that grows.
        _log.warning("a commit failed and is tried again for up to %g s: %s", left, error)
    while left > 0:
        is_last = pause >= left
        clock.sleep(min(pause, left))
        try:
            if backend.last_batch() < batch.number:
                backend.commit(batch)
            break
        except StorageUnavailable as again:
            error = again
        # The last pause is cut to what is left, so that the last try comes at the very end.
        left = 0.0 if is_last else began + patience - clock.monotonic()
        pause = min(pause * 2, 5.0)
    else:
        raise error
    _log.warning("the store takes commits again, after %.1f s", clock.monotonic() - began)

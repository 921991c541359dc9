"""The client that commands talk to. Only the commands that need one import this file: it loads half of durable."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from durable.cli.store import checked_file
from durable.engine.api.sync import SyncWorkflowClient

Client: TypeAlias = SyncWorkflowClient[Any]
# Seconds until an engine that does not answer is given up. Someone is watching the cursor blink.
_TIMEOUT = 10


@contextmanager
def open_client(store: str) -> Iterator[Client]:
    """The client of a store, open until the end of the block. Raises `Refusal` or a `DurableError`."""
    checked_file(store)
    with SyncWorkflowClient(store, timeout=_TIMEOUT) as client:
        yield client

"""What the engine asks of a store: one atomic `commit(batch)` and a few ways to read.

A backend stores and loads. It has no policy, no clock and no opinion about statuses. Every method is called from one
thread, the coordinator's, and is synchronous.

The writer is an *incarnation*: a random id per engine start. Every commit carries the batch number that follows the
last one of this incarnation, and the store checks both in the same transaction, so a commit whose outcome is unknown is
resolved by asking for the last number, and an engine that was superseded cannot write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import attrs

from durable.backends.base.batch import Batch as Batch
from durable.backends.base.batch import Entries as Entries
from durable.backends.base.queries import HistoryLength, PendingCount, Query, R, Workflows
from durable.model.homes import ONLY, Shard
from durable.model.records import (
    HistoryEntry,
    WorkflowRecord,
)

# How many cells a mark has at least.
MARK_CELLS = 124


class Mark(Protocol):
    """Cells for a number each, `MARK_CELLS` of them: a list, or a window into memory."""

    def __getitem__(self, index: int, /) -> int: ...
    def __setitem__(self, index: int, value: int, /) -> None: ...


@attrs.frozen(kw_only=True)
class Opened:
    """What a store says when an engine has taken it."""

    # The highest serial ever given out, or the number of the shard if there was none.
    serial: int
    # Whether the last engine stopped in order (also True for a new store).
    clean: bool
    # The workflow whose body ran when the last engine died; 0 if none did, or if the store cannot tell.
    marked: int = 0
    # The engine writes the key of a workflow into the first cell before it runs the body, and 0 when no body runs. The
    # other cells are its own: what the body is told, and which bodies died before. They outlive the process, not the
    # machine, and cost no commit.
    mark: Mark = attrs.field(factory=lambda: [0] * MARK_CELLS, eq=False)
    # Which part of the store it is that was opened.
    shard: Shard = ONLY


class Backend(Protocol):
    """A store, or one shard of it.

    `workflow`, `workflow_by_key` and `history` read the rows of every shard, as they were committed last; everything
    else is about this shard alone. Raises `StorageUnavailable` for what may pass and a repeat may cure, and
    `StoreFenced` when superseded.
    """

    def open(self, incarnation: str) -> Opened:
        """Take the store for this incarnation: lock, check, migrate. Raises a `StorageError`; then nothing changed."""
        ...

    def close(self) -> None:
        """Let go of the store; harmless when repeated or when it was never opened."""
        ...

    def commit(self, batch: Batch) -> None:
        """Apply the whole batch or nothing, durably."""
        ...

    def last_batch(self) -> int:
        """The number of this incarnation's last commit, 0 before the first. Raises `StoreFenced`."""
        ...

    def workflow(self, id: str) -> WorkflowRecord | None:
        """The workflow with this id."""
        ...

    def workflow_by_key(self, key: int) -> WorkflowRecord | None:
        """The workflow with this key."""
        ...

    def history(self, key: int) -> list[HistoryEntry]:
        """A workflow's history in the order of `seq`."""
        ...

    def find(self, query: Query[R]) -> Sequence[R]:
        """The rows that answer a question."""
        ...

    def count(self, query: Workflows | PendingCount | HistoryLength) -> int:
        """How many rows answer (a limit and a cursor do not count)."""
        ...


@runtime_checkable
class FileStore(Protocol):
    """What a store in a file offers besides. A backend need not have these methods."""

    def check(self) -> None:
        """Raise `StoreUnusable` if its files were deleted, moved or replaced since it was opened."""
        ...

    def shrink(self) -> bool:
        """Give a little room that is not used back to the file system; whether there is more."""
        ...

    def limit_wait(self, seconds: float) -> None:
        """Wait no longer than this for somebody else's lock, even if the store is set to wait longer."""
        ...

    def backup(self, target: str, *, overwrite: bool, is_stopped: Callable[[], bool]) -> None:
        """Copy the store to a file, from any thread, until `is_stopped`. Raises a `StorageError` or `EngineClosed`."""
        ...

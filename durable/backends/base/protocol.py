"""The interface of a store: one atomic `commit(batch)` and a few ways to read.

A backend stores and loads. It has no policy, no clock and no opinion about statuses. Every method is synchronous and is
called from one thread, the coordinator's, except `FileStore.backup`.

The writer is an *incarnation*: a random id per engine start. Every commit carries the batch number that follows the
last one of this incarnation, and the store checks both in the same transaction. So a commit with an unknown outcome is
resolved by asking for the last number, and an engine that was superseded cannot write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, runtime_checkable

import attrs

from durable.backends.base.batch import Batch as Batch
from durable.backends.base.batch import Entries as Entries
from durable.backends.base.queries import HistoryLength, PendingCount, Query, R, Workflows
from durable.model.homes import ONLY, Shard
from durable.model.records import (
    HistoryEntry,
    WorkflowRecord,
)

T = TypeVar("T")
# The least number of cells in a mark.
MARK_CELLS = 124


class Mark(Protocol):
    """`MARK_CELLS` or more cells, each for one integer: a list, or a view of memory."""

    def __getitem__(self, index: int, /) -> int: ...
    def __setitem__(self, index: int, value: int, /) -> None: ...


@attrs.frozen(kw_only=True)
class Opened:
    """What a store reports when an engine has taken it."""

    # The highest serial that was ever used, or the number of the shard if there was none.
    serial: int
    # Whether the last engine stopped in order. True for a new store.
    clean: bool
    # The key of the workflow whose body ran when the last engine died; 0 if none ran, or if the store cannot tell.
    marked: int = 0
    # The engine writes the key of a workflow into the first cell before it runs the body, and 0 when no body runs. It
    # uses the other cells for the input of the body and for the bodies that died before. The cells survive the end of
    # the process but not of the machine, and they cost no commit.
    mark: Mark = attrs.field(factory=lambda: [0] * MARK_CELLS, eq=False)
    # Which part of the store it is that was opened.
    shard: Shard = ONLY


class Reads(Protocol):
    """The questions that a store answers."""

    def workflow(self, id: str) -> WorkflowRecord | None:
        """The workflow with this id; None if none is stored."""
        ...

    def workflow_by_key(self, key: int) -> WorkflowRecord | None:
        """The workflow with this key; None if none is stored."""
        ...

    def history(self, key: int) -> list[HistoryEntry]:
        """The history of a workflow, ordered by `seq`. Raises `CodecError` if an entry is damaged."""
        ...

    def find(self, query: Query[R]) -> Sequence[R]:
        """The rows that answer a question, in its order. Damaged rows are left out."""
        ...

    def count(self, query: Workflows | PendingCount | HistoryLength) -> int:
        """The number of rows that answer a question. Its limit and its cursor are ignored."""
        ...


class Backend(Reads, Protocol):
    """A store, or one shard of it.

    `workflow`, `workflow_by_key` and `history` read the committed rows of every shard; everything else concerns this
    shard alone. Raises `StorageUnavailable` if a repeat may succeed, `StoreFenced` if another engine has taken over.
    """

    def open(self, incarnation: str) -> Opened:
        """Take the store for this incarnation: lock, check, migrate.

        Raises a `StorageError`; then nothing was changed and no lock is held.
        """
        ...

    def close(self) -> None:
        """Release the store. May be called twice, or without `open`."""
        ...

    def commit(self, batch: Batch) -> None:
        """Apply the whole batch or nothing. It is durable when this returns. Raises `StorageError`."""
        ...

    def last_batch(self) -> int:
        """The number of the last commit of this incarnation, 0 before the first. Raises `StoreFenced`."""
        ...


@runtime_checkable
class FileStore(Protocol):
    """Further methods of a store in a file. Other backends need not have them."""

    def check(self) -> None:
        """Raise `StoreUnusable` if its files were deleted, moved or replaced since it was opened."""
        ...

    def shrink(self) -> bool:
        """Return a little unused space to the file system. Returns whether there is more to return."""
        ...

    def limit_wait(self, seconds: float) -> None:
        """Wait at most this long for a lock of another process, even if the store was configured to wait longer."""
        ...

    def backup(self, target: str, *, overwrite: bool, is_stopped: Callable[[], bool]) -> None:
        """Copy the store to a file, also one that another process has open. May be called from any thread.

        It stops when `is_stopped` returns True, and when this process opens the store.
        Raises a `StorageError` or `EngineClosed`; then the target is unchanged.
        """
        ...


class Held(Protocol):
    """A store file that this process owns."""

    @property
    def path(self) -> str:
        """Its real path."""
        ...

    def announce(self, control: str) -> None:
        """Record beside the file where its owner can be asked; "" if it takes no calls. For any thread."""
        ...


@runtime_checkable
class SharedStore(Backend, Protocol):
    """A store that other processes than its owner can reach: a file. These methods may be used from any thread."""

    @property
    def path(self) -> str:
        """The path of the file, for messages."""
        ...

    def control_path(self) -> str | None:
        """Where the owner can be asked, as it has recorded; "" if it takes no calls, None if it has not recorded it."""
        ...

    def is_taken(self) -> bool:
        """Whether somebody owns the store, for longer than a moment."""
        ...

    def read(self, question: Callable[[Reads], T]) -> T:
        """Ask the store questions without opening it, all of them at one moment. Raises a `StorageError`."""
        ...

    def open_briefly(self, incarnation: str) -> Opened:
        """Like `open`, for a moment in which an engine that starts waits. It does not count as a start of an engine."""
        ...


@runtime_checkable
class HeldStore(Protocol):
    """A store whose owner other processes of this machine can find."""

    @property
    def held(self) -> Held | None:
        """The file, while the store is open."""
        ...

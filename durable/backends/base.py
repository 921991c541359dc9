"""What the engine asks of a store: one atomic `commit(batch)` and a few ways to read.

A backend stores and loads. It has no policy, no clock and no opinion about statuses. Every method is called from one
thread, the coordinator's, and is synchronous.

The writer is an *incarnation*: a random id per engine start. Every commit carries the batch number that follows the
last one of this incarnation, and the store checks both in the same transaction, so a commit whose outcome is unknown is
resolved by asking for the last number, and an engine that was superseded cannot write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar, runtime_checkable

import attrs

from durable.backends.batch import Batch as Batch
from durable.backends.batch import Entries as Entries
from durable.letters import DeadLetter
from durable.records import (
    EventWait,
    HistoryEntry,
    OpenPause,
    PendingEvent,
    Progress,
    SentEvent,
    TakenBroadcast,
    WorkflowRecord,
    WorkflowStatus,
)
from durable.schedule import ScheduleRecord

R = TypeVar("R", covariant=True)


class Query(Generic[R]):
    """A question to the store; R is the type of the rows that answer it."""


@attrs.frozen(kw_only=True)
class Workflows(Query[WorkflowRecord]):
    """Workflows by key: ascending, or newest first. `after` is the key of the last row seen; filters are optional.

    `as_shown`: a workflow whose row is damaged has the status that people are shown, PARKED, and not the stored one.
    """

    statuses: tuple[WorkflowStatus, ...] = ()
    as_shown: bool = False
    name: str | None = None
    tag: str | None = None
    created_since: int | None = None
    finished_before: int | None = None
    after: int | None = None
    newest_first: bool = False
    limit: int


@attrs.frozen
class TakenIds(Query[str]):
    """Those of some ids that a workflow has, in no order."""

    ids: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Timers(Query[tuple[int, int]]):
    """(wake_at, key) of the workflows and schedules that wake first, in that order; `after` is the last one seen."""

    after: tuple[int, int] | None = None
    limit: int


@attrs.frozen(kw_only=True)
class WaitsOf(Query[EventWait]):
    """All event waits of one workflow."""

    workflow_key: int


@attrs.frozen(kw_only=True)
class WaitsFor(Query[EventWait]):
    """Who waits for an event name and key, the longest wait first."""

    name: str
    event_key: str
    after_serial: int = 0
    limit: int


@attrs.frozen(kw_only=True)
class OpenPauses(Query[OpenPause]):
    """Pauses by number, ascending; `name` is that of the workflow. Filters are optional."""

    workflow_key: int | None = None
    name: str | None = None
    after: int = 0
    limit: int


@attrs.frozen(kw_only=True)
class EventsFor(Query[PendingEvent]):
    """Pending events of one name and key: of a mailbox, or untargeted (`target=None`; never the unstarted), FIFO.

    Either those that one workflow takes, or broadcasts.
    """

    name: str
    event_key: str
    target: int | None
    consume: bool = True
    after_serial: int = 0
    limit: int


@attrs.frozen(kw_only=True)
class PendingEvents(Query[PendingEvent]):
    """Pending events by serial, ascending, after one; or just the one with this serial. Filters are optional.

    With `valid_at` only those that have not expired by then.
    """

    serial: int | None = None
    name: str | None = None
    target: int | None = None
    unstarted: str | None = None
    valid_at: int | None = None
    after: int = 0
    limit: int = 1


@attrs.frozen(kw_only=True)
class Taken(Query[TakenBroadcast]):
    """Which broadcasts a workflow has taken, in no order; or only the last one of a name and key."""

    workflow_key: int
    name: str | None = None
    event_key: str | None = None


@attrs.frozen(kw_only=True)
class Mailbox(Query[PendingEvent]):
    """Everything in a workflow's mailbox (by key), or kept for an id that is not started yet, FIFO."""

    target: int | None = None
    unstarted: str | None = None
    limit: int


@attrs.frozen(kw_only=True)
class StaleEvents(Query[PendingEvent]):
    """Events that expired at or before an instant, and those outside a mailbox that are kept since before another."""

    expired_at: int
    since_before: int
    limit: int


@attrs.frozen(kw_only=True)
class Letters(Query[DeadLetter]):
    """Dead letters by id, ascending; just the one with this id; or those that died before an instant, oldest first."""

    id: int | None = None
    after: int = 0
    died_before: int | None = None
    limit: int = 1


@attrs.frozen(kw_only=True)
class Sent(Query[SentEvent]):
    """The record of one sender's event id, or the records older than an instant."""

    event_id: str | None = None
    before: int | None = None
    limit: int = 1


@attrs.frozen
class Children(Query[WorkflowRecord]):
    """The children of a workflow that end with it and have not ended: all but the spawned ones that are kept."""

    parent_key: int


@attrs.frozen
class ProgressOf(Query[Progress]):
    """What a workflow has published last, if anything."""

    workflow_key: int


@attrs.frozen(kw_only=True)
class Schedules(Query[ScheduleRecord]):
    """Schedules by name, ascending, after a name; or just the one with this name or this key."""

    name: str | None = None
    key: int | None = None
    after: str | None = None
    limit: int = 1


@attrs.frozen
class Suspects(Query[tuple[int, int]]):
    """(key, crashes) of the workflows on trial, ascending."""


@attrs.frozen
class Background:
    """What is shown of a workflow and does not stand in its own row: its parent's id, and its progress as JSON."""

    workflow_key: int
    parent_id: str | None
    progress: str | None


@attrs.frozen
class Backgrounds(Query[Background]):
    """The backgrounds of some workflows, in no order. One question for a whole page."""

    workflow_keys: tuple[int, ...]


@attrs.frozen
class ChildIds(Query[str]):
    """The ids of the children of a workflow, whatever has become of them, the newest first."""

    parent_key: int
    limit: int


@attrs.frozen
class HistoryLength:
    """How many entries the history of a workflow has."""

    workflow_key: int


@attrs.frozen(kw_only=True)
class PendingCount:
    """How many events are pending: untargeted under a name, in a mailbox, or for an id that is not started yet.

    Under a name a broadcast that was taken does not count, or, with `taken`, only those do. With nothing given: how
    many are kept for ids that are not started yet.
    """

    name: str | None = None
    taken: bool = False
    target: int | None = None
    unstarted: str | None = None


# How many cells a mark has at least.
MARK_CELLS = 124


class Mark(Protocol):
    """Cells for a number each, `MARK_CELLS` of them: a list, or a window into memory."""

    def __getitem__(self, index: int, /) -> int: ...
    def __setitem__(self, index: int, value: int, /) -> None: ...


@attrs.frozen(kw_only=True)
class Opened:
    """What a store says when an engine has taken it."""

    # The highest serial ever given out.
    serial: int
    # Whether the last engine stopped in order (also True for a new store).
    clean: bool
    # The workflow whose body ran when the last engine died; 0 if none did, or if the store cannot tell.
    marked: int = 0
    # The engine writes the key of a workflow into the first cell before it runs the body, and 0 when no body runs. The
    # other cells are its own: what the body is told, and which bodies died before. They outlive the process, not the
    # machine, and cost no commit.
    mark: Mark = attrs.field(factory=lambda: [0] * MARK_CELLS, eq=False)


class Backend(Protocol):
    """A store. Raises `StorageUnavailable` for what may pass and a repeat may cure, `StoreFenced` when superseded."""

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

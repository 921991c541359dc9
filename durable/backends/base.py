"""What the engine asks of a store: one atomic `commit(batch)` and a few ways to read.

A backend stores and loads. It has no policy, no clock and no opinion about statuses. Every method is called from one
thread, the coordinator's, and is synchronous.

The writer is an *incarnation*: a random id per engine start. Every commit carries the batch number that follows the
last one of this incarnation, and the store checks both in the same transaction, so a commit whose outcome is unknown is
resolved by asking for the last number, and an engine that was superseded cannot write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

import attrs

from durable.records import (
    DeadLetter,
    EventWait,
    HistoryEntry,
    OpenPause,
    PendingEvent,
    Progress,
    SentEvent,
    WorkflowRecord,
    WorkflowStatus,
)
from durable.schedule import ScheduleRecord

R = TypeVar("R", covariant=True)


@attrs.define
class Entries:
    """New entries of histories, each with the key of its workflow, in the order in which they were decided.

    Two lists and no pairs: there is one for every step, and the garbage collector comes by each of them.
    """

    _keys: list[int] = attrs.field(factory=list)
    _entries: list[HistoryEntry] = attrs.field(factory=list)

    def add(self, key: int, entry: HistoryEntry) -> None:
        """One more entry."""
        self._keys.append(key)
        self._entries.append(entry)

    def without(self, key: int) -> Entries:
        """Those of all other workflows."""
        return _entries((owner, entry) for owner, entry in self if owner != key)

    def __iter__(self) -> Iterator[tuple[int, HistoryEntry]]:
        return zip(self._keys, self._entries, strict=True)

    def __len__(self) -> int:
        return len(self._keys)


def _entries(pairs: Entries | Iterable[tuple[int, HistoryEntry]]) -> Entries:
    if isinstance(pairs, Entries):
        return pairs
    made = Entries()
    for key, entry in pairs:
        made.add(key, entry)
    return made


# Nothing is converted when a field is set anew: that would make every assignment a call.
@attrs.define(on_setattr=attrs.setters.NO_OP)
class Batch:
    """The net changes of one commit; a store applies what is dropped before what is put.

    Within a batch nothing is both put and dropped, and the engine reads through it as an overlay over the store.
    """

    number: int = 0
    # The highest serial given out so far.
    serial: int = 0
    workflows_new: dict[int, WorkflowRecord] = attrs.field(factory=dict)
    # Rows that exist already: everything but key, id, created_at, parent and tags may have changed; name, version,
    # input, start_digest, start_at, depth and round only together with `history_cleared`.
    workflows_changed: dict[int, WorkflowRecord] = attrs.field(factory=dict)
    # With their history, waits, mailbox and progress.
    workflows_purged: set[int] = attrs.field(factory=set)
    # Workflows whose stored history goes, before the entries below are added.
    history_cleared: set[int] = attrs.field(factory=set)
    history: Entries = attrs.field(factory=Entries, converter=_entries)
    # (workflow, seq): entries that nobody needs any more. They go last: some may be among those above.
    history_trimmed: set[tuple[int, int]] = attrs.field(factory=set)
    waits_put: dict[tuple[int, str], EventWait] = attrs.field(factory=dict)
    waits_dropped: set[tuple[int, str]] = attrs.field(factory=set)
    # Keyed by serial. A put may replace a stored event (a mailbox that becomes known, a letter that is sent again).
    events_put: dict[int, PendingEvent] = attrs.field(factory=dict)
    events_dropped: set[int] = attrs.field(factory=set)
    letters_put: dict[int, DeadLetter] = attrs.field(factory=dict)
    letters_dropped: set[int] = attrs.field(factory=set)
    sent_put: dict[str, SentEvent] = attrs.field(factory=dict)
    sent_dropped: set[str] = attrs.field(factory=set)
    # By workflow; a put replaces what is stored.
    progress_put: dict[int, Progress] = attrs.field(factory=dict)
    # A put replaces the schedule of the same key, and one of the same name under another key.
    schedules_put: dict[int, ScheduleRecord] = attrs.field(factory=dict)
    schedules_dropped: set[int] = attrs.field(factory=set)
    # Said by the last commit of an orderly stop.
    clean_stop: bool = False

    def is_empty(self) -> bool:
        """Whether there is nothing to commit."""
        return not (
            self.workflows_new
            or self.workflows_changed
            or self.history
            or self.workflows_purged
            or self.history_cleared
            or self.history_trimmed
            or self.waits_put
            or self.waits_dropped
            or self.events_put
            or self.events_dropped
            or self.letters_put
            or self.letters_dropped
            or self.sent_put
            or self.sent_dropped
            or self.progress_put
            or self.schedules_put
            or self.schedules_dropped
            or self.clean_stop
        )


class Query(Generic[R]):
    """A question to the store; R is the type of the rows that answer it."""


@attrs.frozen(kw_only=True)
class Workflows(Query[WorkflowRecord]):
    """Workflows by key: ascending, or newest first. `after` is the key of the last row seen; filters are optional."""

    statuses: tuple[WorkflowStatus, ...] = ()
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
    """Pending events of one name and key: of a mailbox, or untargeted (`target=None`; never the unstarted), FIFO."""

    name: str
    event_key: str
    target: int | None
    after_serial: int = 0
    limit: int


@attrs.frozen(kw_only=True)
class Mailbox(Query[PendingEvent]):
    """Everything in a workflow's mailbox (by key), or kept for an id that is not started yet, FIFO."""

    target: int | None = None
    unstarted: str | None = None
    limit: int


@attrs.frozen(kw_only=True)
class StaleEvents(Query[PendingEvent]):
    """Events that expired at or before an instant, and those without a mailbox that were sent before another."""

    expired_at: int
    sent_before: int
    limit: int


@attrs.frozen(kw_only=True)
class Letters(Query[DeadLetter]):
    """Dead letters by id, ascending; or just the one with this id."""

    id: int | None = None
    after: int = 0
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


@attrs.frozen(kw_only=True)
class PendingCount:
    """How many pending events have this name; with None, how many are kept for ids that are not started yet."""

    name: str | None


@attrs.frozen(kw_only=True)
class Opened:
    """What a store says when an engine has taken it."""

    # The highest serial ever given out.
    serial: int
    # Whether the last engine stopped in order (also True for a new store).
    clean: bool


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

    def count(self, query: Workflows | PendingCount) -> int:
        """How many rows answer (a limit and a cursor do not count)."""
        ...

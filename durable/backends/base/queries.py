"""Questions to a store, as values with the type of the rows that answer them."""

from __future__ import annotations

from typing import Generic, TypeVar

import attrs

from durable.backends.base.batch import Batch as Batch
from durable.backends.base.batch import Entries as Entries
from durable.backends.base.batch import StoredLetter
from durable.model.dead_letters import DeadLetter
from durable.model.records import (
    EventWait,
    OpenPause,
    PendingEvent,
    Progress,
    SentEvent,
    TakenBroadcast,
    WorkflowRecord,
    WorkflowStatus,
)
from durable.model.schedule import ScheduleRecord

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


# --- only asked of stores with several shards -----------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Inbox(Query[StoredLetter]):
    """The letters to this shard that are not handled yet, by mark and ordinal; or those that were set aside."""

    set_aside: bool = False
    limit: int


@attrs.frozen
class Undelivered(Query[StoredLetter]):
    """One of the letters from this shard to another that are not handled there yet, if there is one."""

    to: int


@attrs.frozen
class CreatedMark(Query[int]):
    """The mark of the commit that has stored a workflow of this shard."""

    workflow_key: int


@attrs.frozen
class TiedShards(Query[int]):
    """The other shards in which a workflow has started children that end with it."""

    workflow_key: int


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

"""Questions to a store, as values. The type parameter of each is the type of its rows.

Cursors are exclusive: `after` is the last row seen. A None filter does not filter. Each docstring names the order.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

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
from durable.model.requests import KeptRequest, StoredAnswer
from durable.model.schedule import ScheduleRecord
from durable.model.timers import ScheduleKey, Timer

R = TypeVar("R", covariant=True)


class Query(Generic[R]):
    """A question to the store. R is the type of its rows."""


@attrs.frozen(kw_only=True)
class Workflows(Query[WorkflowRecord]):
    """Workflows by key: ascending, or newest first. `after` is the key of the last row seen; filters are optional.

    `created_since` and `created_until` are inclusive, `parent` is the id of the workflow that started them. Nothing
    matches a parent that does not exist.

    `as_shown`: a workflow with a damaged row counts as PARKED, the status that people see, whatever is stored.
    """

    statuses: tuple[WorkflowStatus, ...] = ()
    as_shown: bool = False
    name: str | None = None
    tag: str | None = None
    created_since: int | None = None
    created_until: int | None = None
    id_prefix: str | None = None
    parent: str | None = None
    finished_before: int | None = None
    after: int | None = None
    newest_first: bool = False
    limit: int


@attrs.frozen(kw_only=True)
class TheseWorkflows(Query[WorkflowRecord]):
    """The workflows with these ids or these keys, in no order, and twice if both are asked for."""

    ids: tuple[str, ...] = ()
    keys: tuple[int, ...] = ()


class Attached(NamedTuple):
    """Whether a workflow has rows in the tables of history, of waits and of mail."""

    workflow_key: int
    has_history: bool
    has_waits: bool
    has_mail: bool


@attrs.frozen
class AttachedTo(Query[Attached]):
    """What is attached to these workflows, whether they exist or not: one answer for each key, in no order."""

    workflow_keys: tuple[int, ...]


@attrs.frozen(kw_only=True)
class Timers(Query[Timer]):
    """The timers of workflows and schedules that wake first, in the order of `Timer`."""

    after: Timer | None = None
    limit: int


@attrs.frozen(kw_only=True)
class WaitsOf(Query[EventWait]):
    """All event waits of one workflow, by position."""

    workflow_key: int


@attrs.frozen(kw_only=True)
class WaitsFor(Query[EventWait]):
    """The waits for an event name and key, the oldest first."""

    name: str
    event_key: str
    after_serial: int = 0
    limit: int


@attrs.frozen(kw_only=True)
class OpenPauses(Query[OpenPause]):
    """Open pauses by number, ascending. `name` is that of the workflow. Filters are optional."""

    workflow_key: int | None = None
    name: str | None = None
    after: int = 0
    limit: int


@attrs.frozen(kw_only=True)
class EventsFor(Query[PendingEvent]):
    """Pending events with a name and key, the oldest first: in a mailbox, or untargeted if `target` is None.

    Events for ids that are not started yet are never included. `consume` chooses between events for one taker and
    broadcasts.
    """

    name: str
    event_key: str
    target: int | None
    consume: bool = True
    after_serial: int = 0
    limit: int


@attrs.frozen(kw_only=True)
class PendingEvents(Query[PendingEvent]):
    """Pending events by serial, ascending; or just the event with this serial. Filters are optional.

    With `valid_at`, only those that have not expired at that instant.
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
    """The last broadcast of each name and key that a workflow has taken, in no order; or that of one name and key."""

    workflow_key: int
    name: str | None = None
    event_key: str | None = None


@attrs.frozen(kw_only=True)
class Mailbox(Query[PendingEvent]):
    """All events in the mailbox of a workflow (by key), or for an id that is not started yet, the oldest first."""

    target: int | None = None
    unstarted: str | None = None
    limit: int


@attrs.frozen(kw_only=True)
class StaleEvents(Query[PendingEvent]):
    """Events that expired at or before `expired_at`, and events outside mailboxes with `since` before `since_before`.

    At most `limit` of them, by serial.
    """

    expired_at: int
    since_before: int
    limit: int


@attrs.frozen(kw_only=True)
class Letters(Query[DeadLetter]):
    """Dead letters by id, ascending; or the one with this id; or those that died before an instant, oldest first."""

    id: int | None = None
    after: int = 0
    died_before: int | None = None
    limit: int = 1


@attrs.frozen(kw_only=True)
class Sent(Query[SentEvent]):
    """The record of one event id of a sender, or the records older than an instant, oldest first."""

    event_id: str | None = None
    before: int | None = None
    limit: int = 1


@attrs.frozen(kw_only=True)
class Answers(Query[StoredAnswer]):
    """The answer to one request, or the answers older than an instant, oldest first."""

    request_id: str | None = None
    before: int | None = None
    limit: int = 1


@attrs.frozen(kw_only=True)
class KeptRequests(Query[KeptRequest]):
    """Requests that were kept for the next engine, by number, ascending."""

    after: int = 0
    limit: int


@attrs.frozen
class Children(Query[WorkflowRecord]):
    """The children of a workflow that have not ended and end with it: all except spawned children that are kept."""

    parent_key: int


@attrs.frozen
class ProgressOf(Query[Progress]):
    """The last value that a workflow has published, if any."""

    workflow_key: int


@attrs.frozen(kw_only=True)
class Schedules(Query[ScheduleRecord]):
    """Schedules by name, ascending; or just the one with this name or this key."""

    name: str | None = None
    key: ScheduleKey | None = None
    after: str | None = None
    limit: int = 1


@attrs.frozen
class Suspects(Query[tuple[int, int]]):
    """(key, crashes) of the workflows on trial, by key, ascending."""


@attrs.frozen
class Background:
    """Shown details of a workflow that are not in its row: the id of its parent, and its progress as JSON text."""

    workflow_key: int
    parent_id: str | None
    progress: str | None


@attrs.frozen
class Backgrounds(Query[Background]):
    """The backgrounds of these workflows, in no order. One question serves a whole page."""

    workflow_keys: tuple[int, ...]


@attrs.frozen
class ChildIds(Query[str]):
    """The ids of all children of a workflow, ended or not, the newest first."""

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
    """The number of entries in the history of a workflow. For `count` only."""

    workflow_key: int


@attrs.frozen(kw_only=True)
class PendingCount:
    """The number of pending events: untargeted with a name, in a mailbox, or for an id that is not started yet.

    With a name, broadcasts that were taken do not count; with `taken`, only these count. Without arguments it is the
    number of events for all ids that are not started yet. For `count` only.
    """

    name: str | None = None
    taken: bool = False
    target: int | None = None
    unstarted: str | None = None

"""The handle of an engine on a store in memory, and the answers to queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import islice
from typing import Any, cast

from sortedcontainers import SortedDict

from durable.backends.base import (
    Attached,
    AttachedTo,
    Background,
    Backgrounds,
    Batch,
    ChildIds,
    Children,
    CreatedMark,
    HistoryLength,
    Inbox,
    Opened,
    OpenPauses,
    PendingCount,
    ProgressOf,
    Query,
    R,
    Schedules,
    Suspects,
    TheseWorkflows,
    TiedShards,
    Timers,
    Undelivered,
    WaitsFor,
    WaitsOf,
    Workflows,
)
from durable.backends.memory.mail import MAIL_ANSWERS
from durable.backends.memory.store import MemoryStore
from durable.errors import InvariantViolated, StoreFenced
from durable.model.records import EventWait, HistoryEntry, OpenPause, Progress, WorkflowRecord
from durable.model.timers import Timer

_STORE = "memory://"


class MemoryBackend:
    """A handle on a store in memory, for one engine at a time; without a store it makes a new one.

    Of several handles on one store, the one that was opened last may write. The others raise `StoreFenced` in `commit`
    and `last_batch`. Using a handle before `open` or after `close` is a bug, and raises `InvariantViolated`.
    """

    def __init__(self, shared: MemoryStore | None = None) -> None:
        self._store = MemoryStore() if shared is None else shared
        self._incarnation: str | None = None

    def __repr__(self) -> str:
        return "MemoryBackend()"

    def open(self, incarnation: str) -> Opened:
        """Take the store: from now on every other handle is fenced."""
        store = self._store
        opened = Opened(
            serial=store.serial, clean=store.clean, marked=store.mark[0], mark=store.mark, shard=store.shard
        )
        store.incarnation = self._incarnation = incarnation
        store.batch = 0
        store.clean = False
        return opened

    def close(self) -> None:
        """Give up the handle. The rows stay."""
        self._incarnation = None

    def commit(self, batch: Batch) -> None:
        """Check and apply a batch. Raises `StoreFenced` if another handle was opened since, or a number is missing."""
        store = self._opened()
        if store.incarnation != self._incarnation or store.batch != batch.number - 1:
            raise StoreFenced(_STORE)
        store.check(batch)
        store.apply(batch)

    def last_batch(self) -> int:
        """The number of the last batch of this handle, to find out whether a commit happened."""
        store = self._opened()
        if store.incarnation != self._incarnation:
            raise StoreFenced(_STORE)
        return store.batch

    def workflow(self, id: str) -> WorkflowRecord | None:
        """The workflow with this id, from whichever shard it lives in."""
        store = self._opened().home_of_id(id)
        return store.workflows.get(store.keys.get(id, -1))

    def workflow_by_key(self, key: int) -> WorkflowRecord | None:
        """The workflow with this key, from whichever shard it lives in."""
        return self._opened().home_of_key(key).workflows.get(key)

    def history(self, key: int) -> list[HistoryEntry]:
        entries = self._opened().home_of_key(key).history.get(key, {})
        return [entries[seq] for seq in sorted(entries)]

    def find(self, query: Query[R]) -> Sequence[R]:
        store = self._opened()
        answer = _ANSWERS.get(type(query))
        if answer is None:
            raise InvariantViolated(f"the store in memory has no answer for the query {type(query).__name__}")
        return answer(store, query)

    def count(self, query: Workflows | PendingCount | HistoryLength) -> int:
        store = self._opened()
        if isinstance(query, HistoryLength):
            return len(store.history.get(query.workflow_key, ()))
        if isinstance(query, Workflows):
            return sum(1 for _ in _matching(store, query, store.workflows.values()))
        return store.count_pending(query)

    def _opened(self) -> MemoryStore:
        """The store, if this handle is open."""
        if self._incarnation is None:
            raise InvariantViolated(f"{self!r} is not open: call open() before using it")
        return self._store


# --- the answers --------------------------------------------------------------------------------------------------


def _matching(store: MemoryStore, query: Workflows, records: Iterable[WorkflowRecord]) -> Iterator[WorkflowRecord]:
    """Those of these workflows that match a query."""
    parent = None if query.parent is None else store.home_of_id(query.parent).keys.get(query.parent, -1)
    return (record for record in records if _matches(query, record) and parent in (None, record.parent_key))


def _matches(query: Workflows, record: WorkflowRecord) -> bool:
    """Whether a workflow matches a query, apart from its parent; every condition that is set must hold."""
    before, ended = query.finished_before, record.finished_at
    return (
        (not query.statuses or record.status in query.statuses)
        and (query.name is None or record.name == query.name)
        and (query.tag is None or query.tag in record.tags)
        and (query.created_since is None or record.created_at >= query.created_since)
        and (query.created_until is None or record.created_at <= query.created_until)
        and (query.id_prefix is None or record.id.startswith(query.id_prefix))
        and (before is None or (ended is not None and ended < before))
    )


def _workflows(store: MemoryStore, query: Workflows) -> list[WorkflowRecord]:
    """A page of workflows by key, which is the order of their creation."""
    first, last = (None, query.after) if query.newest_first else (query.after, None)
    keys = store.workflows.irange(first, last, (False, False), query.newest_first)
    records = map(store.workflows.__getitem__, keys)
    return list(islice(_matching(store, query, records), query.limit))


def _timers(store: MemoryStore, query: Timers) -> list[Timer]:
    """A page of timers by time, of workflows and schedules."""
    first = 0 if query.after is None else store.timers.bisect_right(query.after)
    return list(islice(store.timers.islice(first), query.limit))


def _waits_of(store: MemoryStore, query: WaitsOf) -> list[EventWait]:
    """The stored waits of one workflow, by position."""
    waits = store.waits.get(query.workflow_key, {})
    return [waits[position] for position in sorted(waits)]


def _waits_for(store: MemoryStore, query: WaitsFor) -> list[EventWait]:
    """The waits for one event name and key, the longest first."""
    waiting = store.waiting.get((query.name, query.event_key))
    if waiting is None:
        return []
    return [waiting[place] for place in islice(waiting.irange((query.after_serial + 1,)), query.limit)]


def _open_pauses(store: MemoryStore, query: OpenPauses) -> list[OpenPause]:
    """A page of open pauses by serial. They are waits with an empty name and key."""
    waiting = store.waiting.get(("", ""), SortedDict())
    rows = ((waiting[place], store.workflows.get(place[1])) for place in waiting.irange((query.after + 1,)))
    pauses = (
        OpenPause.of(row, id=owner.id, name=owner.name, round=owner.round, status=owner.status)
        for row, owner in rows
        if owner is not None and query.workflow_key in (None, owner.key) and query.name in (None, owner.name)
    )
    return list(islice(pauses, query.limit))


def _progress_of(store: MemoryStore, query: ProgressOf) -> list[Progress]:
    progress = store.progress.get(query.workflow_key)
    return [] if progress is None else [progress]


# The functions that answer queries. The key of each row is the type that its function takes; the cast says so once.
_ANSWERS = cast(
    dict[type[Query[Any]], Callable[[MemoryStore, Query[Any]], list[Any]]],
    {
        Workflows: _workflows,
        TheseWorkflows: lambda store, query: these_workflows(store.workflows, store.keys, query),
        AttachedTo: lambda store, query: attached_to(store.history, store.waits, store.boxes, query),
        Timers: _timers,
        WaitsOf: _waits_of,
        WaitsFor: _waits_for,
        OpenPauses: _open_pauses,
        **MAIL_ANSWERS,
        Children: lambda store, query: [store.workflows[key] for key in store.tied.of(query.parent_key)],
        ProgressOf: _progress_of,
        Schedules: lambda store, query: store.schedules.find(query),
        Suspects: lambda store, _query: list(store.suspects.items()),
        Inbox: lambda store, query: store.letterbox.read(store.shard.number, query),
        Undelivered: lambda store, query: store.letterbox.undelivered(store.shard.number, query),
        CreatedMark: lambda store, query: [store.created_marks[key] for key in [query.workflow_key]],
        TiedShards: lambda store, query: sorted(store.tied_shards.get(query.workflow_key, ())),
        Backgrounds: lambda store, query: backgrounds_of(store.everywhere(), store.progress, query),
        ChildIds: lambda store, query: child_ids_of(store.newest_first(), query),
    },
)


def these_workflows(
    workflows: Mapping[int, WorkflowRecord], keys: Mapping[str, int], query: TheseWorkflows
) -> list[WorkflowRecord]:
    """The queried workflows that exist."""
    asked = [*(keys[id] for id in query.ids if id in keys), *query.keys]
    return [workflows[key] for key in asked if key in workflows]


def attached_to(
    history: Mapping[int, Sized], waits: Mapping[int, Sized], boxes: Mapping[int | None, Sized], query: AttachedTo
) -> list[Attached]:
    """Which of three tables have rows for each of the queried workflows."""
    return [
        Attached(key, bool(history.get(key)), bool(waits.get(key)), bool(boxes.get(key))) for key in query.workflow_keys
    ]


def backgrounds_of(
    workflows: Mapping[int, WorkflowRecord], progress: Mapping[int, Progress], query: Backgrounds
) -> list[Background]:
    """For each queried workflow that exists: the id of its parent and its progress, None where there is none."""
    records = [workflows[key] for key in query.workflow_keys if key in workflows]
    rows: list[Background] = []
    for record in records:
        parent = workflows.get(record.parent_key or 0)
        published = progress.get(record.key)
        parent_id = None if parent is None else parent.id
        rows.append(Background(record.key, parent_id, None if published is None else published.value))
    return rows


def child_ids_of(newest_first: Iterable[WorkflowRecord], query: ChildIds) -> list[str]:
    """The ids of a workflow's newest children, ended or not."""
    ids = (record.id for record in newest_first if record.parent_key == query.parent_key)
    return list(islice(ids, query.limit))

"""The rows of a store in memory, the handle on them, and the answers to queries.

The rows outlive `close`, so that a test can restart an engine on them, and end with the process. A commit is checked as
a whole before anything is changed, so it happens completely or not at all.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, cast

import attrs
from sortedcontainers import SortedDict, SortedSet

from durable.backends.base import (
    MARK_CELLS,
    AttachedTo,
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
from durable.backends.memory.letters import Letterbox
from durable.backends.memory.mail import MAIL_ANSWERS, MemoryMail, discard, rows
from durable.backends.memory.schedules import MemorySchedules
from durable.backends.memory.tied import Tied
from durable.backends.memory.views import attached_to, backgrounds_of, child_ids_of, these_workflows
from durable.errors import InvariantViolated, StoreFenced
from durable.model.homes import ONLY, Shard, key_home, workflow_home
from durable.model.records import EventWait, HistoryEntry, OpenPause, Progress, WorkflowRecord
from durable.model.timers import OF_WORKFLOW, Timer

_STORE = "memory://"


def _counts() -> SortedDict[int, int]:
    return SortedDict()


@attrs.define(eq=False)
class MemoryStore(MemoryMail):
    """The rows of one shard, which any number of `MemoryBackend` handles may share. `sharded` makes several.

    Every index follows from `workflows`, `waits` and the events, and is kept by `apply` alone.
    """

    shard: Shard = ONLY
    # Of the engine that opened it last: its incarnation and the number of its last batch. Any other handle is fenced.
    incarnation: str = ""
    batch: int = 0
    serial: int = attrs.Factory(lambda store: store.shard.number, takes_self=True)
    clean: bool = True
    workflows: SortedDict[int, WorkflowRecord] = attrs.Factory(rows)
    keys: dict[str, int] = attrs.field(factory=dict)
    timers: SortedSet[Timer] = attrs.field(factory=SortedSet)
    history: dict[int, dict[int, HistoryEntry]] = attrs.field(factory=dict)
    # Waits by workflow and position, and the same waits by event: in the order of their serials, so of their arrival.
    waits: dict[int, dict[str, EventWait]] = attrs.field(factory=dict)
    waiting: dict[tuple[str, str], SortedDict[tuple[Any, ...], EventWait]] = attrs.field(factory=dict)
    progress: dict[int, Progress] = attrs.field(factory=dict)
    tied: Tied = attrs.field(factory=Tied)
    suspects: SortedDict[int, int] = attrs.Factory(_counts)
    # The cells in which an engine marks whose body runs. They outlive the engine's process, like the rows.
    mark: list[int] = attrs.field(factory=lambda: [0] * MARK_CELLS)
    schedules: MemorySchedules = attrs.Factory(lambda store: MemorySchedules(store.timers), takes_self=True)
    # Only in a store with several shards: all of them, this one included, and the letters that they share. Then, by
    # workflow: the mark of the commit that stored it, and the other shards that have children of it.
    shards: tuple[MemoryStore, ...] = ()
    letterbox: Letterbox = attrs.field(factory=Letterbox)
    created_marks: dict[int, int] = attrs.field(factory=dict)
    tied_shards: dict[int, set[int]] = attrs.field(factory=dict)

    @classmethod
    def sharded(cls, count: int) -> tuple[MemoryStore, ...]:
        """The shards of a new store. Each is opened, fenced and recovered separately; they share the letters."""
        letterbox = Letterbox()
        stores = tuple(cls(shard=Shard(number, count), letterbox=letterbox) for number in range(count))
        for store in stores:
            store.shards = stores
        return stores

    def home_of_id(self, id: str) -> MemoryStore:
        """The shard in which a workflow with this id lives, whether it exists or not."""
        return self.shards[workflow_home(id, self.shard.count)] if self.shards else self

    def home_of_key(self, key: int) -> MemoryStore:
        """The shard in which a workflow with this key lives, whether it exists or not."""
        return self.shards[key_home(key, self.shard.count)] if self.shards else self

    def everywhere(self) -> Mapping[int, WorkflowRecord]:
        """The workflows of every shard, by key."""
        return ChainMap(*(store.workflows for store in self.shards)) if self.shards else self.workflows

    def newest_first(self) -> Iterable[WorkflowRecord]:
        """The same, those that were started last before the others."""
        if not self.shards:
            return map(self.workflows.__getitem__, reversed(self.workflows))
        return sorted(self.everywhere().values(), key=lambda record: (record.created_at, record.key), reverse=True)

    # --- a commit: check all of it, then do all of it ---------------------------------------------------------------

    def check(self, batch: Batch) -> None:
        """Raise `InvariantViolated` for a batch that a store of tables would refuse. Changes nothing."""
        gone = batch.workflows_purged
        ids = {record.id for record in batch.workflows_new.values()}
        if len(ids) != len(batch.workflows_new):
            raise InvariantViolated("a batch has two new workflows with one id")
        for key, record in batch.workflows_new.items():
            taken = {key, self.keys.get(record.id, key)} & self.workflows.keys()
            if taken - gone:
                raise InvariantViolated(f"workflow {record.id!r} (key {key}) is stored already")
        for key, record in batch.workflows_changed.items():
            _check_change(self.workflows.get(key), record, continued=key in batch.restarted)
        emptied = gone | batch.restarted
        new: set[tuple[int, int]] = set()
        for key, entry in batch.history:
            if (key, entry.seq) in new or (key not in emptied and entry.seq in self.history.get(key, ())):
                raise InvariantViolated(f"history of workflow {key} has an entry {entry.seq} already")
            new.add((key, entry.seq))
        for event in batch.events_put.values():
            if event.target is not None and event.unstarted is not None:
                raise InvariantViolated(f"event {event.serial} lies in a mailbox and waits for a start as well")
        if self.shard.count > 1:
            self.letterbox.check(self.shard, batch)

    def apply(self, batch: Batch) -> None:
        """Apply a batch that `check` let pass. It cannot fail half-way."""
        self.batch = batch.number
        # A serial that went back would be used twice.
        self.serial = max(self.serial, batch.serial)
        self.clean = batch.clean_stop
        self._drop(batch)
        for key, record in (batch.workflows_new | batch.workflows_changed).items():
            self._drop_timer(key)
            self.workflows[key] = record
            self.keys[record.id] = key
            if record.wake_at is not None:
                self.timers.add((record.wake_at, OF_WORKFLOW, key))
            self.tied.put(record)
        for key, entry in batch.history:
            self.history.setdefault(key, {})[entry.seq] = entry
        for key, seq in batch.history_trimmed:
            self.history.get(key, {}).pop(seq, None)
        for (key, position), wait in batch.waits_put.items():
            self._drop_wait(key, position)
            self.waits.setdefault(key, {})[position] = wait
            self.waiting.setdefault((wait.name, wait.event_key), SortedDict())[wait.serial, key, position] = wait
        mark = self.letterbox.draw() if self.shards else None
        self.put_mail(batch, mark)
        self.progress.update(batch.progress_put)
        self.suspects.update(batch.suspects_put)
        self.schedules.apply(batch)
        if mark is not None:
            self.letterbox.apply(self.shard.number, batch, mark)
            self.created_marks.update(dict.fromkeys(batch.workflows_new, mark))
            for key, shard in batch.tied_shards:
                self.tied_shards.setdefault(key, set()).add(shard)

    def _drop(self, batch: Batch) -> None:
        """Remove the rows that a batch drops, and everything that belongs to purged workflows."""
        for key in batch.workflows_purged:
            self._drop_timer(key)
            record = self.workflows.pop(key, None)
            if record is not None:
                del self.keys[record.id]
                self.tied.drop(record)
            self.progress.pop(key, None)
            self.created_marks.pop(key, None)
            self.tied_shards.pop(key, None)
            for position in list(self.waits.get(key, ())):
                self._drop_wait(key, position)
        for key in batch.workflows_purged | batch.restarted:
            self.history.pop(key, None)
        for key, position in batch.waits_dropped:
            self._drop_wait(key, position)
        for key in batch.suspects_dropped | batch.workflows_purged:
            self.suspects.pop(key, None)
        self.drop_mail(batch)

    def _drop_timer(self, key: int) -> None:
        """Remove the timer of a workflow's stored record; nothing if it has none."""
        record = self.workflows.get(key)
        if record is not None and record.wake_at is not None:
            self.timers.discard((record.wake_at, OF_WORKFLOW, key))

    def _drop_wait(self, key: int, position: str) -> None:
        """Remove a wait from both tables; nothing if it is not stored."""
        wait = self.waits.get(key, {}).pop(position, None)
        if wait is not None:
            discard(self.waits, key)
            place = (wait.name, wait.event_key)
            del self.waiting[place][wait.serial, key, position]
            discard(self.waiting, place)


def _check_change(stored: WorkflowRecord | None, record: WorkflowRecord, *, continued: bool) -> None:
    """Raise `InvariantViolated` for a change of fields that this batch must not change."""
    if stored is None:
        raise InvariantViolated(f"a batch changes workflow {record.id!r}, which is not stored")
    if _fixed(stored) != _fixed(record):
        raise InvariantViolated(f"a batch changes the identity of workflow {record.id!r}")
    # SQL stores do not write these columns without a new round. A bug that relies on that is found here.
    if not continued and _begun(stored) != _begun(record):
        raise InvariantViolated(f"a batch changes how workflow {record.id!r} started, and keeps its history")


def _fixed(record: WorkflowRecord) -> tuple[object, ...]:
    """The fields of a record that never change."""
    parent = (record.parent_key, record.parent_place, record.on_parent_close)
    return (record.key, record.id, record.created_at, *parent, record.tags)


def _begun(record: WorkflowRecord) -> tuple[object, ...]:
    """The fields of a record that change only with a new round."""
    code = (record.name, record.version, record.input, record.start_digest)
    return (*code, record.start_at, record.depth, record.round, record.position_format)


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
            return sum(_matches(query, record) for record in store.workflows.values())
        return store.count_pending(query)

    def _opened(self) -> MemoryStore:
        """The store, if this handle is open."""
        if self._incarnation is None:
            raise InvariantViolated(f"{self!r} is not open: call open() before using it")
        return self._store


# --- the answers --------------------------------------------------------------------------------------------------


def _matches(query: Workflows, record: WorkflowRecord) -> bool:
    """Whether a workflow matches a query; every condition that is set must hold."""
    before, ended = query.finished_before, record.finished_at
    return (
        (not query.statuses or record.status in query.statuses)
        and (query.name is None or record.name == query.name)
        and (query.tag is None or query.tag in record.tags)
        and (query.created_since is None or record.created_at >= query.created_since)
        and (before is None or (ended is not None and ended < before))
    )


def _workflows(store: MemoryStore, query: Workflows) -> list[WorkflowRecord]:
    """A page of workflows by key, which is the order of their creation."""
    first, last = (None, query.after) if query.newest_first else (query.after, None)
    records = map(store.workflows.__getitem__, store.workflows.irange(first, last, (False, False), query.newest_first))
    return list(islice((record for record in records if _matches(query, record)), query.limit))


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

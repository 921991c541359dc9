"""The rows of a store in memory.

The rows outlive their handles (`MemoryBackend`), so that a test can restart an engine on them, and end with the
process. A commit is checked as a whole before anything is changed, so it happens completely or not at all.

Two indexes have a class: children that end with their parent (`Tied`), and schedules, whose timers are in the one index
of all timers (`MemorySchedules`). Both follow from the rows alone, like the index of a table.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
from sortedcontainers import SortedDict, SortedSet

from durable.backends.base import (
    MARK_CELLS,
    Batch,
    Schedules,
)
from durable.backends.memory.letters import Letterbox
from durable.backends.memory.mail import MemoryMail, discard, rows
from durable.errors import InvariantViolated
from durable.model.homes import ONLY, Shard, key_home, workflow_home
from durable.model.records import EventWait, HistoryEntry, OnParentClose, Progress, WorkflowRecord
from durable.model.schedule import ScheduleRecord
from durable.model.timers import OF_SCHEDULE, OF_WORKFLOW, ScheduleKey, Timer


@attrs.define(eq=False)
class Tied:
    """The keys of the children that end with their parent: those that have not ended and are not kept."""

    _children: dict[int, set[int]] = attrs.field(factory=dict)

    def put(self, record: WorkflowRecord) -> None:
        """Enter a workflow that was stored or changed, or remove it if it has ended."""
        if record.parent_key is None:
            return
        if record.finished_at is None and record.on_parent_close is not OnParentClose.KEEP:
            self._children.setdefault(record.parent_key, set()).add(record.key)
        else:
            self.drop(record)

    def drop(self, record: WorkflowRecord) -> None:
        """Remove a workflow that has ended or was purged. It need not be in the index."""
        children = self._children.get(record.parent_key or 0)
        if children is not None:
            children.discard(record.key)
            if not children:
                del self._children[record.parent_key or 0]

    def of(self, parent: int) -> list[int]:
        """The keys of one parent's children, in the order in which they were started."""
        return sorted(self._children.get(parent, ()))

    def __bool__(self) -> bool:
        return bool(self._children)


class MemorySchedules:
    """Schedules by key. A name belongs to one schedule: storing another with the same name replaces the old row."""

    def __init__(self, timers: SortedSet[Timer]) -> None:
        self._timers = timers
        self._rows: dict[ScheduleKey, ScheduleRecord] = {}

    def apply(self, batch: Batch) -> None:
        """Apply the part of a commit that is about schedules."""
        for key in batch.schedules_dropped:
            self._drop(key)
        for key, schedule in batch.schedules_put.items():
            for previous in [row.key for row in self._rows.values() if row.name == schedule.name]:
                self._drop(previous)
            self._rows[key] = schedule
            if schedule.wake_at is not None:
                self._timers.add((schedule.wake_at, OF_SCHEDULE, key))

    def _drop(self, key: ScheduleKey) -> None:
        """Remove a schedule and its timer; nothing if it is not stored."""
        schedule = self._rows.pop(key, None)
        if schedule is not None and schedule.wake_at is not None:
            self._timers.discard((schedule.wake_at, OF_SCHEDULE, key))

    def find(self, query: Schedules) -> list[ScheduleRecord]:
        """The schedules that match a query, by name."""
        matching = [
            row
            for row in self._rows.values()
            if query.name in (None, row.name)
            and query.key in (None, row.key)
            and (query.after is None or row.name > query.after)
        ]
        return sorted(matching, key=lambda row: row.name)[: query.limit]


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

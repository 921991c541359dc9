"""`State`: the store, the open batch and the live bodies behind one interface.

Here are the reads that span all three layers, loading and evicting bodies, and opening the next batch. Changes are in
the parts (`workflows`, `chronicle`, `waits`, `post`, `archive`, `timetable`, `timers`, `outbox`). All parts share the
open batch; `_open` hands the next one to each of them.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Any

from durable.backends.base import MARK_CELLS, Backend, Batch, ChildIds, Children, Mark, Timers
from durable.backends.base import Workflows as WorkflowsPage
from durable.engine.config import EngineConfig
from durable.engine.operations import Operation, RecordActivity
from durable.engine.operations.base import OfBody
from durable.engine.operations.messages import AtWait
from durable.engine.operations.views import RecoveryReport
from durable.engine.state.crashes import CLOSED, WHAT, WHERE, Deaths, Trials
from durable.engine.state.events import Archive, Postbox, Waits
from durable.engine.state.outbox import Outbox
from durable.engine.state.prefetched import Prefetched
from durable.engine.state.requests import Requests
from durable.engine.state.timers import TimerWindow, Timetable
from durable.engine.state.workflows import Chronicle, Flight, Loaded, Unwatched, Watch, Workflows
from durable.errors import CodecError, WorkflowNotFound
from durable.model.begun import Begun, begun
from durable.model.codec import Codec
from durable.model.homes import Shard
from durable.model.records import HistoryEntry, WorkflowRecord, WorkflowStatus
from durable.model.registry import Registry
from durable.model.timers import Timer
from durable.runner.definitions import WorkflowDef

# Most ended workflows that are kept in memory.
_ENDED_MAX = 1000


def _sound(record: WorkflowRecord | None) -> WorkflowRecord | None:
    """The same record. Raises `CodecError` if its row is damaged: no decision may continue with such a record."""
    if record is not None and record.is_damaged:
        raise CodecError(f"workflow id {record.id!r}", record.park_detail or "it is damaged")
    return record


class State:
    """Records, live bodies and indexes, over a store and an open batch.

    Only the coordinator's thread may use it. Reads see everything that was decided before in the same batch.
    """

    def __init__(self, backend: Backend, registry: Registry[WorkflowDef[Any, Any]], codec: Codec, config: EngineConfig):
        self.backend = backend
        self.registry = registry
        self.codec = codec
        self.config = config
        self.batch = Batch()
        # The next batch, created in advance while the coordinator is idle.
        self._spare: Batch | None = None
        # Which shard of the store this is. Other shards are changed by letter only (`outbox`).
        self.shard = Shard()
        # The highest serial that was assigned. Serials grow in steps of the number of shards, so each tells its shard.
        self.serial = 0
        self.loaded: OrderedDict[int, Loaded] = OrderedDict()
        # Activities in flight, by workflow and position: a wake-up must not dispatch them again.
        self.in_flight: dict[int, dict[str, Flight]] = {}
        # Called before and after every step of a body, so that a slow or stuck body can be named in the log.
        self.watch: Watch = Unwatched()
        # The counts of this start's recovery.
        self.recovery = RecoveryReport()
        # The key of the workflow whose body runs, and its step. If the process dies, the next engine reads it.
        self.mark: Mark = [0] * MARK_CELLS
        # The key up to which the current pass of `endings.decide_expire_workflows` has looked at workflows.
        self.expired_until = 0
        # By workflow: waits that a later batch looks at, because their answer may be pending already. Until then
        # nothing else may answer them, or it would overtake the pending answer.
        self.put_off: dict[int, deque[AtWait]] = {}
        # By workflow: how many children it has started in the step that is being decided, or that was put off.
        self.started: dict[int, int] = {}
        # Bodies evicted since the batch was opened. Only they and loaded ones appear in it.
        self._let_go: set[int] = set()
        self.prefetched = Prefetched(backend)
        self.timers = TimerWindow(config.timer_window)
        self.chronicle = Chronicle(backend, self.prefetched, self.loaded, self._let_go)
        self.workflows = Workflows(self.loaded, self.timers, self.chronicle)
        self.waits = Waits(backend, self.prefetched, self._let_go)
        self.post = Postbox(backend, self.prefetched, self.loaded)
        self.archive = Archive(backend)
        self.timetable = Timetable(backend, self.timers)
        self.outbox = Outbox(backend)
        self.requests = Requests(backend)
        self.trials = Trials()
        self.deaths = Deaths()
        self._open(self.batch)

    def next_serial(self) -> int:
        """The next number for a workflow, a wait or an event. They share one sequence, so their order is comparable."""
        self.serial += self.shard.count
        return self.serial

    # --- reading ----------------------------------------------------------------------------------------------------

    def prefetch(self, operations: Iterable[Operation[Any]]) -> None:
        """Read the rows that a batch of operations will look at and that are not in memory, in two queries."""
        ids: dict[str, None] = {}
        keys: dict[int, None] = {}
        stepped: list[int] = []
        for operation in operations:
            # A late answer of an activity reads nothing.
            if isinstance(operation, RecordActivity) and operation.key not in self.in_flight:
                continue
            if isinstance(operation, OfBody):
                stepped.append(operation.key)
            for name in operation.reads():
                key = self.workflows.ids.get(name) if isinstance(name, str) else name
                if key is not None:
                    keys[key] = None
                # This store cannot tell whether an id of another shard is taken.
                elif isinstance(name, str) and self.shard.owns_workflow(name):
                    ids[name] = None
        ended, shard = self.workflows.ended, self.shard
        absent = [key for key in keys if key not in self.loaded and key not in ended and shard.owns_key(key)]
        self.prefetched.fetch(ids, absent)
        if stepped:
            self.prefetched.look_for_attached(stepped)

    def find(self, id: str) -> WorkflowRecord | None:
        """The workflow with this id, if there is one. Raises `CodecError` if its row is damaged."""
        key = self.workflows.ids.get(id)
        record = _sound(self.prefetched.workflow(id)) if key is None else self.by_key(key)
        return None if record is not None and record.key in self.batch.workflows_purged else record

    def record(self, id: str) -> WorkflowRecord:
        """The workflow with this id. Raises `WorkflowNotFound`, or `CodecError` if its row is damaged."""
        record = self.find(id)
        if record is None:
            raise WorkflowNotFound(id)
        return record

    def by_key(self, key: int) -> WorkflowRecord | None:
        """The workflow with this key, if it is still stored. Raises `CodecError` if its row is damaged."""
        if (loaded := self.loaded.get(key)) is not None:
            return loaded.record
        if key in self.batch.workflows_purged:
            return None
        changed = self.batch.workflows_new.get(key) or self.batch.workflows_changed.get(key)
        return changed or self.workflows.ended.get(key) or _sound(self.prefetched.workflow_by_key(key))

    def readable(self, key: int) -> WorkflowRecord | None:
        """Like `by_key`, but None if the row is damaged: one unreadable workflow must not block others."""
        try:
            return self.by_key(key)
        except CodecError:
            return None

    def get_active(self, key: int) -> WorkflowRecord | None:
        """The workflow with this key, if its body may be stepped: it has neither ended nor been parked."""
        record = self.by_key(key)
        if record is None or record.status.is_terminal or record.status is WorkflowStatus.PARKED:
            return None
        return record

    def recover_workflows(self, after: int, limit: int) -> Sequence[WorkflowRecord]:
        """A page of the workflows that were running or parked when the store was last written."""
        statuses = (WorkflowStatus.RUNNING, WorkflowStatus.PARKED)
        page = self.backend.find(WorkflowsPage(statuses=statuses, after=after, limit=limit))
        self.prefetched.keep(page)
        return page

    def take_due_timers(self, now: int, limit: int) -> list[Timer]:
        """Take at most `limit` due timers out of the window. Refills the window if it is empty."""
        if (after := self.timers.refill_after()) is not None:
            self.timers.refill(self.backend.find(Timers(after=after, limit=self.config.timer_window)))
        return self.timers.pop_due(now, limit)

    # --- live bodies ------------------------------------------------------------------------------------------------

    def load(self, loaded: Loaded) -> None:
        """Keep a live body in memory."""
        self.loaded[loaded.record.key] = loaded
        self.workflows.not_begun.discard(loaded.record.key)
        self.workflows.ids[loaded.record.id] = loaded.record.key

    def touch(self, key: int) -> Loaded | None:
        """The live body, moved to the end of the eviction order; None if it is not in memory."""
        loaded = self.loaded.get(key)
        if loaded is not None:
            self.loaded.move_to_end(key)
        return loaded

    def unload(self, key: int) -> None:
        """Close a live body and drop it from memory. It can be rebuilt at any time."""
        if (loaded := self.loaded.pop(key, None)) is not None:
            self._let_go.add(key)
            # Closing runs the body's `finally` blocks, which may kill the process too.
            self.mark[0], self.mark[WHERE], self.mark[WHAT] = key, CLOSED, 0
            loaded.session.close()
            self.mark[0] = 0
            if self.deaths.steps:
                self.deaths.survive(key, CLOSED, 0)
            if not self.in_flight.get(key, True):
                # A sleeping workflow costs a row, not an empty dict.
                del self.in_flight[key]

    # --- between two batches ----------------------------------------------------------------------------------------

    def seal(self, number: int) -> Batch:
        """The open batch, numbered and ready to commit."""
        self.batch.number = number
        self.batch.serial = self.serial
        return self.batch

    def next_batch(self) -> None:
        """The batch is committed: open the next one, and evict the bodies that were unused for the longest time."""
        batch, self._spare = self._spare or Batch(), None
        self._open(batch)
        self._evict()
        self._let_go.clear()

    def _evict(self) -> None:
        """Unload bodies until at most `max_loaded_workflows` are left, those unused for the longest time first."""
        excess = len(self.loaded) - self.config.max_loaded_workflows
        if excess > 0:
            # A body with waits that were put off is needed in the next batch. A rebuilt one would look at all of its
            # waits from the first on, put most of them off again, and never reach the last ones.
            idle = (key for key in self.loaded if key not in self.put_off)
            for key in list(islice(idle, excess)):
                self.unload(key)

    def look_ahead(self) -> None:
        """Create the batch after the open one in advance, while the coordinator is idle."""
        self._spare = self._spare or Batch()

    def _open(self, batch: Batch) -> None:
        """Hand the new batch to every part. A part that is missing here would write into a batch already committed."""
        self.batch = batch
        self.prefetched.forget()
        self.workflows.next_batch(batch, min(_ENDED_MAX, self.config.max_loaded_workflows))
        self.chronicle.next_batch(batch)
        self.waits.next_batch(batch)
        self.post.next_batch(batch)
        self.timetable.batch = self.trials.batch = self.archive.batch = batch
        self.outbox.batch = self.requests.batch = batch


def changed_workflows(state: State, keys: AbstractSet[int]) -> set[int]:
    """Those of these workflows whose row or progress the open batch changes."""
    batch = state.batch
    changes = (batch.workflows_new, batch.workflows_changed, batch.progress_put)
    return {key for changed in changes for key in keys & changed.keys()}


def shown(state: State, id: str) -> WorkflowRecord:
    """The workflow with this id, even if its row is damaged: for showing or ending it. Raises `WorkflowNotFound`."""
    try:
        return state.record(id)
    except CodecError:
        damaged = state.prefetched.workflow(id)
        assert damaged is not None, "it could not be read a moment ago"
        return damaged


# --- whether a body has run, and children -----------------------------------------------------------------------------


def has_begun(state: State, record: WorkflowRecord, history: Sequence[HistoryEntry] | None = None) -> bool:
    """Whether the body of a workflow has run in its round. In doubt, it has.

    Without `history`, the number of its entries is read if the row alone does not tell. A suspended workflow that has
    not begun is always a delayed start. A fork that has not begun has a history.
    """
    if record.key in state.loaded:
        return True
    if record.key in state.workflows.not_begun:
        return False
    if begun(record, has_entries=False) is not Begun.NO:
        return True
    # If the clock was set back, a body may have a wait that is due at exactly the instant of its delayed start.
    return bool(state.chronicle.length(record.key) if history is None else history)


# A child knows its parent's key; a parent has no list of its children. So these functions search, and are called only
# when a workflow ends or is described. They see the children in this shard only.


def living_children(state: State, parent_key: int) -> list[WorkflowRecord]:
    """The children of a workflow that have not ended.

    Children that the store holds are included only if they end with their parent; new ones always are.
    """
    children = {child.key: child for child in state.backend.find(Children(parent_key))}
    children |= {child.key: child for child in _new_children(state, parent_key)}
    current = [state.batch.workflows_changed.get(key, child) for key, child in children.items()]
    return [child for child in current if not child.status.is_terminal]


def newest_child_ids(state: State, parent_key: int, limit: int) -> tuple[str, ...]:
    """The ids of the newest children, those of the open batch first."""
    ids = [child.id for child in reversed(_new_children(state, parent_key))]
    if len(ids) < limit:
        ids += state.backend.find(ChildIds(parent_key, limit - len(ids)))
    return tuple(ids[:limit])


def _new_children(state: State, parent_key: int) -> list[WorkflowRecord]:
    return [child for child in state.batch.workflows_new.values() if child.parent_key == parent_key]

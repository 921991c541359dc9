"""All state of the engine, as the coordinator thread sees it.

What is not in memory is read through from the store, and what the open batch changes lies over both, so that an
operation sees everything that was decided before it. Decisions change state only through the methods here; each of
them also notes the change in the batch that will be committed.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Any, Protocol

import attrs

from durable.backends.base import Backend, Batch, Mark, TakenIds
from durable.codec import Codec
from durable.engine.archive import Archive
from durable.engine.chronicle import Chronicle
from durable.engine.config import EngineConfig
from durable.engine.postbox import Postbox
from durable.engine.timers import TimerWindow
from durable.engine.timetable import Timetable
from durable.engine.trials import Trials
from durable.errors import CodecError, InvariantViolated, WorkflowNotFound
from durable.records import EventWait, WorkflowRecord
from durable.registry import Registry
from durable.runner.definitions import WorkflowDef
from durable.runner.session import WorkflowSessionRunner

# How many workflows that have ended are kept in memory at most, and how long their arguments and result may be.
_ENDED_MAX = 1000
_SMALL = 4000


@attrs.define(eq=False)
class Loaded:
    """A workflow in memory: its record and its live body."""

    record: WorkflowRecord
    session: WorkflowSessionRunner
    # The number of its last entry.
    seq: int
    # Its registered waits for events and answers, by position.
    rows: dict[str, EventWait] = attrs.field(factory=dict)
    # How many events lie in its mailbox; None while nobody has counted.
    mail: int | None = None


# An activity that was handed to the loop: the round and attempt it was decided for. A plain pair of numbers, which the
# garbage collector soon leaves alone: there is one for every activity that runs. Nearly all of them are the same one.
Flight = tuple[int, int]
FIRST_FLIGHT: Flight = (0, 1)


class Watch(Protocol):
    """Somebody who wants to know which body is being stepped."""

    def enter(self, record: WorkflowRecord, session: WorkflowSessionRunner) -> None:
        """A body begins a step."""
        ...

    def leave(self) -> None:
        """It came back."""
        ...


class Unwatched:
    """Nobody wants to know."""

    def enter(self, record: WorkflowRecord, session: WorkflowSessionRunner) -> None:
        """Nothing."""

    def leave(self) -> None:
        """Nothing."""


def _sound(record: WorkflowRecord | None) -> WorkflowRecord | None:
    """A record that is whole. Raises `CodecError` for one whose row is damaged: nobody may go on with it."""
    if record is not None and record.is_damaged:
        raise CodecError(f"workflow id {record.id!r}", record.park_detail or "it is damaged")
    return record


class State:
    """Records, live bodies and indexes, over a store and an open batch."""

    def __init__(self, backend: Backend, registry: Registry[WorkflowDef[Any, Any]], codec: Codec, config: EngineConfig):
        self.backend = backend
        self.registry = registry
        self.codec = codec
        self.config = config
        self.batch = Batch()
        # The next one, made while nobody waits for it.
        self._spare: Batch | None = None
        self.serial = 0
        self.timers = TimerWindow(config.timer_window)
        self.loaded: OrderedDict[int, Loaded] = OrderedDict()
        # What runs, by workflow and position: a wake-up never dispatches again what is in flight.
        self.in_flight: dict[int, dict[str, Flight]] = {}
        # Told before and after every step of a body, so that a slow or stuck one can be named.
        self.watch: Watch = Unwatched()
        self.trials = Trials(self.batch)
        # Holds the key of the workflow whose body runs; the next engine reads it if this process dies of that.
        self.mark: Mark = [0, 0]
        # Who is stored and has never run. Only this process knows: after a restart one that has begun and has recorded
        # nothing yet looks the same.
        self.unbegun: set[int] = set()
        # The key up to which the retention has looked at workflows in its present pass.
        self.expired_until = 0
        # By workflow: waits that may have an answer already, and that a later batch looks at. Until then nothing else
        # may answer them: it would overtake what is pending.
        self.put_off: dict[int, deque[str]] = {}
        self._ids: dict[str, int] = {}
        # Who has ended not long ago: somebody often asks for the result just then.
        self._ended: dict[int, WorkflowRecord] = {}
        # Ids that the store did not have when the open batch began.
        self._free: set[str] = set()
        # Who was let go of since then: with those in memory they are the only ones that the open batch speaks of.
        self._let_go: set[int] = set()
        self.post = Postbox(backend, self.loaded, self._let_go)
        self.post.next_batch(self.batch)
        self.archive = Archive(backend, self.batch)
        self.chronicle = Chronicle(backend, self.loaded, self._let_go)
        self.chronicle.batch = self.batch
        self.timetable = Timetable(backend, self.timers, self.batch)

    def next_serial(self) -> int:
        """The next number for a workflow, a wait or an event."""
        self.serial += 1
        return self.serial

    # --- workflows ------------------------------------------------------------------------------------------------

    def find(self, id: str) -> WorkflowRecord | None:
        """The workflow with this id, if there is one."""
        key = self._ids.get(id)
        if key is None and id in self._free:
            return None
        found = _sound(self.backend.workflow(id)) if key is None else self.by_key(key)
        return None if found is not None and found.key in self.batch.workflows_purged else found

    def look_up(self, ids: Iterable[str]) -> None:
        """Ask the store once which of some ids are free, before the operations of a batch ask for each."""
        unknown = {id for id in ids if id not in self._ids}
        self._free = unknown.difference(self.backend.find(TakenIds(tuple(unknown))))

    def record(self, id: str) -> WorkflowRecord:
        """The workflow with this id. Raises `WorkflowNotFound`."""
        found = self.find(id)
        if found is None:
            raise WorkflowNotFound(id)
        return found

    def by_key(self, key: int) -> WorkflowRecord | None:
        """The workflow with this key, if it is still stored."""
        if (loaded := self.loaded.get(key)) is not None:
            return loaded.record
        if key in self.batch.workflows_purged:
            return None
        changed = self.batch.workflows_new.get(key) or self.batch.workflows_changed.get(key)
        return changed or self._ended.get(key) or _sound(self.backend.workflow_by_key(key))

    def readable(self, key: int) -> WorkflowRecord | None:
        """The same, and None if its row is damaged: what cannot be read must not hold up others that can."""
        try:
            return self.by_key(key)
        except CodecError:
            return None

    def put_new(self, record: WorkflowRecord) -> None:
        """Store a workflow for the first time."""
        self.batch.workflows_new[record.key] = record
        self._ids[record.id] = record.key
        if record.wake_at is not None:
            self.timers.move(record.key, None, record.wake_at)

    def put(self, record: WorkflowRecord, before: WorkflowRecord) -> None:
        """Store a workflow that has changed."""
        if before.status.is_terminal:
            raise InvariantViolated(f"workflow {record.id!r} has ended and cannot change")
        key = record.key
        if key in self.batch.workflows_new:
            self.batch.workflows_new[key] = record
        else:
            self.batch.workflows_changed[key] = record
        self._ids[record.id] = key
        if (loaded := self.loaded.get(key)) is not None:
            loaded.record = record
        if record.status.is_terminal:
            self.unbegun.discard(key)
        if record.status.is_terminal and len(record.input) + len(record.result or "") <= _SMALL:
            self._ended[key] = record
        if before.wake_at != record.wake_at:
            self.timers.move(key, before.wake_at, record.wake_at)

    def reopen(self, record: WorkflowRecord) -> None:
        """Store a workflow that had ended and goes on after all."""
        self._ended.pop(record.key, None)
        new = self.batch.workflows_new
        (new if record.key in new else self.batch.workflows_changed)[record.key] = record
        self._ids[record.id] = record.key

    def load(self, loaded: Loaded) -> None:
        """Keep a live body."""
        self.loaded[loaded.record.key] = loaded
        self.unbegun.discard(loaded.record.key)
        self._ids[loaded.record.id] = loaded.record.key

    def touch(self, key: int) -> Loaded | None:
        """The live body, noted as used just now."""
        loaded = self.loaded.get(key)
        if loaded is not None:
            self.loaded.move_to_end(key)
        return loaded

    def unload(self, key: int) -> None:
        """Throw a live body away; it can be rebuilt at any time."""
        if (loaded := self.loaded.pop(key, None)) is not None:
            self._let_go.add(key)
            # Closing runs the body's `finally` blocks.
            self.mark[0] = key
            loaded.session.close()
            self.mark[0] = 0
            if not self.in_flight.get(key, True):
                # A workflow that sleeps costs a row, not an empty dict.
                del self.in_flight[key]

    # --- between two batches --------------------------------------------------------------------------------------

    def seal(self, number: int) -> Batch:
        """The batch to commit."""
        self.batch.number = number
        self.batch.serial = self.serial
        return self.batch

    def _evict(self) -> None:
        """Let go of the bodies that were not used for longest; between two batches only."""
        while len(self.loaded) > self.config.max_loaded_workflows:
            self.unload(next(iter(self.loaded)))

    def next_batch(self) -> None:
        """The batch is committed: open the next one, and let go of the bodies that were not used for longest."""
        for key in self.batch.workflows_purged:
            self._ended.pop(key, None)
        self.batch, self._spare = self._spare or Batch(), None
        self._free.clear()
        self.post.next_batch(self.batch)
        self.chronicle.batch = self.timetable.batch = self.trials.batch = self.archive.batch = self.batch
        self._evict()
        self._let_go.clear()
        if len(self._ended) > min(_ENDED_MAX, self.config.max_loaded_workflows):
            self._ended.clear()
        if len(self._ids) > 2 * len(self.loaded) + 1000:
            self._ids = {loaded.record.id: key for key, loaded in self.loaded.items()}

    def look_ahead(self) -> None:
        """Make the batch that comes after the open one, now that nobody waits for it."""
        self._spare = self._spare or Batch()


def is_delayed(state: State, record: WorkflowRecord, now: int) -> bool:
    """Whether a workflow waits for its delay to pass, so that its body has never run.

    Instants alone do not tell: if the clock is set back, a body that runs may have a wait that is due at the very
    instant of its start.
    """
    if record.wake_at != record.start_at or record.start_at <= now or record.key in state.loaded:
        return False
    return not state.chronicle.length(record.key) and not state.post.waits_of(record.key)


def shown(state: State, id: str) -> WorkflowRecord:
    """The workflow with this id, to be looked at or ended: also one whose row is damaged. Raises `WorkflowNotFound`."""
    try:
        return state.record(id)
    except CodecError:
        damaged = state.backend.workflow(id)
        assert damaged is not None, "it could not be read a moment ago"
        return damaged

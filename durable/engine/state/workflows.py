"""A workflow in the state: its row, its history, and its live body.

`Workflows` has the verbs that change a workflow's row. No other code writes one. Each verb takes the current record and
returns the new one. `with_status` refuses a transition that is not in `model.records.TRANSITIONS`, so a decision with
such a bug raises before anything is committed.

`Chronicle` has the histories and the published progress. The open batch holds the new entries of all workflows in one
list. Finding those of one workflow means going through that list, so it is done only for workflows that can appear in
it: those in memory, and those evicted or changed since the batch was opened.

`Loaded` is a live body with its record and the rows of its waits. It is a cache: it can be thrown away between two
decisions and rebuilt from the history. `Watch` is how the watchdog sees each step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from typing import Any, Protocol, TypeAlias

import attrs

from durable.backends.base import Backend, Batch, HistoryLength, ProgressOf
from durable.engine.state.prefetched import Prefetched
from durable.engine.state.timers import TimerWindow
from durable.errors import InvariantViolated
from durable.model.records import (
    BY_KEY,
    CancelCause,
    EventWait,
    HistoryEntry,
    ParkReason,
    Progress,
    WorkflowRecord,
    WorkflowStatus,
)
from durable.model.timers import OF_WORKFLOW
from durable.runner.session import WorkflowSessionRunner

# An activity that was handed to the loop: the round and the attempt it was decided for. There is one for every running
# activity, so it is a plain pair of numbers, which the garbage collector stops tracking. Nearly all are FIRST_FLIGHT.
Flight = tuple[int, int]
FIRST_FLIGHT: Flight = (0, 1)
# Bound once: on Python 3.11 an attribute of an enum costs as much as a call, and every step needs these.
_RUNNING, _SUSPENDED = WorkflowStatus.RUNNING, WorkflowStatus.SUSPENDED
# From a status to another; None for a workflow that is new.
Moves: TypeAlias = Counter[tuple[WorkflowStatus | None, WorkflowStatus]]
# An ended workflow whose arguments and result are at most this long is kept in memory for a while.
_SMALL = 4000


@attrs.define(eq=False)
class Loaded:
    """A workflow in memory: its record, its live body, and the rows of its waits."""

    record: WorkflowRecord
    session: WorkflowSessionRunner
    # The number of the last entry in its history.
    seq: int
    # Its registered waits for events and answers, by position.
    rows: dict[str, EventWait] = attrs.field(factory=dict)
    # How many events are in its mailbox; None until they are counted for the first time.
    mail: int | None = None


class Watch(Protocol):
    """Is called before and after every step of a body. The watchdog uses this to name a slow or stuck body."""

    def enter(self, record: WorkflowRecord, session: WorkflowSessionRunner) -> None:
        """A body begins a step."""
        ...

    def leave(self) -> float:
        """The step has ended, normally or with an exception. Returns how many seconds it took."""
        ...


class Unwatched:
    """The watch of a state without a watchdog."""

    def enter(self, record: WorkflowRecord, session: WorkflowSessionRunner) -> None:
        """Do nothing."""

    def leave(self) -> float:
        """Do nothing."""
        return 0.0


class Chronicle:
    """The history of each workflow, and the progress that it has published."""

    def __init__(self, backend: Backend, prefetched: Prefetched, loaded: Container[int], let_go: set[int]) -> None:
        self.next_batch(Batch())
        self._backend = backend
        self._prefetched = prefetched
        self._loaded = loaded
        # Workflows evicted since the batch was opened. Only they and loaded workflows can have entries in it; scanning
        # a large batch for each of many other workflows would be quadratic.
        self._let_go = let_go

    def of(self, key: int) -> list[HistoryEntry]:
        """The history of a workflow's current round, in order. Raises `CodecError` for a damaged entry."""
        batch = self.batch
        is_new = key in batch.restarted or key in self._prefetched.without_history
        stored = [] if is_new else self._backend.history(key)
        if key in self._let_go or key in self._loaded:
            stored += [entry for owner, entry in batch.history if owner == key]
        if batch.history_trimmed:
            stored = [entry for entry in stored if (key, entry.seq) not in batch.history_trimmed]
        return stored

    def length(self, key: int) -> int:
        """How many entries are recorded of a workflow, without reading them."""
        batch = self.batch
        length = 0 if key in batch.restarted else self._backend.count(HistoryLength(key))
        if key in self._let_go or key in self._loaded:
            length += sum(owner == key for owner, _ in batch.history)
        return length - sum(owner == key for owner, _ in batch.history_trimmed)

    def next_batch(self, batch: Batch) -> None:
        """Write into this batch from now on. The state calls it after each commit."""
        self.batch = batch
        # Record one more entry of a workflow in memory. The method of the batch itself, because every step calls it.
        self.append = batch.history.add

    def add(self, key: int, entries: Iterable[HistoryEntry]) -> None:
        """Append entries to the history of a workflow that is not in memory."""
        self._let_go.add(key)
        for entry in entries:
            self.append(key, entry)

    def trim(self, key: int, entries: Iterable[int]) -> None:
        """Delete entries by number: finished rounds of loops, which no replay reads again."""
        self.batch.history_trimmed.update((key, entry) for entry in entries)

    def clear(self, key: int) -> None:
        """Delete a workflow's history; the next round starts with an empty one."""
        self.batch.history = self.batch.history.without(key)
        self.append = self.batch.history.add
        # The next round counts from 1 again, perhaps in this batch. A trim of the old round must not hit its entries.
        self.batch.history_trimmed = {(owner, entry) for owner, entry in self.batch.history_trimmed if owner != key}
        self.batch.restarted.add(key)

    def put_progress(self, progress: Progress) -> None:
        """Store what a workflow has published, in place of what it published before."""
        self.batch.progress_put[progress.workflow_key] = progress

    def progress_of(self, key: int) -> Progress | None:
        """The progress that a workflow has published last, if any."""
        if (fresh := self.batch.progress_put.get(key)) is not None:
            return fresh
        stored = self._backend.find(ProgressOf(key))
        return stored[0] if stored else None


class Workflows:
    """The rows of workflows, as the open batch changes them.

    Also keeps two small caches, the keys of ids and workflows that have just ended, and the set of workflows whose
    body has not run in their round.
    """

    def __init__(
        self, loaded: Mapping[int, Loaded], timers: TimerWindow, chronicle: Chronicle, moves: Moves | None = None
    ) -> None:
        # The open batch; the state replaces it after each commit.
        self.batch = Batch()
        self._loaded = loaded
        self._timers = timers
        self._chronicle = chronicle
        # How often a status has changed into another in the open batch; None if nobody wants to know.
        self.moves = moves
        # The keys of ids that were looked up or written recently.
        self.ids: dict[str, int] = {}
        # Workflows that have just ended: callers often ask for the result right away.
        self.ended: dict[int, WorkflowRecord] = {}
        # Keys of the workflows that this engine has stored and whose body it has not run in their round. In memory
        # only: ask `has_begun`, which knows what the rows tell.
        self.not_begun: set[int] = set()

    # --- a life -----------------------------------------------------------------------------------------------------

    def register_workflow(self, record: WorkflowRecord, *, begins_later: bool = False) -> None:
        """Store a workflow for the first time. `begins_later`: its body first runs in a later batch."""
        self.batch.workflows_new[record.key] = record
        self.ids[record.id] = record.key
        self._count_move(None, record)
        if begins_later:
            self.not_begun.add(record.key)
        if record.wake_at is not None:
            self._timers.register_timer((record.wake_at, OF_WORKFLOW, record.key))

    def mark_suspended(self, record: WorkflowRecord, wake_at: int | None) -> WorkflowRecord:
        """The body waits, and no activity of it is open. `wake_at` is its earliest deadline."""
        return self._put(record.with_status(_SUSPENDED, wake_at=wake_at), record)

    def mark_resumed(self, record: WorkflowRecord, wake_at: int | None) -> WorkflowRecord:
        """The workflow runs: an activity is open, or its body is about to be stepped. This also unparks it."""
        if record.status is WorkflowStatus.PARKED:
            resumed = record.with_status(_RUNNING, wake_at=wake_at, park_reason=None, park_detail=None)
        else:
            resumed = record.with_status(_RUNNING, wake_at=wake_at)
        return self._put(resumed, record)

    def mark_parked(self, record: WorkflowRecord, reason: ParkReason, detail: str) -> WorkflowRecord:
        """Set a workflow aside. Returns the same object if it is already parked with this reason and detail."""
        parked = record.with_status(WorkflowStatus.PARKED, park_reason=reason, park_detail=detail[:8000], wake_at=None)
        return record if parked == record else self._put(parked, record)

    def mark_finished(
        self, record: WorkflowRecord, status: WorkflowStatus, finished_at: int, **ending: Any
    ) -> WorkflowRecord:
        """End a workflow. `ending` holds its result or error, and the fields of a cancel that ends it at once."""
        ended = record.with_status(
            status,
            finished_at=finished_at,
            wake_at=None,
            park_reason=None,
            park_detail=None,
            cancel_pending=False,
            **ending,
        )
        self.not_begun.discard(record.key)
        if len(ended.input) + len(ended.result or "") <= _SMALL:
            self.ended[record.key] = ended
        return self._put(ended, record)

    def update_for_continue_as(self, record: WorkflowRecord, now: int, **call: Any) -> WorkflowRecord:
        """Start the next round: the history is cleared and the new arguments are stored in one commit.

        `call` holds name, version and input. The body runs in a later batch.
        """
        self._chronicle.clear(record.key)
        self.not_begun.add(record.key)
        continued = record.with_status(
            _RUNNING, round=record.round + 1, start_at=now, wake_at=None, position_format=BY_KEY, **call
        )
        return self._put(continued, record)

    # --- cancelling -------------------------------------------------------------------------------------------------

    def cancel_workflow(
        self, record: WorkflowRecord, reason: str | None, cause: CancelCause, *, is_pending: bool
    ) -> WorkflowRecord:
        """Note that a workflow was asked to stop. `is_pending`: its body cannot run now; `Cancelled` is raised later.

        A cancel without a reason keeps the reason of an earlier cancel.
        """
        asked = record.with_status(
            record.status,
            cancel_requested=True,
            cancel_pending=is_pending,
            cancel_reason=record.cancel_reason if reason is None else reason,
            cancel_cause=cause,
        )
        return self._put(asked, record)

    def raise_cancel(self, record: WorkflowRecord) -> WorkflowRecord:
        """The pending cancel is about to be raised in the body."""
        return self._put(record.with_status(record.status, cancel_pending=False), record)

    # --- operators --------------------------------------------------------------------------------------------------

    def retry_workflow(self, record: WorkflowRecord) -> WorkflowRecord:
        """A failed workflow continues. Its count of crashes starts again at 0."""
        retried = record.with_status(_RUNNING, finished_at=None, error=None, result=None, crashes=0)
        return self._reopen(retried, record)

    def restart_workflow(self, record: WorkflowRecord, now: int, **call: Any) -> WorkflowRecord:
        """Start a child again, under the same id, that was stopped because its parent had failed.

        The child has cleaned up, so nothing of its last round is kept. `call` may hold a new name, version and input.
        """
        restarted = record.with_status(
            _RUNNING,
            round=record.round + 1,
            start_at=now,
            finished_at=None,
            error=None,
            cancel_requested=False,
            cancel_pending=False,
            cancel_reason=None,
            cancel_cause=None,
            crashes=0,
            cursors=(),
            position_format=BY_KEY,
            **call,
        )
        self._chronicle.clear(record.key)
        self.batch.taken_cleared.add(record.key)
        self.not_begun.add(record.key)
        return self._reopen(restarted, record)

    def mend_workflow(self, record: WorkflowRecord) -> None:
        """Rewrite the damaged row of an ended workflow with the fields that could be read."""
        self.batch.workflows_changed[record.key] = record

    def purge_workflow(self, record: WorkflowRecord) -> bool:
        """Remove a workflow that has ended; False if this batch already removes or reopens it."""
        batch = self.batch
        # An ended workflow appears among the changed ones only if it was retried, and then it runs.
        if record.key in batch.workflows_changed or record.key in batch.workflows_purged:
            return False
        batch.workflows_purged.add(record.key)
        return True

    # --- bookkeeping ------------------------------------------------------------------------------------------------

    def count_crashes(self, record: WorkflowRecord, crashes: int) -> WorkflowRecord:
        """Store how often in a row a workflow took the process down."""
        return self._put(record.with_status(record.status, crashes=crashes), record)

    def forget_cursors(self, record: WorkflowRecord) -> WorkflowRecord:
        """Clear the list of taken broadcasts in a workflow's row. Older stores kept them there; now `Archive` does."""
        return self._put(record.with_status(record.status, cursors=()), record)

    def next_batch(self, batch: Batch, most: int) -> None:
        """A new batch is open: forget what was purged, and keep at most `most` ended workflows in memory."""
        for key in self.batch.workflows_purged:
            self.ended.pop(key, None)
        self.batch = batch
        if self.moves:
            self.moves = Counter()
        if len(self.ended) > most:
            self.ended.clear()
        if len(self.ids) > 2 * len(self._loaded) + 1000:
            self.ids = {loaded.record.id: key for key, loaded in self._loaded.items()}

    def _put(self, record: WorkflowRecord, before: WorkflowRecord) -> WorkflowRecord:
        """Note a changed row in the batch, in its live body and in the timers. Raises `InvariantViolated` for a bug:
        an ended workflow is changed by `_reopen` only."""
        if before.status.is_terminal:
            raise InvariantViolated(f"workflow {record.id!r} has ended; its row cannot change")
        key = record.key
        if before.status is not record.status:
            self._count_move(before.status, record)
        if key in self.batch.workflows_new:
            self.batch.workflows_new[key] = record
        else:
            self.batch.workflows_changed[key] = record
        self.ids[record.id] = key
        if (loaded := self._loaded.get(key)) is not None:
            loaded.record = record
        if before.wake_at != record.wake_at:
            if before.wake_at is not None:
                self._timers.cancel_timer((before.wake_at, OF_WORKFLOW, key))
            if record.wake_at is not None:
                self._timers.register_timer((record.wake_at, OF_WORKFLOW, key))
        return record

    def _count_move(self, before: WorkflowStatus | None, record: WorkflowRecord) -> None:
        """Count a change of status for the observers, if there are any."""
        if self.moves is not None:
            self.moves[before, record.status] += 1

    def _reopen(self, record: WorkflowRecord, before: WorkflowRecord) -> WorkflowRecord:
        """Note the row of a workflow that had ended and runs again. It has no live body and no timer yet."""
        self.ended.pop(record.key, None)
        self._count_move(before.status, record)
        new = self.batch.workflows_new
        (new if record.key in new else self.batch.workflows_changed)[record.key] = record
        self.ids[record.id] = record.key
        return record

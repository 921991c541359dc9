"""Questions: about one workflow, and lists. They change nothing.

Questions about one workflow also work if its row is damaged (`state.shown`). Waiting for an end or a change is a
promise, which the coordinator (`callers`) answers after a commit that shows something new.

A description shows what a workflow waits for, the undos it owes, its children, and what keeps it from continuing. A
body that is not in memory is rebuilt in a dry run and thrown away. So a description never parks a workflow whose code
is missing, and never starts an activity or a child.

A list is a page of workflows, events, dead letters, pauses or schedules. It is answered after the commit of its batch,
from the store alone. So it shows everything that was decided before it, and it cannot change anything: a `Reading` has
no batch and no live body. A page continues after the last entry that the caller has seen (`after`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import attrs

from durable.backends.base import (
    Backend,
    Background,
    Backgrounds,
    Letters,
    OpenPauses,
    PendingEvents,
    Query,
    Schedules,
    Workflows,
)
from durable.engine.decide.dry_run import Misfit, examined
from durable.engine.decide.turn import Turn
from durable.engine.operations import (
    AwaitChange,
    AwaitEnd,
    CountWorkflows,
    DescribeWorkflow,
    FindWorkflow,
    Listed,
    ListEvents,
    ListLetters,
    ListPauses,
    ListSchedules,
    ListWorkflows,
    Operation,
    ReadHistory,
    ReadProgress,
    Sight,
)
from durable.engine.operations.views import Description, OwedUndo, Waiting, WorkflowSummary, instant
from durable.engine.state.state import State, has_begun, newest_child_ids, shown
from durable.errors import CodecError, WorkflowNotFound
from durable.model.clock import to_datetime
from durable.model.dead_letters import DeadLetter, PendingEventInfo, decoded
from durable.model.error_codec import error_summary, undos_summary
from durable.model.records import (
    FailedUndo,
    HistoryEntry,
    OpenPause,
    PendingEvent,
    Progress,
    WorkflowRecord,
    WorkflowStatus,
)
from durable.model.schedule import ScheduleRecord
from durable.runner.fibers import WaitCondition
from durable.runner.session import WorkflowSessionRunner
from durable.runner.undo import Owed

# How many children a description lists.
CHILDREN_MAX = 100
R = TypeVar("R")


@attrs.frozen
class Pending:
    """A promise instead of an answer: the answer comes when this workflow ends."""

    key: int


def decide_find_workflow(turn: Turn, op: FindWorkflow) -> WorkflowRecord | None:
    """The record of a workflow; None if there is no workflow with this id."""
    try:
        return shown(turn.state, op.id)
    except WorkflowNotFound:
        return None


def decide_await_end(turn: Turn, op: AwaitEnd) -> WorkflowRecord | Pending:
    """The record if the workflow has ended, or if it is parked and the caller accepts that; otherwise a promise."""
    record = shown(turn.state, op.id)
    is_answer = record.status is WorkflowStatus.PARKED and not op.wait_if_parked
    return record if is_answer or record.status.is_terminal else Pending(record.key)


def decide_read_history(turn: Turn, op: ReadHistory) -> list[HistoryEntry]:
    """The history of the current round, in order. Raises `WorkflowNotFound`."""
    return turn.state.chronicle.of(shown(turn.state, op.id).key)


def decide_read_progress(turn: Turn, op: ReadProgress) -> Progress | None:
    """The progress that a workflow has published last, if any. Raises `WorkflowNotFound`."""
    return turn.state.chronicle.progress_of(shown(turn.state, op.id).key)


@attrs.frozen
class Watched:
    """A promise instead of an answer: the answer comes when this workflow shows something new to the caller."""

    key: int


def decide_await_change(turn: Turn, op: AwaitChange) -> Watched:
    """Always a promise, because the rest of the batch may still change the workflow. Raises `WorkflowNotFound`."""
    return Watched(turn.state.record(op.id).key)


def sight_of(turn: Turn, id: str) -> Sight:
    """The status and progress of a workflow. Raises `WorkflowNotFound`."""
    record = turn.state.record(id)
    progress = turn.state.chronicle.progress_of(record.key)
    return Sight(record.status, None if progress is None else progress.value, turn.now)


# --- descriptions -----------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class _Insight:
    """The parts of a description that come from the body; `problem` if it cannot be rebuilt."""

    waits: tuple[Waiting, ...] = ()
    owed: tuple[OwedUndo, ...] = ()
    failed: tuple[FailedUndo, ...] = ()
    problem: str | None = None


def decide_describe_workflow(turn: Turn, op: DescribeWorkflow) -> Description:
    """Describe a workflow, even if it is parked or its row is damaged. Raises `WorkflowNotFound`."""
    state = turn.state
    record = shown(state, op.id)
    insight = _insight(turn, record)
    return Description(
        key=record.key,
        summary=_summary(state, record),
        waits=insight.waits,
        history_length=state.chronicle.length(record.key),
        round=record.round,
        pending_events=0 if record.status.is_terminal else len(state.post.mailbox(target=record.key)),
        park_reason=record.park_reason,
        problem=insight.problem,
        cancel_requested=record.cancel_requested,
        owed_undos=insight.owed,
        failed_undos=insight.failed,
        children=newest_child_ids(state, record.key, CHILDREN_MAX),
    )


def _summary(state: State, record: WorkflowRecord) -> WorkflowSummary:
    parent = None if record.parent_key is None else state.readable(record.parent_key)
    progress = state.chronicle.progress_of(record.key)
    parent_id = None if parent is None else parent.id
    return WorkflowSummary.of(record, parent_id, None if progress is None else progress.value)


def _insight(turn: Turn, record: WorkflowRecord) -> _Insight:
    """Ask the live body, or rebuild one in a dry run. A workflow that is parked, ended or not begun needs no body."""
    state = turn.state
    loaded = state.loaded.get(record.key)
    if loaded is not None:
        return _seen(loaded.session)
    if record.status.is_terminal:
        return _Insight(failed=_failed_undos(record))
    if record.status is WorkflowStatus.PARKED:
        return _Insight(problem=record.park_detail)
    if not has_begun(state, record):
        # It waits for nothing yet.
        return _Insight()
    try:
        history = state.chronicle.of(record.key)
    except CodecError as error:
        return _Insight(problem=str(error))
    with examined(turn, record, history) as body:
        return _Insight(problem=body.detail) if isinstance(body, Misfit) else _seen(body[0])


def _seen(session: WorkflowSessionRunner) -> _Insight:
    """The insight into a body, live or rebuilt."""
    return _Insight(
        waits=tuple(_waiting(session, wait) for wait in session.waits.values()),
        owed=tuple(map(_owed, session.owed())),
        failed=tuple(session.failed_undos()),
    )


def _waiting(session: WorkflowSessionRunner, wait: WaitCondition) -> Waiting:
    return Waiting(
        position=wait.position,
        kind=wait.kind.value,
        name=wait.name,
        since=to_datetime(wait.opened_at),
        until=instant(wait.due),
        attempt=wait.attempt,
        last_error=None if wait.error is None else _summary_of(wait.error),
        source=session.source(wait.position),
    )


def _failed_undos(record: WorkflowRecord) -> tuple[FailedUndo, ...]:
    """The failed undos of an ended workflow. They are stored with its error."""
    try:
        return () if record.error is None else undos_summary(record.error)
    except CodecError:
        # An unreadable error must not hide the rest of the description.
        return ()


def _summary_of(error: str) -> str:
    try:
        return ": ".join(error_summary(error))
    except CodecError as problem:
        return str(problem)


def _owed(owed: Owed) -> OwedUndo:
    return OwedUndo(position=owed.position, step=str(owed.op), undo=owed.name)


# --- lists ------------------------------------------------------------------------------------------------------------


@attrs.frozen
class Reading:
    """The part of the store that lists may use, and the time."""

    _backend: Backend
    now: int

    def find(self, query: Query[R]) -> Sequence[R]:
        """The rows that answer a question."""
        return self._backend.find(query)

    def count(self, query: Workflows) -> int:
        """How many workflows match."""
        return self._backend.count(query)

    def workflow(self, id: str) -> WorkflowRecord | None:
        """The workflow with this id, also one whose row is damaged."""
        return self._backend.workflow(id)

    def id_of(self, key: int) -> str | None:
        """The id of the workflow with this key; None if it is gone or its row is damaged."""
        record = self._backend.workflow_by_key(key)
        return None if record is None or record.is_damaged else record.id


def answer_list(backend: Backend, op: Operation[Any], now: int) -> Any:
    """The answer to a list. Called by the coordinator after the commit."""
    return _LISTS[type(op)](Reading(backend, now), op)


def list_workflows(reading: Reading, op: ListWorkflows) -> list[Listed]:
    """A page of workflows, with two queries whatever its length. Raises `WorkflowNotFound` for an unknown `after`."""
    last = None if op.after is None else reading.workflow(op.after)
    if op.after is not None and last is None:
        raise WorkflowNotFound(op.after)
    records = reading.find(op.query if last is None else attrs.evolve(op.query, after=last.key))
    if not records:
        return []
    backgrounds = reading.find(Backgrounds(tuple(record.key for record in records)))
    by_key = {background.workflow_key: background for background in backgrounds}
    # The store leaves out a background whose row is damaged.
    return [Listed(record, by_key.get(record.key) or Background(record.key, None, None)) for record in records]


def count_workflows(reading: Reading, op: CountWorkflows) -> int:
    """How many workflows match."""
    return reading.count(op.query)


def list_pauses(reading: Reading, op: ListPauses) -> list[OpenPause]:
    """A page of open pauses. Raises `WorkflowNotFound`, or `CodecError` for a workflow whose row is damaged."""
    key: int | None = None
    if op.workflow_id is not None:
        record = reading.workflow(op.workflow_id)
        if record is None:
            raise WorkflowNotFound(op.workflow_id)
        if record.is_damaged:
            raise CodecError(f"workflow id {record.id!r}", record.park_detail or "it is damaged")
        key = record.key
    return list(reading.find(OpenPauses(workflow_key=key, name=op.name, after=op.after, limit=op.limit)))


def list_events(reading: Reading, op: ListEvents) -> list[PendingEventInfo]:
    """A page of pending events: all, those of a name, or those sent to one id. Without expired ones."""
    record = None if op.to is None else reading.workflow(op.to)
    target = None if record is None else record.key
    unstarted = op.to if record is None else None
    page = PendingEvents(
        name=op.name, target=target, unstarted=unstarted, valid_at=reading.now, after=op.after, limit=op.limit
    )
    return [_info(reading, event) for event in reading.find(page)]


def _info(reading: Reading, event: PendingEvent) -> PendingEventInfo:
    owner = None if event.target is None else reading.id_of(event.target)
    return PendingEventInfo(
        id=event.serial,
        name=event.name,
        key=event.event_key or None,
        to=event.unstarted if owner is None else owner,
        payload=decoded(event.payload),
        sent_at=to_datetime(event.sent_at),
        expires_at=None if event.expires_at is None else to_datetime(event.expires_at),
        is_broadcast=not event.consume,
    )


def list_letters(reading: Reading, op: ListLetters) -> list[DeadLetter]:
    """A page of dead letters."""
    return list(reading.find(Letters(after=op.after, limit=op.limit)))


def list_schedules(reading: Reading, op: ListSchedules) -> list[ScheduleRecord]:
    """A page of schedules."""
    return list(reading.find(Schedules(after=op.after, limit=op.limit)))


_LISTS: dict[type[Operation[Any]], Callable[[Reading, Any], Any]] = {
    ListWorkflows: list_workflows,
    CountWorkflows: count_workflows,
    ListPauses: list_pauses,
    ListEvents: list_events,
    ListLetters: list_letters,
    ListSchedules: list_schedules,
}

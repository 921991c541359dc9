"""Describing one workflow: what it waits for, the undos it owes, its children, and what keeps it from continuing.

A description changes nothing. A body that is not in memory is rebuilt in a dry run and thrown away. So a description
never parks a workflow whose code is missing, and never starts an activity or a child.
"""

from __future__ import annotations

import attrs

from durable.engine.decide.dry_run import Misfit, examined
from durable.engine.decide.turn import Turn
from durable.engine.operations import DescribeWorkflow
from durable.engine.operations.views import Description, OwedUndo, Waiting, WorkflowSummary, instant
from durable.engine.state.state import State, has_begun, newest_child_ids, shown
from durable.errors import CodecError
from durable.model.clock import to_datetime
from durable.model.error_codec import error_summary, undos_summary
from durable.model.records import FailedUndo, WorkflowRecord, WorkflowStatus
from durable.runner.fibers import WaitCondition
from durable.runner.session import WorkflowSessionRunner
from durable.runner.undo import Owed

# How many children a description lists.
CHILDREN_MAX = 100


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

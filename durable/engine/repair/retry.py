"""Retry: a failed or parked workflow continues where it stopped, with its children.

First a plan is made, and the history is replayed as it would be with it. If it does not fit, or fails again, the retry
is refused and nothing is written. Then the plan is carried out, children first. The history keeps all its entries; the
entry of the retry says which of them no longer count.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

import attrs

from durable.engine.decide.body import last_seq, load
from durable.engine.decide.children import is_kept, tell_or_note
from durable.engine.decide.dry_run import Misfit, try_out
from durable.engine.decide.endings import child_id_of
from durable.engine.decide.facts import notice
from durable.engine.decide.timers import put_off_one
from durable.engine.decide.turn import Turn
from durable.engine.decide.waits import note_question
from durable.engine.operations import Follow, ResumeWorkflow, RetryWorkflow
from durable.engine.operations.messages import ChildRefused, LookAgain, RetryChild
from durable.errors import (
    CannotRetry,
    CodecError,
    DurableError,
    WorkflowNotFound,
)
from durable.model.error_codec import error_summary, pack_error
from durable.model.homes import key_home
from durable.model.position import Place, Position, place
from durable.model.records import (
    CancelCause,
    EntryKind,
    EntryStatus,
    HistoryEntry,
    ParkReason,
    WorkflowRecord,
    WorkflowStatus,
)
from durable.runner.fibers import WaitCondition
from durable.runner.past import NOTES, Past, Retried
from durable.runner.results import Failed


@attrs.define(eq=False)
class _Plan:
    """How a workflow will continue: the entry for its history, and the children that continue with it."""

    record: WorkflowRecord
    note: HistoryEntry
    retried: list[_Plan] = attrs.field(factory=list)
    # Each with its call, because the current code may call it with another version or other arguments.
    restarted: list[tuple[WorkflowRecord, dict[str, Any]]] = attrs.field(factory=list)
    # Children of other shards, each with its call: they are asked to go on by letter.
    elsewhere: list[tuple[WorkflowRecord, dict[str, Any]]] = attrs.field(factory=list)


def decide_retry_workflow(turn: Turn, op: RetryWorkflow) -> DurableError | None:
    """Let a failed or parked workflow continue. Raises `WorkflowNotFound`."""
    record = turn.state.record(op.id)
    if record.status is WorkflowStatus.PARKED:
        return _unpark(turn, record, op.reason)
    if record.status is not WorkflowStatus.FAILED:
        return CannotRetry(record.id, f"only a failed or parked workflow can be, and it is {record.status.value}")
    parent = None if is_kept(record) or record.parent_key is None else turn.state.readable(record.parent_key)
    if parent is not None and parent.status.is_terminal:
        # It would run on without a parent to end with.
        return CannotRetry(record.id, f"its parent {parent.id!r} has ended; retry the parent, or fork this workflow")
    plan = _plan(turn, record)
    if isinstance(plan, DurableError):
        return plan
    if op.reason is not None:
        plan.note = _explained(plan.note, op.reason)
    _carry_out(turn, plan)
    return None


def _explained(note: HistoryEntry, reason: str) -> HistoryEntry:
    """The entry of a retry, with the reason of the operator."""
    retried = Retried.of(note)
    return note._replace(outcome=Retried(retried.entries, retried.lain, reason).text())


def _unpark(turn: Turn, record: WorkflowRecord, reason: str | None) -> DurableError | None:
    """Let a parked workflow continue. Its history does not change, so there is nothing to plan; the log has the reason.

    Returns why it stays parked.
    """
    refusal = _try_again(turn, record)
    if refusal is None and reason is not None:
        notice(turn, logging.INFO, f"workflow {record.id!r} was parked and is retried: {reason}", record)
    return refusal


def _try_again(turn: Turn, record: WorkflowRecord) -> DurableError | None:
    """Load a parked workflow, now or in the next batch. Returns why it stays parked."""
    if record.park_reason is ParkReason.CRASHED:
        # It may take the process down again, so its body runs in the next batch, after this is committed.
        turn.state.workflows.mark_resumed(turn.state.workflows.count_crashes(record, 0), record.wake_at)
        turn.effects.append(Follow(ResumeWorkflow(record.key)))
        # Until then nothing may answer its waits: a new event would overtake those that came while it was parked.
        waits = turn.state.waits.of(record.key)
        for position in [position for position, wait in waits.items() if wait.kind is EntryKind.EVENT]:
            put_off_one(turn, LookAgain(record.key, position))
        return None
    if load(turn, record) is not None:
        return None
    current = turn.state.by_key(record.key) or record
    # Otherwise it fitted, and ended at once.
    parked = current.status is WorkflowStatus.PARKED
    return CannotRetry(record.id, f"it is still parked: {current.park_detail}") if parked else None


def _plan(turn: Turn, record: WorkflowRecord) -> _Plan | DurableError:
    """The plan for retrying a failed workflow, or why it cannot be retried."""
    history = turn.state.chronicle.of(record.key)
    results = [entry for entry in Past(history).entries if entry.kind not in NOTES]
    if results and Position(results[-1].position).undo_scope is not None:
        return CannotRetry(record.id, _why_undone(turn, record, history))
    note = _retried(record, results, last_seq(history) + 1, turn.now)
    tried = try_out(turn, record, [*history, note])
    if isinstance(tried, Misfit):
        return CannotRetry(record.id, tried.detail)
    if isinstance(tried.result, Failed):
        error_type, message = error_summary(pack_error(tried.result.error))
        problem = (
            f"under the current code its history ends in {error_type}: {message}; "
            "deploy a fix, repair the recorded result that causes it, or fork it from an earlier step"
        )
        return CannotRetry(record.id, problem)
    plan = _Plan(record, note)
    refusals = (
        *(_plan_tied(turn, plan, entry) for entry in results if entry.kind is EntryKind.SPAWN),
        *(_plan_child(turn, plan, wait) for wait in tried.waits.values()),
    )
    return next((refusal for refusal in refusals if refusal is not None), plan)


def _why_undone(turn: Turn, record: WorkflowRecord, history: Sequence[HistoryEntry]) -> str:
    """Why a workflow that has undone its steps cannot continue, and from where it can be forked."""
    tried = try_out(turn, record, history)
    undone = [] if isinstance(tried, Misfit) else tried.undone
    where = f"{undone[0].position}, the position of {undone[0].op}" if undone else "a step before the first undone one"
    return f"its steps were undone; start another run, or fork it from {where}"


def _retried(record: WorkflowRecord, results: Sequence[HistoryEntry], seq: int, now: int) -> HistoryEntry:
    """The entry of a retry. If the last result was an error, it no longer counts, and the step runs again."""
    position = ""
    void: list[int] = []
    if results and results[-1].status is EntryStatus.ERROR:
        position = results[-1].position
        # Together with its failed attempts, so that the step has all attempts again.
        void = [entry.seq for entry in results if entry.position == position]
    retried = Retried(void, max(0, now - (record.finished_at or now)))
    return HistoryEntry(seq, position, EntryKind.RETRIED, "retry", EntryStatus.OK, retried.text(), now)


def _plan_tied(turn: Turn, plan: _Plan, entry: HistoryEntry) -> DurableError | None:
    """A spawned child that was cancelled only because its parent had ended starts again with the parent."""
    child = turn.state.find(json.loads(entry.outcome)) if entry.status is EntryStatus.OK else None
    if child is None or child.parent_key != plan.record.key:
        return None
    if (refusal := _hears_of_it_yet(turn, plan, child)) is not None:
        return refusal
    if child.cancel_cause is not CancelCause.PARENT_ENDED:
        return None
    if not child.status.is_terminal:
        return _still_ending(plan, child)
    _restart(turn, plan, child, {})
    return None


def _restart(turn: Turn, plan: _Plan, child: WorkflowRecord, call: dict[str, Any]) -> None:
    """A child that has ended with its parent starts again with it."""
    if turn.state.shard.owns_key(child.key):
        plan.restarted.append((child, call))
    else:
        plan.elsewhere.append((child, call))


def _plan_child(turn: Turn, plan: _Plan, wait: WaitCondition) -> DurableError | None:
    """A child that was cancelled with its parent starts again. A child whose failure failed its parent is retried."""
    parent = plan.record
    child = _awaited(turn, parent, wait)
    if child is None or child.status is WorkflowStatus.SUCCEEDED:
        return None
    if (refusal := _hears_of_it_yet(turn, plan, child)) is not None:
        return refusal
    if child.status is WorkflowStatus.FAILED and not turn.state.shard.owns_key(child.key):
        plan.elsewhere.append((child, {}))
        return None
    if child.status is WorkflowStatus.FAILED:
        inner = _plan(turn, child)
        if isinstance(inner, DurableError):
            return CannotRetry(parent.id, str(inner))
        plan.retried.append(inner)
        return None
    if not child.status.is_terminal:
        return _still_ending(plan, child) if child.cancel_requested else None
    if any(restarted.key == child.key for restarted, _ in (*plan.restarted, *plan.elsewhere)):
        return None
    if wait.kind is EntryKind.CHILD and child.cancel_cause is not CancelCause.REQUESTED:
        definition = wait.op.definition  # type: ignore[attr-defined]  # it is the call of a child
        try:
            turn.state.registry.add(definition)
        except DurableError as error:
            return CannotRetry(parent.id, str(error))
        call = {"name": definition.name, "version": definition.version, "input": wait.input}
        _restart(turn, plan, child, call)
        return None
    where = Place.parse(child.parent_place or "")
    position = where.position if where is not None else "?"
    problem = f"child {child.id!r} was cancelled; fork it from position {position}, which starts another child"
    return CannotRetry(parent.id, problem)


def _awaited(turn: Turn, parent: WorkflowRecord, wait: WaitCondition) -> WorkflowRecord | None:
    """The workflow's own child that it waits for here, if it exists."""
    if wait.kind is EntryKind.CHILD:
        child = turn.state.find(child_id_of(parent, wait.op, wait.position))
        is_own = child is not None and child.parent_place == place(parent.round, wait.position)
    else:
        child = turn.state.find(wait.name) if wait.kind is EntryKind.RESULT else None
        is_own = child is not None
    return child if is_own and child is not None and child.parent_key == parent.key else None


def _still_ending(plan: _Plan, child: WorkflowRecord) -> CannotRetry:
    return CannotRetry(plan.record.id, f"child {child.id!r} is being cancelled; retry when it has ended")


def _hears_of_it_yet(turn: Turn, plan: _Plan, child: WorkflowRecord) -> CannotRetry | None:
    """Why a child of another shard cannot be judged: a letter that cancels it may be on its way."""
    shard = turn.state.shard
    if is_kept(child) or shard.owns_key(child.key) or turn.state.outbox.is_delivered(key_home(child.key, shard.count)):
        return None
    return CannotRetry(plan.record.id, f"child {child.id!r} has not heard of its end yet; retry in a moment")


def _carry_out(turn: Turn, plan: _Plan) -> None:
    """Children first: their parent must not find that they have ended."""
    state, record = turn.state, plan.record
    for inner in plan.retried:
        _carry_out(turn, inner)
    for child, call in plan.restarted:
        state.workflows.restart_workflow(child, turn.now, **call)
        turn.effects.append(Follow(ResumeWorkflow(child.key)))
    again = state.workflows.retry_workflow(record)
    state.chronicle.add(record.key, [plan.note])
    loaded = load(turn, again)
    # It may have ended at once, under code that waits for none of them.
    for child, call in plan.elsewhere if loaded is not None else ():
        assert loaded is not None, "it was asked"
        wait = next((wait for wait in loaded.session.waits.values() if _awaited_id(again, wait) == child.id), None)
        question = None if wait is None else note_question(turn, loaded, wait, child.id)
        code = (call["name"], call["version"], call["input"]) if call else None
        turn.send(RetryChild(question, child.id, record.key, code))


def _awaited_id(parent: WorkflowRecord, wait: WaitCondition) -> str | None:
    """The id of the child whose end a wait is for."""
    if wait.kind is EntryKind.CHILD:
        return child_id_of(parent, wait.op, wait.position)
    return wait.name if wait.kind is EntryKind.RESULT else None


def retry_child(turn: Turn, message: RetryChild) -> None:
    """The parent of a child of this shard was retried in another: let the child go on, or say how it has ended."""
    state, wait = turn.state, message.wait
    try:
        child = state.find(message.child_id)
    except CodecError:
        child = None
    if child is None or child.parent_key != message.parent_key:
        if wait is not None:
            turn.send(ChildRefused(wait, pack_error(WorkflowNotFound(message.child_id))))
        return
    if child.status is WorkflowStatus.FAILED:
        plan = _plan(turn, child)
        if isinstance(plan, _Plan):
            _carry_out(turn, plan)
    elif child.status is WorkflowStatus.CANCELLED and child.cancel_cause is not CancelCause.REQUESTED:
        call = dict(zip(("name", "version", "input"), message.call or (), strict=False))
        state.workflows.restart_workflow(child, turn.now, **call)
        turn.effects.append(Follow(ResumeWorkflow(child.key)))
    if wait is not None:
        tell_or_note(turn, wait, state.by_key(child.key) or child)

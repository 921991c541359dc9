"""Pure decisions: a workflow begins, learns what became of its activities, timers and children, and is cancelled."""

from __future__ import annotations

from typing import Any

from durable.clock import LATEST, later
from durable.codec import Arguments
from durable.engine import journal
from durable.engine.abandoning import given_up
from durable.engine.delivery import adopt_mail
from durable.engine.differences import difference
from durable.engine.endings import check_payload, child_id_of, mark_finished, park
from durable.engine.long_decisions import take_up
from durable.engine.messages import FireTimers, LookAgain
from durable.engine.operations import (
    CancelWorkflow,
    Ended,
    Follow,
    RecordActivity,
    ResumeWorkflow,
    StartWorkflow,
    TerminateWorkflow,
    WakeWorkflow,
)
from durable.engine.progress import advance, begin, feed, feed_cancel, feed_retry, load
from durable.engine.state.bodies import Loaded
from durable.engine.state.state import is_delayed, shown
from durable.engine.turn import Turn
from durable.errors import (
    ChildDepthExceeded,
    ChildWorkflowCancelled,
    ChildWorkflowFailed,
    CodecError,
    InvalidValue,
    WorkflowAlreadyExists,
)
from durable.ids import digest
from durable.limit_errors import TooManyChildren
from durable.outcomes import error_summary, pack_error, unpack_error
from durable.pause_errors import WorkflowParked
from durable.position import place
from durable.records import (
    BY_KEY,
    CancelCause,
    EntryStatus,
    OnParentClose,
    ParkReason,
    WorkflowRecord,
    WorkflowStatus,
)
from durable.retry import is_permanent, next_delay
from durable.runner.definitions import WorkflowDef
from durable.runner.fibers import WaitCondition
from durable.runner.results import Failed

# A name of its own, for every step: to Python 3.11 a member of an enum is as dear as a call.
_OK = EntryStatus.OK


def decide_start_workflow(turn: Turn, op: StartWorkflow) -> WorkflowRecord:
    """Begin a workflow; the same call under the same id again finds the first one."""
    state = turn.state
    known = state.find(op.id)
    if known is not None:
        if (problem := difference(known, op)) is not None:
            raise WorkflowAlreadyExists(op.id, known.name, problem)
        return known
    definition = op.definition or state.registry.get(op.name, op.version)
    check_payload(turn, f"{definition.label}: arguments", op.input)
    if len(op.tags) > state.config.max_tags:
        raise InvalidValue("tags", f"{len(op.tags)} are more than max_tags={state.config.max_tags}")
    state.registry.add(definition)
    start_at = later("start: delay", turn.now, op.delay)
    return register_workflow(turn, op.id, definition, op.input, start_at=start_at, arguments=op.arguments, tags=op.tags)


def register_workflow(
    turn: Turn,
    id: str,
    definition: WorkflowDef[Any, Any],
    input: str,
    *,
    start_at: int,
    arguments: Arguments | None = None,
    **more: Any,
) -> WorkflowRecord:
    """Store a new workflow and run its body, unless it is to start later."""
    state = turn.state
    is_delayed = start_at > turn.now
    record = WorkflowRecord(
        key=state.next_serial(),
        id=id,
        name=definition.name,
        version=definition.version,
        status=WorkflowStatus.SUSPENDED if is_delayed else WorkflowStatus.RUNNING,
        input=input,
        start_digest=digest(definition.name, input),
        created_at=turn.now,
        start_at=start_at,
        wake_at=start_at if is_delayed else None,
        position_format=BY_KEY,
        **more,
    )
    state.workflows.register_workflow(record, begins_later=not is_delayed and state.trials.stores_first)
    mail = adopt_mail(turn, record)
    if is_delayed:
        return record
    if state.trials.stores_first:
        turn.effects.append(Follow(ResumeWorkflow(record.key)))
    else:
        begin(turn, record, mail, arguments)
    return record


def decide_record_activity(turn: Turn, op: RecordActivity) -> None:
    """An attempt has ended: record it, unless nobody waits for that attempt any more.

    The workflow may have been cancelled, raced past this position, continued as another round or ended meanwhile;
    then the answer is late, and late answers change nothing.
    """
    state = turn.state
    key, position = op.key, op.position
    flights = state.in_flight.get(key)
    if flights is None or flights.get(position) != (op.round, op.attempt):
        return
    loaded = state.touch(key) or _reload(turn, key)
    if loaded is not None and op.mends not in (None, loaded.session.past.mends):
        # An attempt of the same number, which began before an operator has set the workflow right.
        return
    # Not before: what is in flight is not dispatched again by loading its workflow.
    flights.pop(position, None)
    if key in state.trials.on_trial and not flights:
        # What it began has ended, and the process lives.
        state.trials.acquit(key)
    wait = loaded.session.waits.get(position) if loaded is not None else None
    if loaded is None or wait is None or wait.attempt != op.attempt:
        return
    if op.error is None:
        feed(turn, loaded, wait, _OK, op.outcome, value=op.value)
        return
    policy = wait.op.definition.retry  # type: ignore[attr-defined]  # what is in flight is an activity
    where = f"{loaded.record.id}/{op.position}"
    delay = None if is_permanent(op.error) else next_delay(policy, op.error, op.attempt, where)
    if delay is not None and turn.now + delay > LATEST:
        delay = None
    line = journal.attempt_failed(
        loaded.record, wait.name, op.outcome, position=position, attempt=op.attempt, delay=delay
    )
    turn.effects.append(line)
    if delay is None:
        feed(turn, loaded, wait, EntryStatus.ERROR, op.outcome)
    else:
        feed_retry(turn, loaded, wait, op.outcome, delay)


def _reload(turn: Turn, key: int) -> Loaded | None:
    """The body of a workflow that may have been let go of, ended or parked meanwhile."""
    record = turn.state.get_active(key)
    return None if record is None else load(turn, record)


def decide_wake_workflow(turn: Turn, op: WakeWorkflow) -> None:
    """A deadline has come. A body that begins only now, perhaps long after its time, first takes what is pending."""
    if _reload(turn, op.key) is None:
        return
    take_up(turn, op.key)
    if turn.messages.has(LookAgain):
        turn.messages.send(FireTimers(op.key))
    else:
        fire_due(turn, op.key)


def fire_due(turn: Turn, key: int) -> None:
    """Fire the timers that are due, end the pauses that have expired and begin the attempts that are due.

    Which those are follows from the workflow itself, so a timer of a wait that is over fires nothing.
    """
    loaded = _reload(turn, key)
    if loaded is None:
        return
    for wait in loaded.session.due(turn.now):
        if loaded.session.waits.get(wait.position) is not wait:
            continue
        if (act := turn.kinds[wait.kind].due) is not None:
            act(turn, loaded, wait)
    # The timer was taken out of the window when it came due; the next one goes in, even if it is the same instant.
    record = turn.state.by_key(key)
    if record is not None and record.wake_at is not None:
        turn.state.timers.move(key, record.wake_at, record.wake_at)


def fire_timer(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """A timer fires."""
    feed(turn, loaded, wait, _OK, "null")


def decide_resume_workflow(turn: Turn, op: ResumeWorkflow) -> None:
    """Load a workflow and let it go on, also a parked one that may fit again."""
    turn.state.trials.rebuilt(op.key)
    record = turn.state.by_key(op.key)
    if record is not None and not record.status.is_terminal and record.park_reason is not ParkReason.CRASHED:
        load(turn, record)


# --- children -----------------------------------------------------------------------------------------------------


def check_child(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """A workflow waits for a child: start it, or hand its end over if it has ended. Replay never starts a second."""
    child = own_child(turn, loaded, wait)
    if child is not None and child.status.is_terminal:
        hand_over_child(turn, loaded, wait, child)


def own_child(
    turn: Turn, loaded: Loaded, wait: WaitCondition, on_parent_close: OnParentClose | None = None
) -> WorkflowRecord | None:
    """The child that a workflow calls here, as it was or just started; None if the body is told why not, or parked."""
    state = turn.state
    parent = loaded.record
    definition: WorkflowDef[Any, Any] = wait.op.definition  # type: ignore[attr-defined]  # it is the call of a child
    id = child_id_of(parent, wait.op, wait.position)
    where = place(parent.round, wait.position)
    try:
        child = state.find(id)
    except CodecError as problem:
        park(turn, parent, ParkReason.UNREADABLE, f"child {id!r}: {problem}")
        return None
    if child is not None:
        if (child.parent_key, child.parent_place) == (parent.key, where):
            return child
        feed(turn, loaded, wait, EntryStatus.ERROR, pack_error(WorkflowAlreadyExists(id, child.name)))
        return None
    try:
        if parent.depth >= state.config.max_child_depth:
            raise ChildDepthExceeded(parent.id, state.config.max_child_depth)
        check_payload(turn, f"{definition.label}: arguments", wait.input)
        state.registry.add(definition)
    except Exception as error:
        feed(turn, loaded, wait, EntryStatus.ERROR, pack_error(error))
        return None
    state.started[parent.key] = started = state.started.get(parent.key, 0) + 1
    if started > state.config.max_children_per_step:
        # Not raised in the body, which could catch it and never come to the end of this step.
        advance(turn, loaded, Failed(TooManyChildren(parent.name, state.config.max_children_per_step)))
        return None
    return register_workflow(
        turn, id, definition, wait.input,
        start_at=turn.now, parent_key=parent.key, parent_place=where, depth=parent.depth + 1,
        on_parent_close=on_parent_close,
    )  # fmt: skip


def hand_over_child(turn: Turn, loaded: Loaded, wait: WaitCondition, child: WorkflowRecord) -> None:
    """Feed a child's end to its parent."""
    if child.status is WorkflowStatus.SUCCEEDED:
        feed(turn, loaded, wait, EntryStatus.OK, child.result or "null")
        return
    error: Exception = ChildWorkflowCancelled(child.id, child.cancel_reason)
    if child.error is not None:
        try:
            if child.status is WorkflowStatus.FAILED:
                error = ChildWorkflowFailed(child.id, *error_summary(child.error))
            error.__cause__ = unpack_error(child.error)
        except CodecError as problem:
            park(turn, loaded.record, ParkReason.UNREADABLE, f"the error of child {child.id!r}: {problem}")
            return
    feed(turn, loaded, wait, EntryStatus.ERROR, pack_error(error))


# --- cancelling ---------------------------------------------------------------------------------------------------


def decide_cancel_workflow(turn: Turn, op: CancelWorkflow) -> bool:
    """Cancel by id; False if it has ended already.

    One whose row is damaged may owe undos that nobody can see, so only `terminate` ends it. Raises `WorkflowParked`.
    """
    record = shown(turn.state, op.id)
    if record.is_damaged:
        raise WorkflowParked(record.id, record.park_detail or "")
    return cancel_workflow(turn, record, op.reason)


def cancel_workflow(
    turn: Turn, record: WorkflowRecord, reason: str | None, cause: CancelCause = CancelCause.REQUESTED
) -> bool:
    """Raise `Cancelled` at the workflow's waits, again if it was raised before. It can only end cancelled from here on.

    A body that never ran has nothing to clean up and ends at once. One that cannot run now may owe undos: the
    cancellation is kept, and raised when the body can be rebuilt.
    """
    if record.status.is_terminal:
        return False
    state = turn.state
    if is_delayed(state, record, turn.now):
        asked = {"cancel_requested": True, "cancel_reason": reason, "cancel_cause": cause}
        mark_finished(turn, record, WorkflowStatus.CANCELLED, **asked)
        return True
    is_crashed = record.park_reason is ParkReason.CRASHED
    if record.cancel_pending or is_crashed:
        kept = state.workflows.cancel_workflow(record, reason, cause, is_pending=True)
        # One that took the process down is rebuilt only when an operator retries it.
        if not is_crashed:
            load(turn, kept)
        return True
    loaded = load(turn, record)
    # Loading it may have parked it, or shown that under new code it has nothing left to do.
    current = state.by_key(record.key) or record
    if current.status.is_terminal:
        return False
    state.workflows.cancel_workflow(current, reason, cause, is_pending=loaded is None)
    if loaded is not None:
        feed_cancel(turn, loaded)
    return True


def decide_terminate_workflow(turn: Turn, op: TerminateWorkflow) -> bool:
    """End a workflow at once; False if it has ended already. What it owes is given up, and its error says so."""
    record = shown(turn.state, op.id)
    if record.is_damaged:
        return _end_damaged(turn, record, op.reason)
    if record.status.is_terminal:
        return False
    error = None if is_delayed(turn.state, record, turn.now) else given_up(turn, record, op.reason)
    asked = {"cancel_requested": True, "cancel_reason": op.reason, "cancel_cause": CancelCause.REQUESTED}
    mark_finished(turn, record, WorkflowStatus.CANCELLED, error=error, **asked)
    return True


def _end_damaged(turn: Turn, record: WorkflowRecord, reason: str | None) -> bool:
    """End a workflow whose row cannot be read: the store writes a row that can be. One that had ended keeps its end."""
    if record.mended is not None:
        turn.state.workflows.mend_workflow(record.mended)
        turn.effects.append(Ended(record.mended))
        return False
    asked = {"cancel_requested": True, "cancel_reason": reason, "cancel_cause": CancelCause.REQUESTED}
    mark_finished(turn, record, WorkflowStatus.CANCELLED, is_damaged=False, **asked)
    return True

"""How a workflow stops running: it ends, is parked, or continues as another round.

Whatever the workflow held is released in the same decision: activities, awaited children, waits, mail and timers. So an
event that is sent while a workflow ends is either taken by it or found in its mailbox here, and never lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from durable.engine.decide.dead_letters import bury_mail
from durable.engine.decide.elsewhere import withdraw
from durable.engine.decide.turn import Turn
from durable.engine.operations import Ended, Follow, Parked, ResumeWorkflow, StopActivity, log_lines
from durable.engine.operations.messages import CancelChild, EventMoved, WorkflowEnded
from durable.errors import Cancelled, CodecError, PayloadTooLarge
from durable.model.codec import payload_size
from durable.model.error_codec import failed_undos, pack_error
from durable.model.position import child_id, place
from durable.model.records import (
    CancelCause,
    DeadLetterPolicy,
    EntryKind,
    ParkReason,
    PendingEvent,
    WorkflowRecord,
    WorkflowStatus,
)
from durable.runner.definitions import WorkflowCall
from durable.runner.results import Completed, ContinueAs, Failed


def check_payload(turn: Turn, where: str, text: str) -> None:
    """Raise `PayloadTooLarge` if a text is over `max_payload_bytes`. `where` begins the message."""
    limit = turn.state.config.max_payload_bytes
    size = payload_size(text)
    if size > limit:
        raise PayloadTooLarge(where, size, limit)


def end_workflow(
    turn: Turn, record: WorkflowRecord, result: Completed | Failed | ContinueAs
) -> CodecError | PayloadTooLarge | None:
    """The body has ended. A workflow that is being cancelled ends CANCELLED, whatever its body returned or raised.

    Returns an error, and changes nothing, if the body's result cannot be stored.
    """
    if record.cancel_requested:
        text: str | None = None
        if isinstance(result, Failed) and _is_worth_telling(result.error):
            text = pack_error(result.error)
        mark_finished(turn, record, WorkflowStatus.CANCELLED, error=text)
    elif isinstance(result, ContinueAs):
        _continue(turn, record, result.call)
    elif isinstance(result, Failed):
        mark_finished(turn, record, WorkflowStatus.FAILED, error=pack_error(result.error))
    else:
        definition = turn.state.registry.get(record.name, record.version)
        try:
            text, _ = definition.coder(turn.state.codec).result.pack(result.value)
            check_payload(turn, f"workflow {record.name}: result", text)
        except (CodecError, PayloadTooLarge) as error:
            return error
        mark_finished(turn, record, WorkflowStatus.SUCCEEDED, result=text)
    return None


def _is_worth_telling(error: BaseException) -> bool:
    """Whether a cancelled workflow keeps its error: an undo failed, or it was undoing after an earlier error."""
    return bool(failed_undos(error)) or (isinstance(error, Cancelled) and error.__cause__ is not None)


def mark_finished(turn: Turn, record: WorkflowRecord, status: WorkflowStatus, **ending: Any) -> None:
    """End a workflow: its waits, activities and timers go, its mailbox becomes dead letters, its parent wakes up.

    All of it is one decision, so no crash can come between a child's end and its parent's wake-up.
    """
    state, key = turn.state, record.key
    loaded = state.loaded.get(key)
    mail = loaded.mail if loaded is not None else None
    has_spawned = loaded is not None and loaded.session.has_spawned
    leave_work(turn, record)
    rows = loaded.rows if loaded is not None else state.waits.of(key)
    for position, row in rows.items():
        state.waits.drop(key, position)
        if state.shard.count > 1:
            withdraw(turn, row)
    ended = state.workflows.mark_finished(record, status, turn.now, **ending)
    state.unload(key)
    if mail != 0:
        events = state.post.mailbox(target=key)
        for event in events:
            state.post.drop_event(event)
        give_up_mail(turn, record, status, events)
    turn.effects.append(Ended(ended))
    if ended.status is WorkflowStatus.FAILED:
        turn.effects.append(log_lines.failed(ended, ended.error or ""))
    if record.tags:
        state.timetable.run_ended(ended, turn.now)
    may_have_children = loaded is None or has_spawned
    if may_have_children or record.parent_key is not None or state.shard.count > 1:
        turn.messages.send(WorkflowEnded(ended, may_have_children))


def leave_work(turn: Turn, record: WorkflowRecord) -> None:
    """Stop the activities of a workflow, and cancel the children that it waits for."""
    stop_activities(turn, record)
    loaded = turn.state.loaded.get(record.key)
    if loaded is None:
        return
    for wait in loaded.session.waits.values():
        if wait.kind is EntryKind.CHILD:
            child = child_id_of(record, wait.op, wait.position)
            where = place(record.round, wait.position)
            turn.send(CancelChild(child, record.key, record.id, where, CancelCause.PARENT_ENDED))


def stop_activities(turn: Turn, record: WorkflowRecord) -> None:
    """Stop the activities of a workflow that are in flight. Their late answers will be ignored."""
    if flights := turn.state.in_flight.pop(record.key, None):
        turn.effects += [StopActivity(record.key, flight[0], position) for position, flight in flights.items()]


def child_id_of(record: WorkflowRecord, op: Any, position: str) -> str:
    """The id of the child that a workflow calls at a position: the one in the call, or one made from the position."""
    chosen: str | None = op.child_id
    return chosen or child_id(record.id, record.round, position)


def park(turn: Turn, record: WorkflowRecord, reason: ParkReason, detail: str, position: str | None = None) -> None:
    """Set a workflow aside until its code or its data fits again. The history stays as it is, and so does its mail."""
    parked = turn.state.workflows.mark_parked(record, reason, detail)
    if parked is not record:
        turn.effects += [Parked(parked), log_lines.parked(parked, position)]
    stop_activities(turn, record)
    turn.state.unload(record.key)


def _continue(turn: Turn, record: WorkflowRecord, call: WorkflowCall[Any]) -> None:
    """Begin the next round: the history is cleared and the new arguments are stored in one commit.

    The body starts in a later batch. So a workflow that continues over and over does not block the others.
    """
    state = turn.state
    definition = call.definition
    try:
        state.registry.add(definition)
        coder = definition.coder(state.codec)
        coder.check(call.args, call.kwargs)
        text = coder.pack_arguments(call.args, call.kwargs)
        check_payload(turn, f"{definition.label}: arguments", text)
    except Exception as error:
        mark_finished(turn, record, WorkflowStatus.FAILED, error=pack_error(error))
        return
    leave_work(turn, record)
    state.unload(record.key)
    code = {"name": definition.name, "version": definition.version, "input": text}
    state.workflows.update_for_continue_as(record, turn.now, **code)
    turn.effects.append(Follow(ResumeWorkflow(record.key)))


def give_up_mail(turn: Turn, record: WorkflowRecord, status: WorkflowStatus, events: Sequence[PendingEvent]) -> None:
    """Move the untaken mail of an ended workflow to where `dead_letter_policy` says. The events are dropped already."""
    policy = turn.state.config.dead_letter_policy
    if policy is DeadLetterPolicy.MOVE_TO_BROADCAST:
        for event in events:
            turn.send(EventMoved(event))
    elif policy is DeadLetterPolicy.MOVE_TO_DEAD_LETTER:
        bury_mail(turn, record, status, events)

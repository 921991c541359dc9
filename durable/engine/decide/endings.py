"""How a workflow stops running: it ends, is parked, or continues as another round. And how events and rows end.

Whatever the workflow held is released in the same decision: activities, awaited children, waits, mail and timers. So an
event that is sent while a workflow ends is either taken by it or found in its mailbox here, and never lost.

An event that no workflow will take becomes a *dead letter*, with a line in the log. There is one function for each
reason: its workflow has ended, its waiter cannot read it, its retention is over, or the engine refuses it. The id of a
dead letter is the serial of its event.

Ended workflows are removed when an operator purges them, or when they are older than `EngineConfig.retention`. The
latter happens in small steps between other work. The store has no index by end time, so a pass goes through the
workflows in the order in which they were created, one page per batch. It ends at the first page with only workflows
younger than the retention, which cannot have ended before it. Old workflows that have not ended are skipped. After
`_PATIENCE` pages without a removal the pass stops, and the next sweep continues there.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

import attrs

from durable.backends.base import Workflows
from durable.engine.decide.turn import Turn
from durable.engine.decide.waits import withdraw
from durable.engine.operations import (
    Ended,
    ExpireWorkflows,
    Follow,
    Parked,
    PurgeWorkflows,
    ResumeWorkflow,
    SendEvent,
    StopActivity,
    log_lines,
)
from durable.engine.operations.log_lines import Tell, about
from durable.engine.operations.messages import CancelChild, EventMoved, Misfit, WorkflowEnded
from durable.engine.state.state import State
from durable.errors import Cancelled, CodecError, DurableError, PayloadTooLarge
from durable.model.clock import from_duration
from durable.model.codec import payload_size
from durable.model.dead_letters import DeadLetter, DeadLetterReason
from durable.model.error_codec import failed_undos, pack_error
from durable.model.position import Place, child_id, place
from durable.model.records import (
    CancelCause,
    DeadLetterPolicy,
    EntryKind,
    EventWait,
    ParkReason,
    PendingEvent,
    WorkflowRecord,
    WorkflowStatus,
)
from durable.runner.definitions import WorkflowCall
from durable.runner.results import Completed, ContinueAs, Failed

_DETAIL_MAX = 2_000
# How many names of events one line of the log shows.
_SHOWN = 5
# How many pages in a row may have nothing to remove before the pass waits for the next sweep.
_PATIENCE = 50


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


# --- dead letters -----------------------------------------------------------------------------------------------------


def bury_mail(turn: Turn, record: WorkflowRecord, status: WorkflowStatus, events: Sequence[PendingEvent]) -> None:
    """A workflow has ended without taking these events. The caller has removed them from its mailbox."""
    for event in events:
        _bury(turn, event, DeadLetterReason.WORKFLOW_ENDED, record.id, status=status)
    if events:
        text = f"workflow {record.id} ({record.name}) ended ({status.value}) and left {len(events)} events"
        line = Tell(logging.WARNING, f"{text}, which are dead letters now: {_names(events)}", about(record))
        turn.effects.append(line)


def bury_unreadable(turn: Turn, record: WorkflowRecord, row: EventWait, event: PendingEvent, problem: str) -> None:
    """A workflow waits for this event and cannot read it. The workflow keeps waiting.

    A broadcast stays pending for other waiters. It gets one dead letter, however many waiters cannot read it.
    """
    bury_for_guest(turn, event, Misfit(record.id, record.name, row.position, problem))


def bury_for_guest(turn: Turn, event: PendingEvent, misfit: Misfit) -> None:
    """The same for a workflow that may belong to another shard. The dead letter belongs to the home of the event."""
    if not event.consume and turn.state.archive.letter(event.serial) is not None:
        return
    id, name, position, problem = misfit
    _bury(turn, event, DeadLetterReason.UNREADABLE, id, detail=problem[:_DETAIL_MAX])
    text = (
        f"event {event.name} ({event.serial}) is a dead letter now: workflow {id} ({name}) waits for "
        f"it at {position} and cannot read it: {problem}"
    )
    fields = {"workflow_id": id, "workflow_name": name, "position": position}
    turn.effects.append(Tell(logging.WARNING, text, fields))


def bury_forgotten(turn: Turn, events: Sequence[PendingEvent]) -> None:
    """These events were not taken within their retention, or the workflows that they were sent to never started."""
    for event in events:
        _bury(turn, event, DeadLetterReason.RETENTION_OVER, event.unstarted)
    if events:
        text = f"{len(events)} events were not taken within event_retention and are dead letters now: {_names(events)}"
        turn.effects.append(Tell(logging.WARNING, text, {}))


def bury_refused(turn: Turn, operation: SendEvent, at: int, refusal: DurableError) -> None:
    """This event was kept for the engine by a client, and the engine refuses it."""
    event = PendingEvent(
        serial=turn.state.next_serial(),
        name=operation.name,
        event_key=operation.event_key,
        payload=operation.payload,
        sent_at=at,
        consume=operation.consume or operation.to is not None,
    )
    _bury(turn, event, DeadLetterReason.REFUSED, operation.to, detail=str(refusal)[:_DETAIL_MAX])


def _names(events: Sequence[PendingEvent]) -> str:
    counts = Counter(event.name for event in events).most_common()
    shown = ", ".join(f"{name} ({count})" for name, count in counts[:_SHOWN])
    return shown if len(counts) <= _SHOWN else f"{shown} and {len(counts) - _SHOWN} other names"


def _bury(
    turn: Turn,
    event: PendingEvent,
    reason: DeadLetterReason,
    workflow_id: str | None,
    *,
    detail: str | None = None,
    status: WorkflowStatus | None = None,
) -> None:
    turn.state.archive.put_letter(
        DeadLetter(
            id=event.serial,
            name=event.name,
            event_key=event.event_key,
            workflow_id=workflow_id,
            payload_json=event.payload,
            sent_at_us=event.sent_at,
            died_at_us=turn.now,
            reason=reason,
            detail=detail,
            status=status,
            is_broadcast=not event.consume,
        )
    )


# --- ended workflows are removed --------------------------------------------------------------------------------------


def decide_purge_workflows(turn: Turn, op: PurgeWorkflows) -> int:
    """Remove a page of workflows that ended before an instant. Returns how many; 0 means that there are no more.

    A child stays while its parent may still ask for its result.
    """
    state = turn.state
    ends = (WorkflowStatus.SUCCEEDED, WorkflowStatus.FAILED, WorkflowStatus.CANCELLED)
    query = Workflows(statuses=ends, finished_before=op.finished_before, limit=op.limit)
    purged = 0
    # A page may contain only children that must stay; then try the next page.
    while not purged and (page := state.backend.find(query)):
        for record in page:
            purged += purge(state, record)
        query = attrs.evolve(query, after=page[-1].key)
    return purged


def purge(state: State, record: WorkflowRecord) -> bool:
    """Remove a workflow that has ended, unless its parent may still ask for its result. Returns whether it goes."""
    is_known = not record.is_damaged or record.mended is not None
    return is_known and _may_go(state, record) and state.workflows.purge_workflow(record)


def _may_go(state: State, record: WorkflowRecord) -> bool:
    """Whether no parent can ask for the result any more. Without a parent that is always so."""
    if record.parent_key is None:
        return True
    try:
        parent = state.by_key(record.parent_key)
    except CodecError:
        # A parent whose row is damaged may be mended one day, and may ask for the result then.
        return False
    if parent is None or parent.status.is_terminal:
        return True
    # A parent in a later round can no longer ask: the position of the call belongs to the old round.
    where = Place.parse(record.parent_place or "")
    return where is None or where.round != parent.round


def decide_expire_workflows(turn: Turn, op: ExpireWorkflows) -> int:
    """Remove the expired workflows of one page. Returns how many.

    A child stays while its parent may still ask for its result.
    """
    state = turn.state
    if state.config.retention is None:
        return 0
    before = turn.now - from_duration("retention", state.config.retention)
    page = state.backend.find(Workflows(after=state.expired_until, limit=op.limit))
    old = [record for record in page if record.created_at < before]
    purged = sum(purge(state, record) for record in old if ((record.mended or record).finished_at or before) < before)
    # None of them is old, or there are no more pages: the next sweep begins at the start.
    is_last = not old or len(page) < op.limit
    state.expired_until = 0 if is_last else page[-1].key
    barren = 0 if purged else op.barren + 1
    if not is_last and barren < _PATIENCE:
        turn.effects.append(Follow(ExpireWorkflows(barren, op.limit)))
    return purged

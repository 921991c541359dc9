"""An event that no workflow will take becomes a dead letter, with a line in the log.

There is one function for each reason: its workflow has ended, its waiter cannot read it, its retention is over, or the
engine refuses it. The id of a dead letter is the serial of its event.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

from durable.engine.decide.turn import Turn
from durable.engine.operations import SendEvent
from durable.engine.operations.log_lines import Tell, about
from durable.engine.operations.messages import Misfit
from durable.errors import DurableError
from durable.model.dead_letters import DeadLetter, DeadLetterReason
from durable.model.records import EventWait, PendingEvent, WorkflowRecord, WorkflowStatus

_DETAIL_MAX = 2_000
# How many names of events one line of the log shows.
_SHOWN = 5


def bury_mail(turn: Turn, record: WorkflowRecord, status: WorkflowStatus, events: Sequence[PendingEvent]) -> None:
    """A workflow has ended without taking these events. The caller has removed them from its mailbox."""
    for event in events:
        _put(turn, event, DeadLetterReason.WORKFLOW_ENDED, record.id, status=status)
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
    _put(turn, event, DeadLetterReason.UNREADABLE, id, detail=problem[:_DETAIL_MAX])
    text = (
        f"event {event.name} ({event.serial}) is a dead letter now: workflow {id} ({name}) waits for "
        f"it at {position} and cannot read it: {problem}"
    )
    fields = {"workflow_id": id, "workflow_name": name, "position": position}
    turn.effects.append(Tell(logging.WARNING, text, fields))


def bury_forgotten(turn: Turn, events: Sequence[PendingEvent]) -> None:
    """These events were not taken within their retention, or the workflows that they were sent to never started."""
    for event in events:
        _put(turn, event, DeadLetterReason.RETENTION_OVER, event.unstarted)
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
    _put(turn, event, DeadLetterReason.REFUSED, operation.to, detail=str(refusal)[:_DETAIL_MAX])


def _names(events: Sequence[PendingEvent]) -> str:
    counts = Counter(event.name for event in events).most_common()
    shown = ", ".join(f"{name} ({count})" for name, count in counts[:_SHOWN])
    return shown if len(counts) <= _SHOWN else f"{shown} and {len(counts) - _SHOWN} other names"


def _put(
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

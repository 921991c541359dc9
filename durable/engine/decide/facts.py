"""What decisions tell observers: the facts about a workflow, made from its record.

Facts are effects: they leave after the commit, if it succeeds. Those that say that all is well are made only if
somebody wants them. Where most steps pass, the caller asks `State.is_observed` first, so that a step without observers
costs nothing more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from durable.engine.decide.turn import Turn
from durable.engine.operations import facts
from durable.engine.state.workflows import Loaded
from durable.model.dead_letters import DeadLetterReason
from durable.model.records import FailedUndo, HistoryEntry, PendingEvent, WorkflowRecord


def about(turn: Turn, record: WorkflowRecord) -> dict[str, Any]:
    """The fields that all facts about a workflow have."""
    return {"at_us": turn.now, "workflow_id": record.id, "workflow_name": record.name}


def about_attempt(turn: Turn, record: WorkflowRecord, activity: str, position: str, attempt: int) -> dict[str, Any]:
    """The fields that all facts about an attempt of an activity have."""
    which = {"activity": activity, "position": position, "attempt": attempt, "round": record.round}
    return about(turn, record) | which


def notice(turn: Turn, level: int, text: str, record: WorkflowRecord | None = None) -> None:
    """Have a line written that no other fact describes, about a workflow or about none."""
    fields = {} if record is None else {"workflow_id": record.id, "workflow_name": record.name}
    turn.effects.append(facts.Notice(at_us=turn.now, level=level, text=text, fields=fields))


# --- only if somebody observes ----------------------------------------------------------------------------------------


def tell_start(turn: Turn, record: WorkflowRecord) -> None:
    """A workflow is stored."""
    if not turn.state.is_observed:
        return
    parent = None if record.parent_key is None else turn.state.readable(record.parent_key)
    fact = facts.WorkflowStarted(
        **about(turn, record),
        status=record.status,
        start_at_us=record.start_at,
        parent_id=None if parent is None else parent.id,
        trace=record.trace,
    )
    turn.effects.append(fact)


def tell_step(turn: Turn, loaded: Loaded, entry: HistoryEntry | None, seconds: float) -> None:
    """A body took a step, with the entry that it got; None for its first step."""
    if not turn.state.is_observed:
        return
    record = loaded.record
    fact = facts.BodyStepped(
        **about(turn, record),
        kind="" if entry is None else entry.kind.value,
        name="" if entry is None else entry.name,
        position="" if entry is None else entry.position,
        round=record.round,
        took_us=round(seconds * 1_000_000),
        waits=len(loaded.session.waits),
        started_at_us=record.created_at,
        trace=record.trace,
    )
    turn.effects.append(fact)


def tell_rebuilt(turn: Turn, loaded: Loaded, history: Sequence[HistoryEntry], *, is_replay: bool) -> None:
    """A body was rebuilt from its history, or has begun in a later batch than that of its start."""
    if is_replay:
        turn.effects.append(facts.WorkflowReplayed(**about(turn, loaded.record), entries=len(history)))
    else:
        tell_step(turn, loaded, None, 0.0)


def tell_taken(turn: Turn, record: WorkflowRecord, event: PendingEvent, position: str, at: int) -> None:
    """A workflow took an event. The fact goes to place `at`, before those of the step that followed from it."""
    fact = facts.EventTaken(
        **about(turn, record),
        event=event.name,
        position=position,
        lag_us=max(0, turn.now - event.sent_at),
        trace=event.trace,
    )
    turn.effects.insert(at, fact)


# --- always -----------------------------------------------------------------------------------------------------------


def tell_end(turn: Turn, record: WorkflowRecord) -> None:
    """A workflow has ended, as this record says."""
    fact = facts.WorkflowEnded(
        **about(turn, record),
        status=record.status,
        started_at_us=record.created_at,
        round=record.round,
        error=record.error,
        trace=record.trace,
    )
    turn.effects.append(fact)


def tell_parked(turn: Turn, record: WorkflowRecord, position: str | None) -> None:
    """A workflow is parked; `position` is that of the entry that caused it, if one did."""
    reason = "unknown" if record.park_reason is None else record.park_reason.value
    fact = facts.WorkflowParked(
        **about(turn, record), reason=reason, detail=record.park_detail or "", position=position
    )
    turn.effects.append(fact)


def tell_failed_undos(turn: Turn, record: WorkflowRecord, undos: Iterable[FailedUndo]) -> None:
    """Undos have failed."""
    turn.effects += [facts.UndoFailed(**about(turn, record), position=undo.position, text=str(undo)) for undo in undos]


def tell_buried(turn: Turn, reason: DeadLetterReason, events: Sequence[PendingEvent], **more: Any) -> None:
    """Events became dead letters. `more` are further fields of `EventsBuried`."""
    names = tuple(Counter(event.name for event in events).most_common())
    turn.effects.append(facts.EventsBuried(at_us=turn.now, reason=reason.value, events=names, **more))

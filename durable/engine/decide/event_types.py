"""Refusing an event that none of its waiters can read, as far as that can be seen when it is sent.

This is a courtesy to the sender: it gets an error at once. An event that gets past this check, and that its waiter
cannot read, becomes a dead letter (`dead_letters.bury_unreadable`).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from durable.engine.decide.turn import Turn
from durable.engine.operations import SendEvent
from durable.engine.state.crashes import mark_reading
from durable.engine.state.workflows import Loaded
from durable.errors import CodecError, EventTypeMismatch
from durable.model.records import EventWait, WorkflowRecord
from durable.runner.events import EventOp
from durable.runner.fibers import WaitCondition

# How many waiters may fail to read an untargeted event before it becomes a dead letter.
TRIES = 100


def check_type(turn: Turn, op: SendEvent, target: WorkflowRecord | None) -> None:
    """Raise `EventTypeMismatch` if every waiter that would get the event is in memory and cannot read it.

    The payload decides, not the names of the types: two types may look different and have the same JSON. If a waiter is
    not in memory, it may be able to read the event, so the event is accepted.
    """
    waits = turn.state.waits
    types = waits.awaited.get(op.name)
    if op.payload_type is None or types is None or op.payload_type in types:
        return
    rows: Iterable[EventWait] = waits.find_waiting_for_event(op.name, op.event_key)
    if op.to is not None:
        loaded = None if target is None else turn.state.loaded.get(target.key)
        rows = () if loaded is None else matching(loaded.rows.values(), op.name, op.event_key)
    problem: EventTypeMismatch | None = None
    for row in islice(rows, TRIES):
        owner = turn.state.loaded.get(row.workflow_key)
        wait = None if owner is None else owner.session.waits.get(row.position)
        misfit = None if owner is None or wait is None else _misfit(turn, op, owner, wait)
        if misfit is None:
            return
        problem = problem or misfit
    if problem is not None:
        raise problem


def _misfit(turn: Turn, op: SendEvent, owner: Loaded, wait: WaitCondition) -> EventTypeMismatch | None:
    """Why a wait cannot read an event; None if it can, or if its own type is the problem."""
    assert isinstance(wait.op, EventOp), "its row says that it waits for an event"
    event = wait.op.event
    try:
        coder = event.coder(turn.state.codec)
    except CodecError:
        return None
    mark_reading(turn.state.mark, owner.record.key, wait.position, op.payload)
    try:
        coder.unpack(op.payload)
    except CodecError as error:
        types = (_type_name(op.payload_type), _type_name(event.payload_type))
        return EventTypeMismatch(op.name, *types, owner.record.id, error.problem)
    return None


def _type_name(kind: Any) -> str:
    if not isinstance(kind, type):
        return repr(kind)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def matching(rows: Iterable[EventWait], name: str, event_key: str) -> list[EventWait]:
    """The waits that are for an event of this name and key, the longest first."""
    matches = [row for row in rows if row.name == name and row.event_key == event_key]
    if len(matches) > 1:
        matches.sort(key=lambda row: row.serial)
    return matches

"""Pure decisions that have grown long: the rest is done in the next batch, so that others are not held up.

A body may take thousands of pending events, start thousands of children or pass thousands of rounds without waiting.
What it has done so far is committed, and what it waits for next is looked at in the next batch. Nothing is lost by a
crash in between: the workflow stays RUNNING, so that a recovery loads it and looks at all of its waits. Nothing is
overtaken either: until then no event is given to these waits and no timer fires.
"""

from __future__ import annotations

from collections import deque

from durable.engine.mail_operations import CheckWaits
from durable.engine.messages import FireTimers, LookAgain
from durable.engine.operations import Follow
from durable.engine.progress import load, settle
from durable.engine.turn import Turn
from durable.records import EventWait, WorkflowStatus


def put_off(turn: Turn) -> None:
    """Leave all waits that are to be looked at to the next batches, and the timers of their workflows."""
    state = turn.state
    for look in turn.messages.take(LookAgain):
        put_off_one(turn, look.key, look.position)
    for woken in turn.messages.take(FireTimers):
        record = state.by_key(woken.key)
        if record is not None and record.wake_at is not None:
            state.timers.move(record.key, record.wake_at, record.wake_at)


def put_off_one(turn: Turn, key: int, position: str) -> None:
    """Leave a wait to the next batch."""
    state = turn.state
    if key not in state.put_off:
        state.put_off[key] = deque()
        turn.effects.append(Follow(CheckWaits(key)))
    state.put_off[key].append(position)
    record = state.by_key(key)
    if record is not None and record.status is WorkflowStatus.SUSPENDED:
        state.workflows.mark_resumed(record, record.wake_at)


def is_behind(turn: Turn, row: EventWait) -> bool:
    """Whether another has waited longer for the same event, and was put off: it is served first."""
    for key, positions in turn.state.put_off.items():
        loaded = turn.state.loaded.get(key)
        rows = [] if loaded is None else [loaded.rows.get(position) for position in positions]
        same = (row.name, row.event_key)
        if any(one and (one.name, one.event_key) == same and one.serial < row.serial for one in rows):
            return True
    return False


def decide_check_waits(turn: Turn, op: CheckWaits) -> None:
    """Look at the waits of a workflow that were put off."""
    take_up(turn, op.key)


def take_up(turn: Turn, key: int) -> None:
    """Have the waits of a workflow looked at that were put off, if any."""
    positions = turn.state.put_off.pop(key, None)
    if positions is None:
        return
    for position in positions:
        turn.messages.send(LookAgain(key, position))
    record = turn.state.by_key(key)
    if record is not None and not record.status.is_terminal and record.status is not WorkflowStatus.PARKED:
        loaded = load(turn, record)
        if loaded is not None:
            # It was marked as running, and may have nothing to do but wait.
            settle(turn, loaded)

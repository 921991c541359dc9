"""Splitting a long decision over several batches, so that one workflow does not block the others.

A body may take thousands of pending events, start thousands of children, or pass thousands of rounds without waiting.
After `max_steps_per_decision` steps the batch is committed as it is, and the waits that are still to be looked at are
*put off* to the next batch.

A crash in between loses nothing: the workflow stays RUNNING, so recovery loads it and looks at all of its waits. And
nothing is overtaken: until the next batch these waits get no event, and the workflow's timers do not fire.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from durable.engine.decide.body import load, settle
from durable.engine.decide.turn import Turn
from durable.engine.operations import CheckWaits, Follow
from durable.engine.operations.messages import AtWait, CancelSpawned, EventSent, FireTimers, LookAgain
from durable.model.records import EventWait, WorkflowStatus
from durable.model.timers import OF_WORKFLOW


def put_off(turn: Turn) -> None:
    """Put off everything that is still to be handled: waits to look at, then events that bodies send, then children
    that they cancel. Timers of their workflows are registered again, because they came due and did not fire."""
    state, messages = turn.state, turn.messages
    waiting: list[AtWait] = [*messages.take(LookAgain), *messages.take(EventSent), *messages.take(CancelSpawned)]
    for message in waiting:
        put_off_one(turn, message)
    for woken in messages.take(FireTimers):
        record = state.by_key(woken.key)
        if record is not None and record.wake_at is not None:
            state.timers.register_timer((record.wake_at, OF_WORKFLOW, record.key))


def put_off_one(turn: Turn, message: AtWait) -> None:
    """Put off one message about a wait. Its workflow becomes RUNNING and is continued in a later batch."""
    state, key = turn.state, message.key
    if key not in state.put_off:
        state.put_off[key] = deque()
        turn.effects.append(Follow(CheckWaits(key)))
    state.put_off[key].append(message)
    record = state.by_key(key)
    if record is not None and record.status is WorkflowStatus.SUSPENDED:
        state.workflows.mark_resumed(record, record.wake_at)


def is_behind(turn: Turn, row: EventWait) -> bool:
    """Whether an older wait for the same event was put off. That wait must be served first."""
    waiting = (other for key in turn.state.put_off for other in waits_put_off(turn, key))
    same = (row.name, row.event_key)
    return any((other.name, other.event_key) == same and other.serial < row.serial for other in waiting)


def is_put_off(turn: Turn, row: EventWait) -> bool:
    """Whether a wait for an event was put off."""
    return any(message.position == row.position for message in turn.state.put_off.get(row.workflow_key, ()))


def waits_put_off(turn: Turn, key: int) -> Iterator[EventWait]:
    """The rows of a workflow's waits that were put off. None are found for a body that is not in memory."""
    loaded = turn.state.loaded.get(key)
    if loaded is not None:
        rows = (loaded.rows.get(message.position) for message in turn.state.put_off.get(key, ()))
        yield from filter(None, rows)


def decide_check_waits(turn: Turn, op: CheckWaits) -> None:
    """Look at the waits of a workflow that were put off."""
    take_up(turn, op.key)


def take_up(turn: Turn, key: int) -> None:
    """Send the messages of a workflow that were put off, if any, so that they are handled in this decision."""
    messages = turn.state.put_off.pop(key, None)
    if messages is None:
        return
    for message in messages:
        turn.messages.send(message)
    record = turn.state.by_key(key)
    if record is not None and not record.status.is_terminal and record.status is not WorkflowStatus.PARKED:
        loaded = load(turn, record)
        if loaded is not None:
            # It was marked RUNNING, and may have nothing left to do but wait.
            settle(turn, loaded)

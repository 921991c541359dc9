"""A workflow is woken: by a deadline, to be loaded and continued, or to look at waits that were put off.

What is pending is taken before a deadline counts: a wait first takes an event that it may take, and only then its limit
ends it. So a workflow that is loaded long after its deadline behaves as if it had been in memory all along.

**Long decisions** are split over several batches, so that one workflow does not block the others. A body may take
thousands of pending events, start thousands of children, or pass thousands of rounds without waiting. After
`max_steps_per_decision` steps the batch is committed as it is, and the waits that are still to be looked at are *put
off* to the next batch. A crash in between loses nothing: the workflow stays RUNNING, so recovery loads it and looks at
all of its waits. And nothing is overtaken: until the next batch these waits get no event, and the workflow's timers do
not fire.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from durable.engine.decide.body import feed, load, settle
from durable.engine.decide.turn import Turn
from durable.engine.decide.waits import hold_up
from durable.engine.operations import CheckWaits, Follow, ResumeWorkflow, WakeWorkflow
from durable.engine.operations.messages import AtWait, CancelSpawned, EventSent, FireTimers, LookAgain
from durable.engine.state.workflows import Loaded
from durable.model.records import EntryStatus, EventWait, ParkReason, WorkflowStatus
from durable.model.timers import OF_WORKFLOW
from durable.runner.fibers import WaitCondition

# Bound once: on Python 3.11 an attribute of an enum costs as much as a call.
_OK = EntryStatus.OK


# --- deadlines --------------------------------------------------------------------------------------------------------


def active_body(turn: Turn, key: int) -> Loaded | None:
    """The live body of a workflow, rebuilt if it was evicted; None if the workflow has ended, is parked, or is gone."""
    record = turn.state.get_active(key)
    return None if record is None else load(turn, record)


def decide_wake_workflow(turn: Turn, op: WakeWorkflow) -> None:
    """A deadline has passed. If the body has waits to look at, they first take what is pending; then timers fire."""
    if active_body(turn, op.key) is None:
        return
    take_up(turn, op.key)
    if turn.messages.has(LookAgain):
        turn.messages.send(FireTimers(op.key))
    else:
        fire_due(turn, op.key)


def fire_due(turn: Turn, key: int) -> None:
    """Fire the timers that are due, end the pauses that have expired, and begin the attempts that are due.

    The due waits are read from the body, not from the timer. So a timer whose wait is over fires nothing.
    """
    loaded = active_body(turn, key)
    if loaded is None:
        return
    if turn.state.shard.count > 1:
        until = hold_up(turn, loaded)
        settle(turn, loaded, until)
        if until is not None:
            return
    for wait in loaded.session.due(turn.now):
        if loaded.session.waits.get(wait.position) is not wait:
            continue
        act = turn.kinds[wait.kind].due
        assert act is not None, "a kind with deadlines says what becomes of them"
        act(turn, loaded, wait)
    # The timer was taken out of the window when it came due. Register the next one, even for the same instant.
    record = turn.state.by_key(key)
    if record is not None and record.wake_at is not None:
        turn.state.timers.register_timer((record.wake_at, OF_WORKFLOW, key))


def fire_timer(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """A `sleep` is over: feed its end to the body."""
    feed(turn, loaded, wait, _OK, "null")


def decide_resume_workflow(turn: Turn, op: ResumeWorkflow) -> None:
    """Load a workflow and let it continue. This unparks a workflow whose code or data fits again."""
    turn.state.trials.rebuilt(op.key)
    record = turn.state.by_key(op.key)
    if record is not None and not record.status.is_terminal and record.park_reason is not ParkReason.CRASHED:
        load(turn, record)


# --- waits that are put off -------------------------------------------------------------------------------------------


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

"""A workflow's deadline has passed, or the workflow must be loaded and continued.

What is pending is taken before a deadline counts: a wait first takes an event that it may take, and only then its limit
ends it. So a workflow that is loaded long after its deadline behaves as if it had been in memory all along.
"""

from __future__ import annotations

from durable.engine.decide.body import feed, load, settle
from durable.engine.decide.guests import hold_up
from durable.engine.decide.long_decisions import take_up
from durable.engine.decide.turn import Turn
from durable.engine.operations import (
    ResumeWorkflow,
    WakeWorkflow,
)
from durable.engine.operations.messages import FireTimers, LookAgain
from durable.engine.state.workflows import Loaded
from durable.model.records import (
    EntryStatus,
    ParkReason,
)
from durable.model.timers import OF_WORKFLOW
from durable.runner.fibers import WaitCondition

# Bound once: on Python 3.11 an attribute of an enum costs as much as a call.
_OK = EntryStatus.OK


def _reload(turn: Turn, key: int) -> Loaded | None:
    """The live body of a workflow, rebuilt if it was evicted; None if the workflow has ended, is parked, or is gone."""
    record = turn.state.get_active(key)
    return None if record is None else load(turn, record)


def decide_wake_workflow(turn: Turn, op: WakeWorkflow) -> None:
    """A deadline has passed. If the body has waits to look at, they first take what is pending; then timers fire."""
    if _reload(turn, op.key) is None:
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
    loaded = _reload(turn, key)
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

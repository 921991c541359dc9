"""An attempt of an activity has ended: its result goes to the body, or the next attempt is planned."""

from __future__ import annotations

from durable.engine.decide.body import feed, feed_retry
from durable.engine.decide.timers import _reload
from durable.engine.decide.turn import Turn
from durable.engine.operations import (
    RecordActivity,
    log_lines,
)
from durable.model.clock import LATEST
from durable.model.records import (
    EntryStatus,
)
from durable.model.retry import is_permanent, next_delay

# Bound once: on Python 3.11 an attribute of an enum costs as much as a call.
_OK = EntryStatus.OK


def decide_record_activity(turn: Turn, op: RecordActivity) -> None:
    """An attempt has ended: record it, unless the workflow no longer waits for that attempt.

    In the meantime the workflow may have been cancelled, moved past this position, continued as another round, or
    ended. Then the answer is late, and late answers change nothing.
    """
    state = turn.state
    key, position = op.key, op.position
    flights = state.in_flight.get(key)
    if flights is None or flights.get(position) != (op.round, op.attempt):
        return
    loaded = state.touch(key) or _reload(turn, key)
    if loaded is not None and op.mends not in (None, loaded.session.past.mends):
        # An attempt with the same number that began before an operator retried or repaired the workflow.
        return
    # Not earlier: loading the workflow would dispatch the activity again if it were not in flight.
    flights.pop(position, None)
    if key in state.trials.on_trial and not flights:
        # All its activities have ended, and the process is still alive.
        state.trials.acquit(key)
    wait = loaded.session.waits.get(position) if loaded is not None else None
    if loaded is None or wait is None or wait.attempt != op.attempt:
        return
    if op.error is None:
        feed(turn, loaded, wait, _OK, op.outcome, value=op.value)
        return
    policy = wait.op.definition.retry  # type: ignore[attr-defined]  # only activities are in flight
    where = f"{loaded.record.id}/{op.position}"
    delay = None if is_permanent(op.error) else next_delay(policy, op.error, op.attempt, where)
    if delay is not None and turn.now + delay > LATEST:
        delay = None
    line = log_lines.attempt_failed(
        loaded.record, wait.name, op.outcome, position=position, attempt=op.attempt, delay=delay
    )
    turn.effects.append(line)
    if delay is None:
        feed(turn, loaded, wait, EntryStatus.ERROR, op.outcome)
    else:
        feed_retry(turn, loaded, wait, op.outcome, delay)

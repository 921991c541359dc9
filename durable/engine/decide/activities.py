"""An activity: its attempts are handed out, and end with a result, with another attempt, or because they are stopped.

An attempt leaves as an effect (`RunActivity`) after the commit, and comes back as an operation (`RecordActivity`). In
between it is *in flight* (`State.in_flight`), which is in memory only: a body that is rebuilt does not begin it twice,
and the next engine begins it again.
"""

from __future__ import annotations

from durable.engine.decide.body import feed, new_tuple, settle
from durable.engine.decide.timers import active_body
from durable.engine.decide.turn import Turn
from durable.engine.operations import BeginAttempt, RecordActivity, RunActivity, StopActivity, log_lines
from durable.engine.state.workflows import FIRST_FLIGHT, Loaded
from durable.model.clock import LATEST
from durable.model.records import EntryStatus, HistoryEntry
from durable.model.retry import is_permanent, next_delay
from durable.runner.definitions import ActivityCall
from durable.runner.fibers import WaitCondition

# Bound once: on Python 3.11 an attribute of an enum costs as much as a call.
_OK = EntryStatus.OK


def feed_retry(turn: Turn, loaded: Loaded, wait: WaitCondition, outcome: str, delay: int) -> None:
    """Record a failed attempt and when the next one is due. The body does not take a step."""
    at = max(turn.now, loaded.session.now)
    retry_at = turn.now + delay
    entry = HistoryEntry(loaded.seq + 1, wait.position, wait.kind, wait.name, EntryStatus.RETRY, outcome, at, retry_at)
    loaded.session.feed(entry)
    loaded.seq = entry.seq
    turn.state.chronicle.append(loaded.record.key, entry)
    dispatch(turn, loaded, wait)
    settle(turn, loaded)


def dispatch(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """Start an activity after the commit, unless it is in flight already or its next attempt is not due."""
    if wait.retry_at is not None:
        if wait.retry_at > turn.now:
            return
        # The attempt begins, so it needs no timer. Otherwise every step would search the timed waits of all activities
        # in flight.
        loaded.session.waits.timed.pop(wait.position, None)
    record = loaded.record
    flights = turn.state.in_flight.get(record.key)
    if flights is None:
        flights = turn.state.in_flight[record.key] = {}
    elif wait.position in flights:
        return
    op = wait.op
    assert isinstance(op, ActivityCall)
    key, id, round, position, attempt = record.key, record.id, record.round, wait.position, wait.attempt
    flights[position] = FIRST_FLIGHT if attempt == 1 and round == 0 else (round, attempt)
    mends = loaded.session.past.mends
    trials, on_trial = turn.state.trials, False
    if trials.waiting or trials.on_trial:
        if key in trials.waiting:
            # Its activities begin now, whatever woke it before its turn. So its trial begins as well.
            trials.admit(key)
        on_trial = key in trials.on_trial
    run = (key, id, round, position, attempt, op.definition, wait.args, wait.kwargs, mends, on_trial, record.name)
    turn.effects.append(new_tuple(RunActivity, run))


def begin_attempt(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """The next attempt of an activity is due."""
    dispatch(turn, loaded, wait)
    settle(turn, loaded)


# --- a wait that is over --------------------------------------------------------------------------------------------


def stop_activity(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """The body no longer waits for an activity: cancel it where it runs."""
    key = loaded.record.key
    flight = turn.state.in_flight.get(key, {}).pop(wait.position, None)
    if flight is not None:
        turn.effects.append(StopActivity(key, flight[0], wait.position))


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
    loaded = state.touch(key) or active_body(turn, key)
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


# --- while suspects run -------------------------------------------------------------------------------------------


def decide_begin_attempt(turn: Turn, op: BeginAttempt) -> None:
    """An activity of a suspect has begun: its trial ends a moment from now."""
    turn.state.trials.begin(op.key, turn.now)

"""Planted bugs: activities, attempts, late results, replay and timers."""

from __future__ import annotations

import itertools
import random as _random
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import attrs

from durable.engine.coordinator.coordinator import Release, WorkflowStateCoordinator
from durable.engine.coordinator.decisions import WAIT_KINDS
from durable.engine.decide import activities, body
from durable.engine.decide.turn import Turn
from durable.engine.operations import Effect, RecordActivity, RunActivity, StopActivity
from durable.engine.state.timers import TimerWindow
from durable.engine.state.workflows import Loaded, Workflows
from durable.model import retry
from durable.model.clock import SECOND
from durable.model.records import EntryKind, EntryStatus, HistoryEntry, WorkflowRecord
from durable.model.retry import Retry
from durable.model.timers import Timer
from durable.runner import determinism
from durable.runner.ambient import ambient
from durable.runner.fibers import WaitCondition
from durable.runner.results import SessionResult
from durable.runner.session import WorkflowSessionRunner
from tests.planted.planting import Planter, bug

# --- the start of a round -------------------------------------------------------------------------------------------


@bug("engine", seed=1)
def beginning_moved(planter: Planter) -> None:
    """The start time of a round does not change while the round runs."""
    put = Workflows._put

    def _put(self: Workflows, record: WorkflowRecord, before: WorkflowRecord) -> WorkflowRecord:
        return put(self, attrs.evolve(record, start_at=before.start_at + (record.wake_at is not None)), before)

    planter.replace(Workflows, _put)


# --- results --------------------------------------------------------------------------------------------------------


@bug("I12", seed=32)
def attempt_number_forgotten(planter: Planter) -> None:
    """A late result of an earlier attempt or round changes nothing."""
    record = activities.decide_record_activity

    def decide_record_activity(turn: Turn, op: RecordActivity) -> None:
        flight = turn.state.in_flight.get(op.key, {}).get(op.position)
        if flight is not None:
            op.round, op.attempt = flight
            record(turn, op)

    planter.replace(activities, decide_record_activity)


@bug("I8", "I25", "I12", seed=2)
def answer_recorded_twice(planter: Planter) -> None:
    """A result that arrives twice is recorded once."""
    record = activities.decide_record_activity

    def decide_record_activity(turn: Turn, op: RecordActivity) -> None:
        loaded = turn.state.loaded.get(op.key)
        is_over = loaded is not None and op.position not in loaded.session.waits
        if loaded is None or not is_over or op.error is not None:
            record(turn, op)
            return
        loaded.seq += 1
        entry = HistoryEntry(
            loaded.seq, op.position, EntryKind.ACTIVITY, "again", EntryStatus.OK, op.outcome, loaded.session.now
        )
        turn.state.batch.history.add(op.key, entry)

    planter.replace(activities, decide_record_activity)


@bug("I22", "I29", seed=22)
def answer_to_an_absent_body_dropped(planter: Planter) -> None:
    """A result counts whether or not its workflow is in memory."""
    record = activities.decide_record_activity

    def decide_record_activity(turn: Turn, op: RecordActivity) -> None:
        if op.key in turn.state.loaded:
            record(turn, op)
        else:
            turn.state.in_flight.get(op.key, {}).pop(op.position, None)

    planter.replace(activities, decide_record_activity)


# --- attempts -------------------------------------------------------------------------------------------------------


@bug("I11")
def retries_counted_in_memory(planter: Planter) -> None:
    """A failed attempt is recorded before the next one begins."""

    def feed_retry(turn: Turn, loaded: Loaded, wait: WaitCondition, outcome: str, delay: int) -> None:
        wait.attempt += 1
        wait.retry_at = turn.now + delay
        loaded.session.waits.timed[wait.position] = wait
        activities.dispatch(turn, loaded, wait)
        body.settle(turn, loaded)

    planter.replace(activities, feed_retry)


@bug("I11")
def retried_before_its_time(planter: Planter) -> None:
    """The next attempt begins after its delay."""
    run = activities.dispatch

    def dispatch(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
        retry_at, wait.retry_at = wait.retry_at, None
        run(turn, loaded, wait)
        wait.retry_at = retry_at

    planter.replace(activities, dispatch)


@bug("I11", seed=1)
def one_attempt_too_many(planter: Planter) -> None:
    """There are no more attempts than the policy allows."""
    delay_of = retry.next_delay

    def next_delay(policy: Retry, error: BaseException, attempt: int, place: str) -> int | None:
        most = policy.max_attempts
        return delay_of(policy if most is None else attrs.evolve(policy, max_attempts=most + 1), error, attempt, place)

    planter.replace(retry, next_delay)


@bug("I5", seed=2)
def one_attempt_too_few(planter: Planter) -> None:
    """There are as many attempts as the policy allows."""
    delay_of = retry.next_delay

    def next_delay(policy: Retry, error: BaseException, attempt: int, place: str) -> int | None:
        return delay_of(policy, error, attempt + 1, place)

    planter.replace(retry, next_delay)


@bug("I9", "I10", "I11", seed=22)
def run_again_while_it_runs(planter: Planter) -> None:
    """An activity that is running is not started again."""
    run = activities.dispatch

    def dispatch(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
        turn.state.in_flight.get(loaded.record.key, {}).pop(wait.position, None)
        run(turn, loaded, wait)

    planter.replace(activities, dispatch)


@bug("I9", seed=2)
def recorded_activity_run_again(planter: Planter) -> None:
    """An activity with a recorded result does not run again, even when its workflow is rebuilt."""
    replay_all = WorkflowSessionRunner.replay

    def replay(self: WorkflowSessionRunner, entries: Iterable[HistoryEntry]) -> SessionResult:
        recorded = list(entries)
        is_done = bool(recorded) and recorded[-1].kind is EntryKind.ACTIVITY and recorded[-1].status is EntryStatus.OK
        return replay_all(self, recorded[:-1] if is_done else recorded)

    planter.replace(WorkflowSessionRunner, replay)


@bug("I6", "I21", seed=30)
def loser_goes_on(planter: Planter) -> None:
    """An activity that nobody waits for any longer is stopped and forgotten."""
    planter.change_row(WAIT_KINDS, EntryKind.ACTIVITY, withdrawn=None)


@bug("I6")
def stop_never_sent(planter: Planter) -> None:
    """An activity that its workflow no longer waits for is told to stop."""
    apply = WorkflowStateCoordinator._apply

    def _apply(self: WorkflowStateCoordinator, effects: list[Effect], release: Release) -> None:
        apply(self, [effect for effect in effects if not isinstance(effect, StopActivity)], release)

    planter.replace(WorkflowStateCoordinator, _apply)


@bug("I22", "I29", seed=1)
def run_never_sent(planter: Planter) -> None:
    """Every decided attempt runs. Here the attempts of rebuilt bodies do not."""
    rebuild = body.load

    def load(turn: Turn, record: Any) -> Loaded | None:
        is_there = record.key in turn.state.loaded
        before = len(turn.effects)
        loaded = rebuild(turn, record)
        if not is_there:
            kept = [effect for effect in turn.effects[before:] if not isinstance(effect, RunActivity)]
            turn.effects[before:] = kept
        return loaded

    planter.replace(body, load)


# --- replay ---------------------------------------------------------------------------------------------------------


@bug("I11", "I22", seed=1)
def replay_forgets_retries(planter: Planter) -> None:
    """A rebuilt body knows how often its activities have failed."""
    replay_all = WorkflowSessionRunner.replay

    def replay(self: WorkflowSessionRunner, entries: Iterable[HistoryEntry]) -> SessionResult:
        return replay_all(self, [entry for entry in entries if entry.status is not EntryStatus.RETRY])

    planter.replace(WorkflowSessionRunner, replay)


@bug("I25", "I11", seed=1)
def replay_in_another_order(planter: Planter) -> None:
    """A replay feeds entries in their recorded order, so races have the same winner."""
    replay_all = WorkflowSessionRunner.replay

    def replay(self: WorkflowSessionRunner, entries: Iterable[HistoryEntry]) -> SessionResult:
        in_order = list(entries)
        if len(in_order) > 1 and {entry.position[:1] for entry in in_order[-2:]} == {in_order[-1].position[:1]}:
            in_order[-2:] = reversed(in_order[-2:])
        return replay_all(self, in_order)

    planter.replace(WorkflowSessionRunner, replay)


@bug("I5", "I24", seed=2)
def uuid_differs_on_replay(planter: Planter) -> None:
    """`uuid()` returns the same value on every replay."""
    count = itertools.count()

    def draw(kind: str, name: str) -> tuple[str, ...]:
        return (ambient(kind).who.id, kind, name, str(next(count)))

    planter.replace(determinism, draw)


@bug("I5", "I24", seed=2)
def random_differs_on_replay(planter: Planter) -> None:
    """`random()` returns the same values on every replay."""
    source = _random.Random(1)

    def random(name: str = "") -> _random.Random:
        return _random.Random(source.getrandbits(64))

    planter.replace(determinism, random)


@bug("I5", "I24")
def now_differs_on_replay(planter: Planter) -> None:
    """`now()` is the recorded time, and the same on every replay."""
    recorded = determinism.now
    count = itertools.count()

    def now() -> datetime:
        return recorded() + timedelta(microseconds=next(count))

    planter.replace(determinism, now)


# --- time -----------------------------------------------------------------------------------------------------------


@bug("I19", seed=21)
def time_runs_back(planter: Planter) -> None:
    """The time of a workflow never goes back, though the wall clock may."""

    def feed(turn: Turn, loaded: Loaded, wait: WaitCondition, status: EntryStatus, outcome: str, **value: Any) -> bool:
        entry = HistoryEntry(loaded.seq + 1, wait.position, wait.kind, wait.name, status, outcome, turn.now)
        return body._feed(turn, loaded, entry, value.get("value", body._UNREAD))

    planter.replace(body, feed)


@bug("I5", "I19")
def timer_fires_early(planter: Planter) -> None:
    """A timer fires at its deadline or later."""
    due_at, pop_at = WorkflowSessionRunner.due, TimerWindow.pop_due

    def due(self: WorkflowSessionRunner, now: int) -> list[WaitCondition]:
        return due_at(self, now + SECOND)

    def pop_due(self: TimerWindow, now: int, limit: int) -> list[Timer]:
        return pop_at(self, now + SECOND, limit)

    planter.replace(WorkflowSessionRunner, due)
    planter.replace(TimerWindow, pop_due)


@bug("I5", seed=5)
def old_timer_fires_the_next_wait(planter: Planter) -> None:
    """The timer of a finished wait fires nothing."""

    def due(self: WorkflowSessionRunner, now: int) -> list[WaitCondition]:
        return list(self.waits.timed.values())

    planter.replace(WorkflowSessionRunner, due)


@bug("I22", "I29", seed=1)
def second_timer_forgotten(planter: Planter) -> None:
    """A workflow with several timers wakes up for each of them."""
    wake_at_first = WorkflowSessionRunner.wake_at

    def wake_at(self: WorkflowSessionRunner, in_flight: Any = ()) -> int | None:
        return wake_at_first(self, in_flight) if len(self.waits.timed) == 1 else None

    planter.replace(WorkflowSessionRunner, wake_at)

"""Invariants of an engine that has nothing to do: at idle moments, before every stop, and at the end of the world."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from durable.backends.memory import MemoryStore
from durable.engine.state.state import State
from durable.model.records import EntryKind, WorkflowStatus
from simulation.codeless import check_healed
from simulation.ledger import REGISTERED, Ledger, Life
from simulation.process import Process
from simulation.scenario import Act, Verb
from simulation.violation import Violation

T = TypeVar("T")


def check_idle(ledger: Ledger, process: Process) -> None:
    """I22: every workflow has ended, is parked, has an activity running, or durably waits. No other state exists."""
    trials = process.coordinator.state.trials
    if trials.waiting:
        return
    running = {key for key, _, _ in process.running}
    shard = process.coordinator.state.shard
    for key, life in ledger.lives.items():
        record = life.record
        if not shard.owns_key(key):
            continue
        if ledger.has_code:
            check_healed(record)
        if record.status is WorkflowStatus.RUNNING and key not in running and record.wake_at is None:
            raise Violation("I22", f"{record.id} is RUNNING, and none of its activities runs")


def check_memory(state: State, store: MemoryStore) -> None:
    """I6: the engine's memory agrees with the store."""
    if not state.batch.is_empty():
        raise Violation("I6", "a batch is over, and decisions of it are not committed")
    for key, loaded in state.loaded.items():
        record, session = loaded.record, loaded.session
        rows = store.waits.get(key, {})
        waits = {position for position, wait in session.waits.items() if wait.kind in REGISTERED}
        work = {position for position, wait in session.waits.items() if wait.kind is EntryKind.ACTIVITY}
        flights = state.in_flight.get(key, {})
        facts = {
            "record": record == store.workflows.get(key),
            "history": loaded.seq == max(store.history.get(key, {}), default=0),
            "waits": loaded.rows == rows and waits == {key for key, row in rows.items() if row.kind in REGISTERED},
            "mailbox": loaded.mail in (None, len(store.boxes.get(key, ()))),
            "activities": set(flights) <= work and all(flight[0] == record.round for flight in flights.values()),
        }
        for fact, is_true in facts.items():
            if not is_true:
                raise Violation("I6", f"{record.id}: {fact} in memory and in the store differ")


def check_rest(ledger: Ledger, stores: tuple[MemoryStore, ...]) -> None:
    """I29: when nothing is left to happen, every workflow has ended or waits for something from outside."""
    if {key: life.record for key, life in ledger.lives.items()} != _all(store.workflows for store in stores):
        raise Violation("I1", "the store does not hold what was committed")
    if ledger.progress != _all(store.progress for store in stores):
        raise Violation("I1", "the store does not hold what was published")
    for key, life in ledger.lives.items():
        check_healed(life.record)
        if (
            stores[0].home_of_key(key).history.get(key, {}).keys()
            != {*range(1, life.seq + 1)} - life.trimmed - life.absent
        ):
            raise Violation("I3", f"the store does not hold the recorded history of {life.record.id}")
        if not life.has_ended and not _waits_outside(ledger, life):
            raise Violation("I29", f"{life.record.id} has not ended and waits for nothing: {life.record}")


def _all(parts: Iterable[Mapping[int, T]]) -> dict[int, T]:
    """The rows of all shards in one table."""
    return {key: row for part in parts for key, row in part.items()}


def check_calls(ledger: Ledger, calls: Iterable[Act | None]) -> None:
    """I29: every call was answered, except those that wait for the end of a workflow that has not ended."""
    for act in calls:
        life = ledger.life(act.id) if act is not None and act.verb in (Verb.AWAIT, Verb.WATCH) else None
        if act is not None and (life is None or life.has_ended):
            raise Violation("I29", f"{act.verb.value} of {act.id} was never answered: {act}")


def _waits_outside(ledger: Ledger, life: Life) -> bool:
    """Whether a workflow waits for an event or an answer, is parked, or waits for a child of which that is true."""
    # A question that can expire has expired: all time has passed.
    is_waiting = any(
        wait.asks is None
        and wait.kind is not EntryKind.RESULT
        and (wait.question is None or wait.question.expires_at is None)
        for wait in life.waits.values()
    )
    if life.record.status is WorkflowStatus.PARKED or is_waiting:
        return True
    children = [ledger.lives[key] for (parent, _), key in ledger.children.items() if parent == life.record.key]
    asked = {wait.event_key for wait in life.waits.values()}
    awaited = [child for child in children if child.record.on_parent_close is None or asked & _names(child)]
    return any(not child.has_ended and _waits_outside(ledger, child) for child in awaited)


def _names(child: Life) -> set[str]:
    """The names under which parents wait for the end of a child, in its own shard and in others."""
    return {str(child.record.key), f"@{child.record.id}"}

"""An unreadable row affects its own workflow only."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from durable import (
    CodecError,
    Delivered,
    Durable,
    OnParentClose,
    ParkReason,
    WorkflowAlreadyExists,
    WorkflowStatus,
    spawn,
    workflow,
)
from durable.backends.memory import MemoryBackend, MemoryStore
from durable.engine import operations as ops
from durable.engine.config import EngineConfig
from durable.engine.operations import ResumeWorkflow, StopActivity, TerminateWorkflow
from durable.errors import InvariantViolated, StorageUnavailable
from durable.model.records import HistoryEntry, WorkflowRecord
from durable.testing.faults import FaultyBackend
from tests.engine.direct import DirectEngine, call_of, event_of, refusal
from tests.engine.flows import EVERY, go, parent_of_waiter, racer, sleeper, waiter, worker


class Damaged(MemoryBackend):
    """A store with one unreadable row."""

    bad_id = ""

    def workflow(self, id: str) -> WorkflowRecord | None:
        return self._read(super().workflow(id))

    def workflow_by_key(self, key: int) -> WorkflowRecord | None:
        return self._read(super().workflow_by_key(key))

    def _read(self, record: WorkflowRecord | None) -> WorkflowRecord | None:
        if record is not None and record.id == self.bad_id:
            raise CodecError(f"workflow id {record.id!r}", "it is damaged")
        return record


@workflow(name="damaged-rows.spawner")
def spawner() -> Durable[int]:
    """Spawns a child that ends with it, and waits for its result."""
    handle = yield from spawn(waiter(), on_parent_close=OnParentClose.CANCEL)
    return (yield from handle.result())


def _engine(backend: MemoryBackend) -> DirectEngine:
    return DirectEngine(*EVERY, make=lambda: backend, checks=False)


def _damage(engine: DirectEngine, backend: Damaged, id: str) -> None:
    """Damage a row, and unload everything that memory holds of it."""
    engine.restart(*EVERY, recover=False)
    backend.bad_id = id


def test_event_skips_a_damaged_waiter() -> None:
    """If the row of the longest waiter is damaged, an untargeted event goes to the next one."""
    backend = Damaged()
    engine = _engine(backend)
    engine.start(waiter(), "bad")
    engine.start(waiter(), "good")
    _damage(engine, backend, "bad")
    assert engine.send(go, 5) == Delivered(("good",))
    assert engine.result("good") == 5


def test_parent_of_a_damaged_child_is_parked() -> None:
    """A parent whose child is unreadable is parked for that reason, and continues once the row is repaired."""
    backend = Damaged()
    engine = _engine(backend)
    engine.start(parent_of_waiter())
    _damage(engine, backend, "w/0")
    engine.do(ops.ResumeWorkflow(engine.record().key))
    assert engine.record().park_reason is ParkReason.UNREADABLE
    assert "w/0" in (engine.record().park_detail or "")
    backend.bad_id = ""
    engine.restart(*EVERY)
    engine.send(go, 7, to="w/0")
    assert engine.status() is WorkflowStatus.SUCCEEDED


@pytest.mark.parametrize("end", [ops.CancelWorkflow("w"), ops.TerminateWorkflow("w")])
def test_parent_ends_although_its_child_is_damaged(end: ops.Operation[bool]) -> None:
    """An unreadable child is not cancelled, but its parent still ends."""
    backend = Damaged()
    engine = _engine(backend)
    engine.start(parent_of_waiter())
    engine.state.unload(2)
    backend.bad_id = "w/0"
    assert engine.do(end) is True
    assert engine.status() is WorkflowStatus.CANCELLED


def test_purge_keeps_the_child_of_a_damaged_parent() -> None:
    """A purge skips the child of an unreadable parent, and deletes the other workflows."""
    backend = Damaged()
    engine = _engine(backend)
    engine.start(parent_of_waiter())
    engine.start(waiter(), "other")
    _damage(engine, backend, "w")
    for id in ("w/0", "other"):
        engine.send(go, 1, to=id)
    assert engine.do(ops.PurgeWorkflows(engine.clock.now() + 1)) == 1
    assert engine.status("w/0") is WorkflowStatus.SUCCEEDED
    assert backend.workflow("other") is None


def _spoil_place(store: MemoryStore) -> None:
    (child,) = (record for record in store.workflows.values() if record.id == "w/0")
    store.workflows[child.key] = attrs.evolve(child, parent_place="nowhere:0")


def _spoil_answer(store: MemoryStore) -> None:
    store.sent["first"] = attrs.evolve(store.sent["first"], reply='["w/0"')


@pytest.mark.parametrize("damage", [_spoil_place, _spoil_answer])
def test_damaged_place_or_answer_stops_nobody(damage: Callable[[MemoryStore], None]) -> None:
    """A damaged place in the parent is ignored, and a damaged answer to an event id is refused."""
    store = MemoryStore()
    engine = DirectEngine(*EVERY, make=lambda: MemoryBackend(store), checks=False)
    engine.start(parent_of_waiter())
    engine.send(go, 1, key="k", event_id="first", to="w/0")
    engine.restart(*EVERY, recover=False)
    damage(store)
    (reply,) = engine.batch(event_of(go, 1, key="k", event_id="first", to="w/0"))
    if damage is _spoil_answer:
        assert refusal(reply)[0] is CodecError
    engine.send(go, 7, to="w/0")
    assert engine.status("w/0") is WorkflowStatus.SUCCEEDED


@pytest.mark.parametrize("ends", [ops.CancelWorkflow("w"), None])
def test_parent_of_a_damaged_spawned_child(ends: ops.Operation[bool] | None) -> None:
    """A workflow that waits for an unreadable spawned child is parked until it is readable, or ends without it."""
    backend = Damaged()
    engine = DirectEngine(*EVERY, spawner, make=lambda: backend, checks=False)
    engine.start(spawner())
    engine.restart(*EVERY, spawner, recover=False)
    backend.bad_id = "w/0"
    engine.do(ops.ResumeWorkflow(engine.record().key))
    assert engine.record().park_reason is ParkReason.UNREADABLE
    assert "w/0" in (engine.record().park_detail or "")
    if ends is not None:
        assert engine.do(ends) is True
        return
    backend.bad_id = ""
    engine.restart(*EVERY, spawner)
    engine.send(go, 7, to="w/0")
    assert engine.result() == 7


def test_start_under_the_id_of_damaged_arguments() -> None:
    """A start finds its workflow even if the stored arguments are damaged. A different call is refused."""
    store = MemoryStore()
    engine = DirectEngine(*EVERY, make=lambda: MemoryBackend(store), checks=False)
    key = engine.start(sleeper(60)).key
    engine.restart(*EVERY, recover=False)
    store.workflows[key] = attrs.evolve(store.workflows[key], input="{")
    assert engine.start(sleeper(60)).key == key
    (reply,) = engine.batch(call_of(sleeper(61), "w"))
    assert refusal(reply)[0] is WorkflowAlreadyExists


def test_answer_to_a_body_that_cannot_be_rebuilt() -> None:
    """The result of an activity of a workflow with a damaged row parks the workflow, and is not recorded."""
    store = MemoryStore()
    config = EngineConfig(max_loaded_workflows=1)
    engine = DirectEngine(*EVERY, make=lambda: MemoryBackend(store), config=config)
    engine.start(worker())
    engine.start(sleeper(), "elsewhere")
    record = engine.record()
    store.workflows[record.key] = attrs.evolve(record, input="{")
    engine.finish(engine.activities[0], 1)
    assert engine.record().park_reason is ParkReason.UNREADABLE
    assert engine.history() == []
    assert [type(effect) for effect in engine.effects][-1] is StopActivity


class Broken(FaultyBackend):
    """A store whose history hits a broken invariant of ours."""

    def history(self, key: int) -> list[HistoryEntry]:
        raise InvariantViolated("a bug")


def test_bug_of_ours_while_a_body_is_rebuilt() -> None:
    """A broken invariant is raised, not treated as one workflow's bad data."""
    store = MemoryStore()
    engine = DirectEngine(*EVERY, make=lambda: MemoryBackend(store))
    engine.start(sleeper())
    engine.make = lambda: Broken(MemoryBackend(store))
    engine.checks = False
    engine.restart(*EVERY, recover=False)
    with pytest.raises(InvariantViolated):
        engine.do(ResumeWorkflow(engine.record().key))


def test_ended_workflow_cannot_change() -> None:
    """Changing an ended record is a bug of ours, and raises."""
    engine = DirectEngine(*EVERY)
    engine.start(sleeper())
    engine.do(TerminateWorkflow("w"))
    ended = engine.record()
    with pytest.raises(InvariantViolated):
        engine.state.workflows.count_crashes(ended, 1)


def test_failed_read_does_not_park() -> None:
    """A read that fails while a workflow is loaded stops the engine. It does not park a healthy workflow."""
    store = MemoryStore()
    faulty = FaultyBackend(MemoryBackend(store))
    engine = DirectEngine(*EVERY, make=lambda: faulty, checks=False)
    engine.start(worker())
    engine.restart(*EVERY, recover=False)
    key = engine.record().key
    faulty.fail_calls = {faulty.calls + 2}
    with pytest.raises(StorageUnavailable):
        engine.do(ops.ResumeWorkflow(key))


def test_unreadable_child_error_parks_the_parent() -> None:
    """A child whose stored error is unreadable parks its parent, which would otherwise hang without a reason."""
    store = MemoryStore()
    engine = DirectEngine(*EVERY, make=lambda: MemoryBackend(store), checks=False)
    engine.start(racer())
    engine.start(waiter(), "z")
    child = engine.record("w/0.child.0")
    spoilt = attrs.evolve(child, status=WorkflowStatus.FAILED, error="{", finished_at=1)
    store.workflows[child.key] = spoilt
    engine.restart(*EVERY)
    engine.batch(ops.ResumeWorkflow(engine.record().key))
    assert engine.status() is WorkflowStatus.PARKED


def test_child_ends_although_its_parents_row_is_damaged() -> None:
    """An unreadable parent is not woken, but its child still ends."""
    backend = Damaged()
    engine = DirectEngine(*EVERY, make=lambda: backend, checks=False)
    parent = engine.start(parent_of_waiter())
    engine.state.unload(parent.key)
    backend.bad_id = parent.id
    engine.send(go, 7, to="w/0")
    assert engine.status("w/0") is WorkflowStatus.SUCCEEDED

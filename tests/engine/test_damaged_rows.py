"""A row that cannot be read costs its own workflow, and never those around it."""

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
    """A store in which one row cannot be read."""

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
    """Spawns a child that ends with it, and asks for its result."""
    handle = yield from spawn(waiter(), on_parent_close=OnParentClose.CANCEL)
    return (yield from handle.result())


def _engine(backend: MemoryBackend) -> DirectEngine:
    return DirectEngine(*EVERY, make=lambda: backend, checks=False)


def _damage(engine: DirectEngine, backend: Damaged, id: str) -> None:
    """Spoil a row, and forget what memory knows of it."""
    engine.restart(*EVERY, recover=False)
    backend.bad_id = id


def test_event_passes_by_a_damaged_waiter() -> None:
    """An untargeted event goes to the next one when the row of the one that has waited longest is damaged."""
    backend = Damaged()
    engine = _engine(backend)
    engine.start(waiter(), "bad")
    engine.start(waiter(), "good")
    _damage(engine, backend, "bad")
    assert engine.send(go, 5) == Delivered(("good",))
    assert engine.result("good") == 5


def test_parent_of_a_damaged_child_is_parked() -> None:
    """A workflow whose child cannot be read waits for it to be mended, with that as the reason, and goes on then."""
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
    """A child that cannot be read is not cancelled, and its parent ends all the same."""
    backend = Damaged()
    engine = _engine(backend)
    engine.start(parent_of_waiter())
    engine.state.unload(2)
    backend.bad_id = "w/0"
    assert engine.do(end) is True
    assert engine.status() is WorkflowStatus.CANCELLED


def test_purge_keeps_the_child_of_a_damaged_parent() -> None:
    """A purge passes by the child of a parent that cannot be read, and takes the others."""
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


def _no_place(store: MemoryStore) -> None:
    (child,) = (record for record in store.workflows.values() if record.id == "w/0")
    store.workflows[child.key] = attrs.evolve(child, parent_place="nowhere:0")


def _no_answer(store: MemoryStore) -> None:
    store.sent["first"] = attrs.evolve(store.sent["first"], reply='["w/0"')


@pytest.mark.parametrize("damage", [_no_place, _no_answer])
def test_damaged_texts_of_our_own_stop_nobody(damage: Callable[[MemoryStore], None]) -> None:
    """The place of a parent and the answer to an event id are read with care: one is no place, the other refused."""
    store = MemoryStore()
    engine = DirectEngine(*EVERY, make=lambda: MemoryBackend(store), checks=False)
    engine.start(parent_of_waiter())
    engine.send(go, 1, key="k", event_id="first", to="w/0")
    engine.restart(*EVERY, recover=False)
    damage(store)
    (reply,) = engine.batch(event_of(go, 1, key="k", event_id="first", to="w/0"))
    if damage is _no_answer:
        assert refusal(reply)[0] is CodecError
    engine.send(go, 7, to="w/0")
    assert engine.status("w/0") is WorkflowStatus.SUCCEEDED


@pytest.mark.parametrize("ends", [ops.CancelWorkflow("w"), None])
def test_parent_of_a_damaged_spawned_child(ends: ops.Operation[bool] | None) -> None:
    """A workflow that asks for a spawned child which cannot be read is parked until it can, or ends without it."""
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
    """The call that started a workflow still finds it when its stored arguments are damaged; any other is refused."""
    store = MemoryStore()
    engine = DirectEngine(*EVERY, make=lambda: MemoryBackend(store), checks=False)
    key = engine.start(sleeper(60)).key
    engine.restart(*EVERY, recover=False)
    store.workflows[key] = attrs.evolve(store.workflows[key], input="{")
    assert engine.start(sleeper(60)).key == key
    (reply,) = engine.batch(call_of(sleeper(61), "w"))
    assert refusal(reply)[0] is WorkflowAlreadyExists


def test_answer_to_a_body_that_cannot_be_rebuilt() -> None:
    """An answer to a workflow with a damaged row parks the workflow and is not recorded."""
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
    """A store in which our code finds a broken invariant."""

    def history(self, key: int) -> list[HistoryEntry]:
        raise InvariantViolated("a bug")


def test_bug_of_ours_while_a_body_is_rebuilt() -> None:
    """A broken invariant is not treated as bad data of one workflow: it is raised."""
    store = MemoryStore()
    engine = DirectEngine(*EVERY, make=lambda: MemoryBackend(store))
    engine.start(sleeper())
    engine.make = lambda: Broken(MemoryBackend(store))
    engine.checks = False
    engine.restart(*EVERY, recover=False)
    with pytest.raises(InvariantViolated):
        engine.do(ResumeWorkflow(engine.record().key))


def test_ended_workflow_cannot_change() -> None:
    """A record that has ended cannot be changed: that would be our bug."""
    engine = DirectEngine(*EVERY)
    engine.start(sleeper())
    engine.do(TerminateWorkflow("w"))
    ended = engine.record()
    with pytest.raises(InvariantViolated):
        engine.state.workflows.count_crashes(ended, 1)


def test_failed_read_does_not_park() -> None:
    """A read that fails while a workflow is loaded stops the engine; it does not park a healthy workflow."""
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
    """A child whose stored error cannot be read parks its parent, which would otherwise hang without a reason."""
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
    """A parent that cannot be read is not woken, and its child ends all the same."""
    backend = Damaged()
    engine = DirectEngine(*EVERY, make=lambda: backend, checks=False)
    parent = engine.start(parent_of_waiter())
    engine.state.unload(parent.key)
    backend.bad_id = parent.id
    engine.send(go, 7, to="w/0")
    assert engine.status("w/0") is WorkflowStatus.SUCCEEDED

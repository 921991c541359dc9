"""The rows that a batch looks at are read in one query, and only those that are not in memory."""

from __future__ import annotations

from typing import Any

import pytest

from durable import WorkflowStatus
from durable.backends.base import Batch
from durable.backends.memory import MemoryBackend, MemoryStore
from durable.engine.config import EngineConfig
from durable.engine.operations import (
    AwaitEnd,
    CancelPause,
    CancelWorkflow,
    FindWorkflow,
    ForkWorkflow,
    Operation,
    PurgeWorkflows,
    ReadHistory,
    RecordActivity,
    ResumeWorkflow,
    RunActivity,
    TerminateWorkflow,
    TriggerSchedule,
    WakeWorkflow,
)
from durable.engine.state.state import State
from durable.model.codec import Codec
from durable.model.homes import workflow_home
from durable.model.records import WorkflowRecord
from durable.model.registry import Registry
from tests.engine.direct import call_of, event_of
from tests.engine.flows import go, sleeper, waiter, worker
from tests.engine.stepped import SteppedEngine

# Bodies that are not in memory, and two that are.
AWAY = ("a", "b", "c")
HERE = ("here", "too")
ROOM = EngineConfig(max_loaded_workflows=len(HERE))


def _engine() -> SteppedEngine:
    stepped = SteppedEngine(config=ROOM)
    stepped.ask(*(call_of(waiter(), id) for id in (*AWAY, *HERE)))
    # Another engine, because this one remembers the keys of the ids.
    again = SteppedEngine(config=ROOM, store=stepped.store)
    for id in HERE:
        again.ask(ResumeWorkflow(_key(again, id)))
    return again


def _key(stepped: SteppedEngine, id: str) -> int:
    record = stepped.backend.workflow(id)
    assert record is not None
    return record.key


def _reads(stepped: SteppedEngine, *operations: Operation[Any]) -> int:
    """How often a batch of questions calls the store. They change nothing, so there is no commit."""
    before = stepped.backend.calls
    stepped.ask(*operations)
    return stepped.backend.calls - before


@pytest.mark.parametrize(
    ("ids", "reads"),
    [
        (("a",), 1),
        (("a", "b"), 1),
        (("a", "nobody", "a", "c", *HERE), 1),
        ((*HERE, "a"), 1),
        (("nobody", "neither"), 1),
        (HERE[:1], 0),
        (HERE, 0),
    ],
)
def test_batch_of_questions_reads_once(ids: tuple[str, ...], reads: int) -> None:
    """However many rows a batch looks at, they are one query; a single row is too; those in memory are none."""
    assert _reads(_engine(), *map(FindWorkflow, ids)) == reads


def test_workflows_that_have_just_ended_are_not_read() -> None:
    """Callers often ask for a result right away, so these are in memory for a while."""
    stepped = _engine()
    stepped.ask(*map(TerminateWorkflow, HERE))
    assert _reads(stepped, *map(AwaitEnd, HERE)) == 0


def test_single_row_is_left_to_its_decision() -> None:
    """A repeated event id is answered without looking at its target, so nothing is read ahead for it."""
    stepped = _engine()
    event = event_of(go, 1, to="here", event_id="e")
    stepped.ask(event)
    stepped = SteppedEngine(config=ROOM, store=stepped.store)
    stepped.ask(ResumeWorkflow(_key(stepped, "too")))
    assert _reads(stepped, event, FindWorkflow("too")) == 1, "the event id"


def test_keys_that_are_gone_are_read_once() -> None:
    """Timers of workflows that were purged find nothing, in one query for all of them."""
    stepped = _engine()
    before = stepped.backend.calls
    stepped.coordinator.process([WakeWorkflow(997), WakeWorkflow(998), WakeWorkflow(999)])
    assert stepped.backend.calls - before == 1


def test_ids_and_keys_are_read_together() -> None:
    """Operations of callers name ids, those of the engine keys; all of them are one query."""
    stepped = _engine()
    keys = [_key(stepped, id) for id in AWAY]
    stepped.ask(TerminateWorkflow("a"), TerminateWorkflow("b"))
    before = stepped.backend.calls
    stepped.coordinator.process([WakeWorkflow(keys[0]), ResumeWorkflow(keys[1]), stepped.letter(FindWorkflow("c"))])
    assert stepped.backend.calls - before == 1


def test_what_a_body_does_not_have_is_not_looked_for() -> None:
    """Of ten sleepers that are due in one batch, no history, no waits and no mail are read: one query finds none."""
    stepped = SteppedEngine(config=ROOM)
    stepped.ask(*(call_of(sleeper(), f"sleeper-{number}") for number in range(10)))
    stepped = SteppedEngine(config=ROOM, store=stepped.store)
    stepped.clock.advance(60)
    wakes = [WakeWorkflow(key) for key in stepped.store.workflows]
    before = stepped.backend.calls
    stepped.coordinator.process([*wakes])
    assert stepped.backend.calls - before == 3, "the rows, what is attached to them, and the commit"
    assert {record.status for record in stepped.store.workflows.values()} == {WorkflowStatus.SUCCEEDED}


@pytest.mark.parametrize(
    ("operation", "names"),
    [
        (ReadHistory("w"), ("w",)),
        (ForkWorkflow("w", "0", "f"), ("w", "f")),
        (event_of(go, 1, to="w"), ("w",)),
        (event_of(go, 1), ()),
        (CancelPause("w", "0"), ("w",)),
        (TriggerSchedule("s", "run"), ("run",)),
        (WakeWorkflow(5), (5,)),
        (PurgeWorkflows(1), ()),
    ],
)
def test_operation_tells_what_it_reads(operation: Operation[Any], names: tuple[str | int, ...]) -> None:
    """An operation names the workflows whose rows its decision reads."""
    assert operation.reads() == names


def _answers(stepped: SteppedEngine) -> list[RecordActivity]:
    effects = [effect for release in stepped.released for effect in release.activities]
    return [
        RecordActivity(effect.key, effect.round, effect.position, effect.attempt, "1")
        for effect in effects
        if isinstance(effect, RunActivity)
    ]


def test_late_answers_read_nothing() -> None:
    """The workflows of these activities have ended: what they answer does not matter."""
    stepped = SteppedEngine(config=EngineConfig(max_loaded_workflows=1))
    stepped.ask(*(call_of(worker(), id) for id in AWAY))
    stepped.ask(*map(TerminateWorkflow, AWAY))
    before = stepped.backend.calls
    stepped.coordinator.process([*_answers(stepped)])
    assert stepped.backend.calls == before


# --- never stale ------------------------------------------------------------------------------------------------------


def test_batch_sees_its_own_changes() -> None:
    """What an operation changes is seen by the next one of its batch, although both rows were read before."""
    stepped = _engine()
    _, cancelled, _, same, other = stepped.ask(
        TerminateWorkflow("a"), FindWorkflow("a"), CancelWorkflow("b"), FindWorkflow("b"), FindWorkflow("c")
    )
    assert [cancelled.reply.status, same.reply.status] == [WorkflowStatus.CANCELLED] * 2
    assert other.reply.status is WorkflowStatus.SUSPENDED


@pytest.mark.parametrize("is_known", [True, False])
def test_purged_id_is_free_in_the_same_batch(is_known: bool) -> None:
    """A workflow that the batch removes is not found any more, and its id can be started again."""
    stepped = _engine()
    stepped.ask(*map(TerminateWorkflow, AWAY))
    if not is_known:
        stepped = SteppedEngine(store=stepped.store)
    before = _key(stepped, "a")
    gone, _, new = stepped.ask(PurgeWorkflows(stepped.clock.now() + 1), FindWorkflow("b"), call_of(waiter(), "a"))
    assert gone.reply == len(AWAY)
    assert new.reply.key > before


def test_free_id_is_taken_by_the_batch() -> None:
    """An id that the store did not have is found once the batch has started it."""
    none, new, same = _engine().ask(FindWorkflow("new"), call_of(waiter(), "new"), FindWorkflow("new"))
    assert none.reply is None
    assert same.reply.key == new.reply.key


def test_next_batch_reads_again() -> None:
    """What was read for a batch is forgotten with it, by id and by key."""
    stepped = _engine()
    state, key = stepped.coordinator.state, _key(stepped, "a")
    state.prefetch(map(FindWorkflow, AWAY))
    assert state.record("a").status is WorkflowStatus.SUSPENDED
    other = MemoryBackend(stepped.store)
    other.open("another")
    other.commit(Batch(number=1, workflows_changed={key: _ended(stepped, "a")}))
    for status in (WorkflowStatus.SUSPENDED, WorkflowStatus.CANCELLED):
        by_key = state.by_key(key)
        assert by_key is not None
        assert (state.record("a").status, by_key.status) == (status, status)
        state.next_batch()


def _ended(stepped: SteppedEngine, id: str) -> WorkflowRecord:
    record = stepped.backend.workflow(id)
    assert record is not None
    return record.with_status(WorkflowStatus.CANCELLED, finished_at=1)


def test_id_of_another_shard_is_not_taken_for_free() -> None:
    """This shard is not asked for the rows of another, so it does not conclude that there are none."""
    here, there = MemoryStore.sharded(2)
    foreign = [id for id in map(str, range(20)) if workflow_home(id, 2) == 1][:2]
    backend = MemoryBackend(there)
    backend.open("there")
    records = [
        WorkflowRecord(key=key, id=id, name="w", status=WorkflowStatus.RUNNING, input="{}", created_at=1, start_at=1)
        for key, id in zip((1, 3), foreign, strict=True)
    ]
    backend.commit(Batch(number=1, workflows_new={record.key: record for record in records}))
    backend = MemoryBackend(here)
    state = State(backend, Registry(()), Codec(), EngineConfig())
    state.shard = backend.open("here").shard
    state.prefetch([*map(FindWorkflow, foreign), *(WakeWorkflow(record.key) for record in records)])
    assert [state.find(id) for id in foreign] == records
    assert [state.by_key(record.key) for record in records] == records

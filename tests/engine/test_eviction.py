"""Bodies are evicted and rebuilt, and nobody can tell."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from durable import (
    DeadLetterReason,
    Durable,
    Event,
    EventTypeMismatch,
    Queued,
    WorkflowStatus,
    race,
    sleep,
    workflow,
)
from durable.backends.base import Workflows
from durable.backends.sqlite import SqliteBackend
from durable.engine.config import EngineConfig
from durable.engine.operations import SendEvent, TerminateWorkflow
from tests.engine.direct import ALL, DirectEngine, refusal
from tests.engine.flows import (
    EVERY,
    Refused,
    both,
    collector,
    go,
    hesitant,
    news,
    other,
    parent,
    parent_of_waiter,
    patient,
    racer,
    reader,
    steady,
    tidy,
    waiter,
    work_rounds,
    worker,
)


def _script(engine: DirectEngine) -> None:
    """A bit of everything, in a fixed order."""
    engine.start(steady(), "steady")
    engine.start(hesitant(), "hesitant")
    engine.start(patient(30), "patient")
    engine.start(parent(25), "parent")
    engine.start(parent_of_waiter(), "guardian")
    engine.start(racer(), "racer")
    engine.start(reader(2), "reader")
    engine.start(both(), "both")
    engine.start(collector(2, "k"), "keyed")
    engine.start(work_rounds(1), "rounds")
    engine.start(worker(), "worker")
    engine.start(tidy(), "tidy")
    engine.send(go, 1, to="steady")
    engine.send(news, 1)
    engine.send(other, 2)
    engine.send(go, 3, key="k")
    for effect in engine.activities:
        if effect.workflow_id == "worker":
            engine.fail(effect, OSError("once"))
        elif effect.workflow_id != "tidy":
            engine.finish(effect, 1)
        engine.settle()
    engine.cancel("tidy", "enough")
    engine.advance(20)
    engine.send(go, 4)
    engine.advance(50)
    engine.send(go, 5, key="k")
    engine.send(news, 2)
    for effect in engine.activities:
        engine.fail(effect, Refused("no"))
        engine.settle()
    engine.send(go, 6, to="guardian/0")
    engine.do(TerminateWorkflow("hesitant"))
    engine.advance(2000)


def _outcome(engine: DirectEngine) -> list[Any]:
    """Everything that is visible from outside."""
    return [
        (
            record.id,
            record.status,
            record.result,
            record.error and record.error[:60],
            record.wake_at,
            record.finished_at,
            record.cancel_reason,
        )
        for record in engine.backend.find(Workflows(limit=ALL))
    ] + [(letter.name, letter.payload_json, letter.workflow_id) for letter in engine.letters()]


def _histories(engine: DirectEngine) -> list[Any]:
    return [engine.history(record.id) for record in engine.backend.find(Workflows(limit=ALL))]


def test_eviction_changes_nothing() -> None:
    """The same script has the same outcome and histories with room for one body as with room for all."""
    engines = [DirectEngine(*EVERY, config=EngineConfig(max_loaded_workflows=room)) for room in (1, 3, 1000)]
    for engine in engines:
        _script(engine)
    assert _outcome(engines[0]) == _outcome(engines[1]) == _outcome(engines[2])
    assert [(len(history), history and history[-1].outcome[:40]) for history in _histories(engines[0])] == [
        (len(history), history and history[-1].outcome[:40]) for history in _histories(engines[2])
    ]


@pytest.mark.parametrize("room", [1, 1000])
def test_sqlite_and_memory_agree(tmp_path: pathlib.Path, room: int) -> None:
    """The same script has the same outcome on a file as in memory."""
    config = EngineConfig(max_loaded_workflows=room)
    memory = DirectEngine(*EVERY, config=config)
    file = DirectEngine(*EVERY, config=config, make=lambda: SqliteBackend(tmp_path / "store.db", synchronous="NORMAL"))
    for engine in (memory, file):
        _script(engine)
    assert _outcome(memory) == _outcome(file)
    file.backend.close()


def test_room_is_kept() -> None:
    """After each commit, no more bodies are in memory than there is room for: those used last."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_loaded_workflows=2))
    for id in "abc":
        engine.start(worker(), id)
    assert list(engine.state.loaded) == [engine.record(id).key for id in "bc"]
    engine.finish(engine.activities[0], 1)
    assert engine.result("a") == 1
    assert list(engine.state.loaded) == [engine.record(id).key for id in "bc"]


def test_used_bodies_stay() -> None:
    """The body that has been unused for longest is evicted."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_loaded_workflows=2))
    engine.start(collector(5), "a")
    engine.start(collector(5), "b")
    engine.send(go, 1, to="a")
    engine.start(collector(5), "c")
    assert list(engine.state.loaded) == [engine.record(id).key for id in "ac"]


def test_many_ids_are_forgotten() -> None:
    """Ids of evicted workflows are forgotten too, and read from the store again."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_loaded_workflows=1), checks=False)
    for number in range(1010):
        engine.start(worker(), f"w{number}")
    assert engine.start(worker(), "w0").id == "w0"
    assert engine.cancel("w1") is True


def test_ended_workflows_are_forgotten() -> None:
    """Records of ended workflows do not pile up in memory, and are read from the store."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_loaded_workflows=2))
    for number in range(3):
        engine.start(worker(), f"w{number}")
        engine.finish(engine.activities[-1], number)
    assert [engine.result(f"w{number}") for number in range(3)] == [0, 1, 2]


def test_many_event_names_are_forgotten() -> None:
    """Counts of pending events are read from the store again if too many names were seen."""
    engine = DirectEngine(*EVERY, checks=False)
    engine.send(go, 1)
    for number in range(10_001):
        engine.state.post.pending_count(f"name {number}")
    engine.send(Event[int]("one more"), 1)
    assert engine.state.post.pending_count("go") == 1


def test_many_types_of_events_are_forgotten() -> None:
    """If too many names were seen, an event of the wrong type is accepted, and becomes a dead letter instead."""
    engine = DirectEngine(*EVERY, checks=False)
    engine.start(waiter())
    wrong = SendEvent(name="go", payload='"text"', payload_type=str)
    assert refusal(engine.batch(wrong)[0])[0] is EventTypeMismatch
    for number in range(10_000):
        engine.state.waits.note_type(f"name {number}", int)
    engine.start(worker(), "another")
    assert engine.do(wrong) == Queued()
    assert [letter.reason for letter in engine.letters()] == [DeadLetterReason.UNREADABLE]
    engine.send(go, 5)
    assert engine.result() == 5


def test_finally_of_an_evicted_body_runs_no_operation() -> None:
    """Evicting a body does not run the operations in its `finally`. They run when the body really ends."""

    @workflow(name="eviction.finally")
    def careful() -> Durable[str]:
        try:
            yield from race(go.wait(), sleep(1000))
        finally:
            yield from sleep(5)
        return "done"

    engine = DirectEngine(careful, *EVERY, config=EngineConfig(max_loaded_workflows=1))
    engine.start(careful())
    engine.start(worker(), "elsewhere")
    assert len(engine.history()) == 0
    engine.send(go, 1, to="w")
    assert engine.status() is WorkflowStatus.SUSPENDED
    engine.advance(5)
    assert engine.result() == "done"

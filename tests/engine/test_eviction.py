"""Bodies are thrown away and rebuilt; nobody can tell."""

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
from tests.engine.desk import ALL, Desk, refusal
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


def _script(desk: Desk) -> None:
    """A bit of everything, in a fixed order."""
    desk.start(steady(), "steady")
    desk.start(hesitant(), "hesitant")
    desk.start(patient(30), "patient")
    desk.start(parent(25), "parent")
    desk.start(parent_of_waiter(), "guardian")
    desk.start(racer(), "racer")
    desk.start(reader(2), "reader")
    desk.start(both(), "both")
    desk.start(collector(2, "k"), "keyed")
    desk.start(work_rounds(1), "rounds")
    desk.start(worker(), "worker")
    desk.start(tidy(), "tidy")
    desk.send(go, 1, to="steady")
    desk.send(news, 1)
    desk.send(other, 2)
    desk.send(go, 3, key="k")
    for effect in desk.activities:
        if effect.workflow_id == "worker":
            desk.fail(effect, OSError("once"))
        elif effect.workflow_id != "tidy":
            desk.finish(effect, 1)
        desk.settle()
    desk.cancel("tidy", "enough")
    desk.advance(20)
    desk.send(go, 4)
    desk.advance(50)
    desk.send(go, 5, key="k")
    desk.send(news, 2)
    for effect in desk.activities:
        desk.fail(effect, Refused("no"))
        desk.settle()
    desk.send(go, 6, to="guardian/0")
    desk.do(TerminateWorkflow("hesitant"))
    desk.advance(2000)


def _outcome(desk: Desk) -> list[Any]:
    """All that can be seen from outside."""
    return [
        (one.id, one.status, one.result, one.error and one.error[:60], one.wake_at, one.finished_at, one.cancel_reason)
        for one in desk.backend.find(Workflows(limit=ALL))
    ] + [(letter.name, letter.payload_json, letter.workflow_id) for letter in desk.letters()]


def _histories(desk: Desk) -> list[Any]:
    return [desk.history(one.id) for one in desk.backend.find(Workflows(limit=ALL))]


def test_eviction_changes_nothing() -> None:
    """The same script has the same outcome and the same histories with room for one body as with room for all."""
    desks = [Desk(*EVERY, config=EngineConfig(max_loaded_workflows=room)) for room in (1, 3, 1000)]
    for desk in desks:
        _script(desk)
    assert _outcome(desks[0]) == _outcome(desks[1]) == _outcome(desks[2])
    assert [(len(one), one and one[-1].outcome[:40]) for one in _histories(desks[0])] == [
        (len(one), one and one[-1].outcome[:40]) for one in _histories(desks[2])
    ]


@pytest.mark.parametrize("room", [1, 1000])
def test_sqlite_and_memory_agree(tmp_path: pathlib.Path, room: int) -> None:
    """The same script has the same outcome on a file as in memory."""
    config = EngineConfig(max_loaded_workflows=room)
    memory = Desk(*EVERY, config=config)
    file = Desk(*EVERY, config=config, make=lambda: SqliteBackend(tmp_path / "store.db", synchronous="NORMAL"))
    for desk in (memory, file):
        _script(desk)
    assert _outcome(memory) == _outcome(file)
    file.backend.close()


def test_room_is_kept() -> None:
    """After each commit no more bodies are in memory than there is room for: those used last."""
    desk = Desk(*EVERY, config=EngineConfig(max_loaded_workflows=2))
    for id in "abc":
        desk.start(worker(), id)
    assert list(desk.state.loaded) == [desk.record(id).key for id in "bc"]
    desk.finish(desk.activities[0], 1)
    assert desk.result("a") == 1
    assert list(desk.state.loaded) == [desk.record(id).key for id in "bc"]


def test_used_bodies_stay() -> None:
    """The body that was not used for longest is the one that goes."""
    desk = Desk(*EVERY, config=EngineConfig(max_loaded_workflows=2))
    desk.start(collector(5), "a")
    desk.start(collector(5), "b")
    desk.send(go, 1, to="a")
    desk.start(collector(5), "c")
    assert list(desk.state.loaded) == [desk.record(id).key for id in "ac"]


def test_many_ids_are_forgotten() -> None:
    """Ids of workflows that are no longer in memory are forgotten too, and found in the store."""
    desk = Desk(*EVERY, config=EngineConfig(max_loaded_workflows=1), checks=False)
    for number in range(1010):
        desk.start(worker(), f"w{number}")
    assert desk.start(worker(), "w0").id == "w0"
    assert desk.cancel("w1") is True


def test_ended_workflows_are_forgotten() -> None:
    """Records of workflows that have ended do not pile up in memory either, and are found in the store."""
    desk = Desk(*EVERY, config=EngineConfig(max_loaded_workflows=2))
    for number in range(3):
        desk.start(worker(), f"w{number}")
        desk.finish(desk.activities[-1], number)
    assert [desk.result(f"w{number}") for number in range(3)] == [0, 1, 2]


def test_many_event_names_are_forgotten() -> None:
    """Counts of pending events are read from the store again when too many names were seen."""
    desk = Desk(*EVERY, checks=False)
    desk.send(go, 1)
    for number in range(10_001):
        desk.state.post.pending_count(f"name {number}")
    desk.send(Event[int]("one more"), 1)
    assert desk.state.post.pending_count("go") == 1


def test_many_types_of_events_are_forgotten() -> None:
    """When too many names were seen, a wrong sender is no longer refused; its event becomes a dead letter instead."""
    desk = Desk(*EVERY, checks=False)
    desk.start(waiter())
    wrong = SendEvent(name="go", payload='"text"', payload_type=str)
    assert refusal(desk.batch(wrong)[0])[0] is EventTypeMismatch
    for number in range(10_000):
        desk.state.waits.note_type(f"name {number}", int)
    desk.start(worker(), "another")
    assert desk.do(wrong) == Queued()
    assert [letter.reason for letter in desk.letters()] == [DeadLetterReason.UNREADABLE]
    desk.send(go, 5)
    assert desk.result() == 5


def test_finally_of_an_evicted_body_runs_no_operation() -> None:
    """Throwing a body away does not run the operations in its `finally`; they run when it really ends."""

    @workflow(name="eviction.finally")
    def careful() -> Durable[str]:
        try:
            yield from race(go.wait(), sleep(1000))
        finally:
            yield from sleep(5)
        return "done"

    desk = Desk(careful, *EVERY, config=EngineConfig(max_loaded_workflows=1))
    desk.start(careful())
    desk.start(worker(), "elsewhere")
    assert len(desk.history()) == 0
    desk.send(go, 1, to="w")
    assert desk.status() is WorkflowStatus.SUSPENDED
    desk.advance(5)
    assert desk.result() == "done"

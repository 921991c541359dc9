"""`runs.repair`: a checked value replaces a recorded result, with a reason, and the workflow continues with it."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import attrs
import pytest

from durable import (
    CannotRepair,
    CodecError,
    Durable,
    EngineConfig,
    Event,
    PayloadTooLarge,
    WorkflowNotFound,
    WorkflowStatus,
    WorkflowTerminated,
    activity,
    gather,
    pause,
    race,
    sleep,
    spawn,
    workflow,
)
from durable.engine.operations import RepairWorkflow
from durable.model.records import EntryKind
from durable.runner.definitions import WorkflowDef
from tests.engine.asking import resume
from tests.engine.direct import DirectEngine
from tests.engine.flows import EVERY, Refused, go, other, work
from tests.engine.mending import check_restart, outline, refused, repair, retry
from tests.engine.test_fork import finish_all
from tests.engine.test_retry import fail_all, once

SUSPENDED, RUNNING, FAILED = WorkflowStatus.SUSPENDED, WorkflowStatus.RUNNING, WorkflowStatus.FAILED
PARKED = WorkflowStatus.PARKED


@workflow(name="repair.steps")
def steps() -> Durable[list[int]]:
    """Does two steps, the second with the result of the first, then waits for an event."""
    first = yield from work(1)
    second = yield from work(first)
    return [first, second, (yield from go.wait())]


FLOWS: tuple[WorkflowDef[Any, Any], ...] = (*EVERY, steps)


def started(*values: int) -> DirectEngine:
    """An engine on which the first steps have returned these values."""
    engine = DirectEngine(*FLOWS)
    engine.start(steps())
    for value in values:
        engine.finish(engine.activities[0], value)
    return engine


def test_waiting_workflow_continues_with_the_value() -> None:
    """The history keeps the original result, and records the new value, the time and the reason."""
    engine = started(1, 2)
    engine.advance(60)
    repair(engine, "1", 20, reason="the rate was wrong")
    check_restart(engine, *FLOWS)
    recorded, note = engine.history()[1:]
    assert (recorded.outcome, recorded.position) == ("2", "1")
    assert (note.kind, note.position, note.name, note.at_us) == (
        EntryKind.REPAIRED, "1", "engine.work", engine.clock.now(),
    )  # fmt: skip
    assert json.loads(note.outcome) == {"entry": 2, "value": 20, "reason": "the rate was wrong"}
    engine.send(go, 3, to="w")
    assert engine.result() == [1, 20, 3]


def test_the_last_repair_counts() -> None:
    """A result can be replaced again and again, and every repair stays in the history."""
    engine = started(1, 2)
    for value in (20, 30, 2, 40):
        repair(engine, "1", value)
        check_restart(engine, *FLOWS)
    assert outline(engine).count("repaired 1 ok") == 4
    engine.send(go, 3, to="w")
    assert engine.result() == [1, 40, 3]


def test_failed_attempts_after_the_repaired_step_stay() -> None:
    """Failed attempts recorded after the replaced result stay recorded."""
    engine = started(1)
    engine.fail(engine.activities[0], ValueError("no"))
    repair(engine, "0", 10)
    check_restart(engine, *FLOWS)
    assert engine.activities == []
    engine.advance(10)
    assert [(effect.args, effect.attempt) for effect in engine.activities] == [((10,), 2)]


@pytest.mark.parametrize("restart", [True, False])
def test_failed_workflow_is_retried_with_it(restart: bool) -> None:
    """If the result that made it fail is replaced, a workflow stays failed, and continues when it is retried."""
    engine = started(1)
    for _ in range(3):
        engine.fail(engine.activities[0], ValueError("no"))
        engine.advance(100)
    repair(engine, "1", 20)
    assert (engine.status(), engine.activities) == (FAILED, [])
    if restart:
        engine.restart(*FLOWS)
    retry(engine)
    check_restart(engine, *FLOWS)
    engine.send(go, 3, to="w")
    assert engine.result() == [1, 20, 3]


def test_error_that_decided_branches() -> None:
    """If a value replaces the error, the branches continue, and those that were withdrawn begin again."""

    @workflow(name="repair.branches")
    def branches() -> Durable[list[int]]:
        try:
            return list((yield from gather(once(1), work(2), go.wait())))
        except Refused:
            return [(yield from other.wait())]

    engine = DirectEngine(branches)
    engine.start(branches())
    engine.fail(engine.activities[0], Refused("no"))
    assert [wait.name for wait in engine.waits()] == ["other"]
    repair(engine, "0.0.0", 5)
    check_restart(engine, branches)
    assert [wait.name for wait in engine.waits()] == ["go"]
    engine.finish(engine.activities[0], 6)
    engine.send(go, 7, to="w")
    assert engine.result() == [5, 6, 7]


def test_value_that_decided_a_race() -> None:
    """The winner of a race stays the winner, with its new value."""

    @workflow(name="repair.race")
    def racing() -> Durable[list[Any]]:
        won = yield from race(first=go.wait(), second=other.wait())
        return [won.key, won.value, (yield from work(1))]

    engine = DirectEngine(racing)
    engine.start(racing())
    engine.send(other, 5, to="w")
    repair(engine, "0.second.0", 50)
    check_restart(engine, racing)
    finish_all(engine, 6)
    assert engine.result() == ["second", 50, 6]


# --- what can be replaced --------------------------------------------------------------------------------------------


@attrs.frozen
class Part:
    """A class with fields."""

    name: str
    count: int


@activity(name="repair.make")
def make() -> Part:
    """Never runs."""
    raise NotImplementedError


parts = Event[Part]("repair-parts")


@workflow(name="repair.child")
def child() -> Durable[Part]:
    """A child with a result."""
    return (yield from make())


@workflow(name="repair.kinds")
def kinds(kind: str) -> Durable[Any]:
    """Does one step of a kind, then waits."""
    if kind == "activity":
        part: Any = yield from make()
    elif kind == "event":
        part = yield from parts.wait()
    elif kind == "pause":
        part = yield from pause(returns=Part)
    elif kind == "child":
        part = yield from child()
    elif kind == "timer":
        part = yield from sleep(1)
    else:
        handle = yield from spawn(child())
        part = yield from handle.result()
    yield from go.wait()
    return part.name


BAD = Part("bad", 1)


def _answered(kind: str) -> DirectEngine:
    engine = DirectEngine(kinds, child)
    engine.start(kinds(kind))
    for effect in engine.activities:
        engine.finish(effect, BAD)
    if kind == "event":
        engine.send(parts, BAD, to="w")
    elif kind == "pause":
        assert resume(engine, "0", {"name": "bad", "count": 1}) is None
    engine.advance(1)
    assert [wait.name for wait in engine.waits()] == ["go"]
    return engine


@pytest.mark.parametrize("kind", ["activity", "event", "pause", "child", "result"])
def test_kinds_of_results(kind: str) -> None:
    """A result of any source can be replaced by a value of the step's type."""
    engine = _answered(kind)
    position = "1" if kind == "result" else "0"
    for bad in (5, None, {"name": "x"}, {"name": "x", "count": "many"}, "Part"):
        error = refused(engine, partial(repair, engine, position, bad))
        assert isinstance(error, CodecError)
    repair(engine, position, {"name": "good", "count": 2})
    check_restart(engine, kinds, child)
    engine.send(go, 0, to="w")
    assert engine.result() == "good"


def test_what_has_no_value() -> None:
    """A timer and the start of a child have no result to replace."""
    error = refused(engine := _answered("timer"), lambda: repair(engine, "0", 5))
    assert isinstance(error, CannotRepair)
    assert "a timer has no result that could be replaced" in str(error)
    error = refused(engine := _answered("result"), lambda: repair(engine, "0", "another"))
    assert "a spawn has no result that could be replaced" in str(error)


# --- refusals --------------------------------------------------------------------------------------------------------


def test_where_nothing_is_recorded() -> None:
    """A step that has not ended, does not exist or is being retried has no result to replace."""
    engine = started(1)
    for position in ("1", "7", "0.0"):
        error = refused(engine, partial(repair, engine, position, 5))
        assert "nothing is recorded there; recorded are 0" in str(error)
    engine.fail(engine.activities[0], ValueError("no"))
    assert "nothing is recorded there" in str(refused(engine, lambda: repair(engine, "1", 5)))
    engine.advance(10)
    fail_all(engine)
    retry(engine)
    assert "nothing is recorded there" in str(refused(engine, lambda: repair(engine, "1", 5)))
    assert isinstance(refused(engine, lambda: repair(engine, "0", 5, id="nobody")), WorkflowNotFound)


@pytest.mark.parametrize("end", ["succeeded", "cancelled"])
def test_what_has_ended(end: str) -> None:
    """The results of an ended workflow cannot be replaced, because others may have seen them."""
    engine = started(1, 2)
    if end == "succeeded":
        engine.send(go, 3, to="w")
    else:
        engine.cancel()
    error = refused(engine, lambda: repair(engine, "0", 5))
    assert isinstance(error, WorkflowTerminated)
    assert error.status is WorkflowStatus(end)


def test_later_entries_must_fit() -> None:
    """A value that does not fit the later entries is refused, with the diff."""

    @workflow(name="repair.choice")
    def choice() -> Durable[int]:
        if (yield from work(1)) == 1:
            yield from go.wait()
        return (yield from work(2))

    engine = DirectEngine(choice)
    engine.start(choice())
    engine.finish(engine.activities[0], 1)
    engine.send(go, 1, to="w")
    error = str(refused(engine, lambda: repair(engine, "0", 2)))
    assert "recorded: event go" in error
    assert "asks: activity engine.work" in error


def test_too_large_and_not_json() -> None:
    """A value is checked again where it is stored, whoever sent it."""
    engine = DirectEngine(steps, *EVERY, config=EngineConfig(max_payload_bytes=100))
    engine.start(steps())
    engine.finish(engine.activities[0], 1)
    large = RepairWorkflow("w", "0", "1" * 101, "why")
    assert isinstance(refused(engine, lambda: engine.do(large)), PayloadTooLarge)
    assert isinstance(refused(engine, lambda: engine.do(RepairWorkflow("w", "0", "{", "why"))), CodecError)
    assert isinstance(refused(engine, lambda: engine.do(RepairWorkflow("w", "7", "1", "why"))), CannotRepair)

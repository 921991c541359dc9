"""An activity answers for an attempt, a round or a workflow that is over."""

from __future__ import annotations

import attrs
import pytest

from durable import WorkflowStatus
from durable.engine.config import EngineConfig
from durable.engine.operations import TerminateWorkflow
from tests.engine.direct import DirectEngine
from tests.engine.flows import EVERY, late_waiter, sleeper, work_rounds, worker
from tests.races.kit import TOGETHER

ERROR = pytest.mark.parametrize("error", [None, ValueError("no")], ids=["completes", "fails"])
ROOM = pytest.mark.parametrize("room", [1, 1000], ids=["evicted", "loaded"])


@ERROR
@ROOM
def test_answer_of_an_earlier_attempt(error: Exception | None, room: int) -> None:
    """A second answer of the first attempt changes nothing, before and after the second attempt begins."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_loaded_workflows=room))
    engine.start(worker())
    (first,) = engine.activities
    engine.fail(first, ValueError("once"))
    engine.start(sleeper(1000), "elsewhere")
    engine.do(engine.answer(first, 1, error))
    engine.advance(10)
    (second,) = engine.activities
    assert second.attempt == 2
    engine.do(engine.answer(first, 1, error))
    assert [entry.status.value for entry in engine.history()] == ["retry"]
    engine.finish(second, 22)
    assert engine.result() == 22


@ERROR
@TOGETHER
def test_answer_of_an_earlier_round(error: Exception | None, together: bool) -> None:
    """A second answer of an activity of the last round is not accepted as the answer of this round's activity."""
    engine = DirectEngine(*EVERY)
    engine.start(work_rounds(1))
    (first,) = engine.activities
    engine.two(engine.answer(first, 1), engine.answer(first, 1, error), together=together)
    engine.settle()
    (second,) = (effect for effect in engine.activities if effect.round == 1)
    engine.do(engine.answer(first, 1, error))
    assert engine.history() == []
    assert (second.position, second.attempt, second.args) == (first.position, first.attempt, (2,))
    engine.finish(second, 2)
    engine.settle()
    engine.finish(engine.activities[-1], 3)
    assert engine.result() == 3


@ERROR
@TOGETHER
def test_answer_twice_is_recorded_once(error: Exception | None, together: bool) -> None:
    """Two answers of one attempt are one entry."""
    engine = DirectEngine(*EVERY)
    engine.start(late_waiter())
    answer = engine.answer(engine.activities[0], 1)
    engine.two(answer, engine.answer(engine.activities[0], 2, error), together=together)
    assert [entry.outcome for entry in engine.history()] == ["1"]


@ERROR
def test_answer_for_an_attempt_that_was_never_made(error: Exception | None) -> None:
    """An answer with a number that is not in flight, or for an unknown workflow or position, changes nothing."""
    engine = DirectEngine(*EVERY)
    engine.start(worker())
    right = engine.answer(engine.activities[0], 1, error)
    for wrong in ({"attempt": 2}, {"round": 1}, {"position": "1"}, {"key": 4711}):
        engine.do(attrs.evolve(right, **wrong))
    assert engine.history() == []
    assert engine.status() is WorkflowStatus.RUNNING


@ERROR
@TOGETHER
def test_answer_after_the_end(error: Exception | None, together: bool) -> None:
    """An answer that comes after a terminate changes nothing."""
    engine = DirectEngine(*EVERY)
    engine.start(worker())
    engine.two(TerminateWorkflow("w"), engine.answer(engine.activities[0], 1, error), together=together)
    assert engine.status() is WorkflowStatus.CANCELLED
    assert engine.history() == []


@ERROR
def test_answer_to_the_engine_before_the_restart(error: Exception | None) -> None:
    """An answer to an attempt of an earlier engine is not accepted; the activity is handed out again."""
    engine = DirectEngine(*EVERY)
    engine.start(worker())
    (old,) = engine.activities
    engine.restart(*EVERY, recover=False)
    engine.do(engine.answer(old, 1, error))
    assert engine.history() == []
    engine.recover()
    engine.finish(engine.activities[0], 2)
    assert engine.result() == 2

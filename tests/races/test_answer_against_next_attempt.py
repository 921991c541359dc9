"""An activity answers for an attempt, a round or a workflow that is over."""

from __future__ import annotations

import attrs
import pytest

from durable import WorkflowStatus
from durable.engine.config import EngineConfig
from durable.engine.operations import TerminateWorkflow
from tests.engine.desk import Desk
from tests.engine.flows import EVERY, late_waiter, sleeper, work_rounds, worker
from tests.races.kit import TOGETHER

ERROR = pytest.mark.parametrize("error", [None, ValueError("no")], ids=["completes", "fails"])
ROOM = pytest.mark.parametrize("room", [1, 1000], ids=["evicted", "loaded"])


@ERROR
@ROOM
def test_answer_of_an_earlier_attempt(error: Exception | None, room: int) -> None:
    """A second answer of the first attempt changes nothing, before and after the second attempt begins."""
    desk = Desk(*EVERY, config=EngineConfig(max_loaded_workflows=room))
    desk.start(worker())
    (first,) = desk.activities
    desk.fail(first, ValueError("once"))
    desk.start(sleeper(1000), "elsewhere")
    desk.do(desk.answer(first, 1, error))
    desk.advance(10)
    (second,) = desk.activities
    assert second.attempt == 2
    desk.do(desk.answer(first, 1, error))
    assert [entry.status.value for entry in desk.history()] == ["retry"]
    desk.finish(second, 22)
    assert desk.result() == 22


@ERROR
@TOGETHER
def test_answer_of_an_earlier_round(error: Exception | None, together: bool) -> None:
    """A second answer of an activity of the last round is not accepted as the answer of this round's activity."""
    desk = Desk(*EVERY)
    desk.start(work_rounds(1))
    (first,) = desk.activities
    desk.two(desk.answer(first, 1), desk.answer(first, 1, error), together=together)
    desk.settle()
    (second,) = (effect for effect in desk.activities if effect.round == 1)
    desk.do(desk.answer(first, 1, error))
    assert desk.history() == []
    assert (second.position, second.attempt, second.args) == (first.position, first.attempt, (2,))
    desk.finish(second, 2)
    desk.settle()
    desk.finish(desk.activities[-1], 3)
    assert desk.result() == 3


@ERROR
@TOGETHER
def test_answer_twice_is_recorded_once(error: Exception | None, together: bool) -> None:
    """Two answers of one attempt are one entry."""
    desk = Desk(*EVERY)
    desk.start(late_waiter())
    answer = desk.answer(desk.activities[0], 1)
    desk.two(answer, desk.answer(desk.activities[0], 2, error), together=together)
    assert [entry.outcome for entry in desk.history()] == ["1"]


@ERROR
def test_answer_for_an_attempt_that_was_never_made(error: Exception | None) -> None:
    """An answer with a number that is not in flight, or for an unknown workflow or position, changes nothing."""
    desk = Desk(*EVERY)
    desk.start(worker())
    right = desk.answer(desk.activities[0], 1, error)
    for wrong in ({"attempt": 2}, {"round": 1}, {"position": "1"}, {"key": 4711}):
        desk.do(attrs.evolve(right, **wrong))
    assert desk.history() == []
    assert desk.status() is WorkflowStatus.RUNNING


@ERROR
@TOGETHER
def test_answer_after_the_end(error: Exception | None, together: bool) -> None:
    """An answer that comes after a terminate changes nothing."""
    desk = Desk(*EVERY)
    desk.start(worker())
    desk.two(TerminateWorkflow("w"), desk.answer(desk.activities[0], 1, error), together=together)
    assert desk.status() is WorkflowStatus.CANCELLED
    assert desk.history() == []


@ERROR
def test_answer_to_the_engine_before_the_restart(error: Exception | None) -> None:
    """An answer to an attempt of an earlier engine is not accepted; the activity is handed out again."""
    desk = Desk(*EVERY)
    desk.start(worker())
    (old,) = desk.activities
    desk.restart(*EVERY, recover=False)
    desk.do(desk.answer(old, 1, error))
    assert desk.history() == []
    desk.recover()
    desk.finish(desk.activities[0], 2)
    assert desk.result() == 2

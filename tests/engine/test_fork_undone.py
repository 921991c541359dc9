"""Forks of runs that have undone steps, and of runs whose loops have trimmed their first rounds."""

from __future__ import annotations

from typing import Any

import pytest

from durable import Break, CannotFork, CannotRetry, Continue, Durable, WorkflowStatus, gather, loop, saga, workflow
from durable.engine.config import EngineConfig
from durable.runner.definitions import WorkflowDef
from tests.engine.direct import DirectEngine
from tests.engine.flows import EVERY, Refused, clean, go, work
from tests.engine.mending import fork, refused, retry

FAILED = WorkflowStatus.FAILED


def _shop(ships: bool = True) -> WorkflowDef[..., Any]:
    @workflow(name="undone.shop")
    def shop() -> Durable[str]:
        yield from work(0)
        yield from work(1).undo(lambda _: clean())
        if not ships:
            return "kept"
        yield from work(2)
        return "shipped"

    return shop


def _failed(undo: str) -> DirectEngine:
    """A workflow whose third step failed. The undo of its second step is done, fails, or still runs."""
    engine = DirectEngine(_shop(), *EVERY)
    engine.start(_shop()())
    for number in (0, 1):
        engine.finish(engine.activities[0], number)
    engine.fail(engine.activities[0], Refused("no"))
    if undo == "fails":
        engine.fail(engine.activities[0], Refused("no refund"))
    elif undo == "done":
        engine.finish(engine.activities[0])
    return engine


@pytest.mark.parametrize(("undo", "is_fixed"), [("done", False), ("runs", False), ("done", True)])
def test_fork_behind_an_undone_step_is_refused(undo: str, is_fixed: bool) -> None:
    """A fork that would keep an undone step is refused, and the error names that step. A fork from that step works.

    This holds even for new code that never reaches the recorded undo.
    """
    engine = _failed(undo)
    if is_fixed:
        engine.restart(_shop(ships=False), *EVERY)
    refusal = refused(engine, lambda: fork(engine, "2"))
    assert isinstance(refusal, CannotFork)
    assert "engine.work(...) at 1 was undone later; fork it from 1" in str(refusal)
    fork(engine, "1")
    (again,) = [effect for effect in engine.activities if effect.workflow_id == "f"]
    assert (again.position, again.args) == ("1", (1,))


def test_fork_behind_a_step_whose_undo_failed() -> None:
    """A step whose undo failed stays done, so a fork after it is allowed."""
    engine = _failed("fails")
    assert engine.status() is FAILED
    fork(engine, "2")
    engine.finish(engine.activities[0], 2)
    assert engine.result("f") == "shipped"


def test_fork_of_the_undo_itself() -> None:
    """A fork from an undo runs it again, and does not count its step as done."""
    engine = _failed("done")
    fork(engine, "u.0.0")
    (again,) = engine.activities
    assert (again.workflow_id, again.definition) == ("f", clean)


def test_fork_of_a_crashed_run_goes_by_what_is_recorded() -> None:
    """A fork of a run that crashed the process goes by the recorded entries, without rebuilding the whole body."""
    engine = DirectEngine(_shop(), *EVERY, config=EngineConfig(max_crashes=1))
    engine.start(_shop()())
    for number in (0, 1):
        engine.finish(engine.activities[0], number)
    engine.state.mark[0] = engine.record().key
    engine.restart(_shop(), *EVERY, clean=False)
    assert engine.status() is WorkflowStatus.PARKED
    fork(engine, "1")
    assert [effect.position for effect in engine.activities] == ["1"]


def test_fork_behind_a_step_that_was_undone_in_part_is_refused() -> None:
    """An undo that failed at its second step has undone something, so a fork may not count the step as done."""

    @workflow(name="undone.in_part")
    def in_part() -> Durable[str]:
        yield from work(0).undo(lambda _: undoing())
        yield from work(1)
        return "shipped"

    def undoing() -> Durable[None]:
        yield from clean()
        yield from clean()

    engine = DirectEngine(in_part, *EVERY)
    engine.start(in_part())
    engine.finish(engine.activities[0], 0)
    engine.fail(engine.activities[0], Refused("no"))
    engine.finish(engine.activities[0])
    engine.fail(engine.activities[0], Refused("no second part"))
    assert engine.status() is FAILED
    assert "engine.work(...) at 0 was undone later; fork it from 0" in str(refused(engine, lambda: fork(engine, "1")))
    assert "fork it from 0, the position of engine.work(...)" in str(refused(engine, lambda: retry(engine)))


def test_refusal_to_retry_names_the_first_undone_step() -> None:
    """A refused retry advises a fork that works, even if the code is missing."""
    engine = _failed("done")
    refusal = refused(engine, lambda: retry(engine))
    assert isinstance(refusal, CannotRetry)
    assert "fork it from 1, the position of engine.work(...)" in str(refusal)
    engine.restart(_shop(ships=False), *EVERY)
    assert "from a step before the first undone one" in str(refused(engine, lambda: retry(engine)))


def test_fork_behind_a_saga_that_was_undone() -> None:
    """A saga that failed and was undone before the position does not prevent a fork."""

    @workflow(name="undone.saga")
    def tries() -> Durable[str]:
        try:
            yield from saga(gather(work(1).undo(lambda _: clean()), go.wait().within(5)))
        except TimeoutError:
            yield from work(2)
        return "done"

    engine = DirectEngine(tries, *EVERY)
    engine.start(tries())
    engine.finish(engine.activities[0], 1)
    engine.advance(5)
    engine.finish(engine.activities[0])
    engine.finish(engine.activities[0], 2)
    assert engine.result() == "done"
    fork(engine, "1")
    engine.finish(engine.activities[0], 2)
    assert engine.result("f") == "done"
    assert isinstance(refused(engine, lambda: fork(engine, "0.0.0.1", new_id="g")), CannotFork)


@pytest.mark.parametrize("is_undone", [True, False])
def test_fork_into_a_round_that_was_undone(is_undone: bool) -> None:
    """A finished round of a loop is not rebuilt: its recorded undos decide. A failed undo undoes nothing."""

    def order() -> Durable[None]:
        yield from work(1).undo(lambda _: clean())
        yield from work(2)

    @workflow(name="undone.rounds")
    def rounds() -> Durable[str]:
        def body(count: int) -> Durable[Continue[int] | Break[str]]:
            try:
                yield from saga(order())
            except Refused:
                return Continue(count + 1)
            return Break("done")

        return (yield from loop(body, 0, keep=3))

    engine = DirectEngine(rounds, *EVERY)
    engine.start(rounds())
    engine.finish(engine.activities[0], 1)
    engine.fail(engine.activities[0], Refused("no"))
    if is_undone:
        engine.finish(engine.activities[0])
    else:
        engine.fail(engine.activities[0], Refused("no refund"))
    for number in (1, 2):
        engine.finish(engine.activities[0], number)
    assert engine.result() == "done"
    if is_undone:
        assert "engine.work(...) at 0.0.0.0.0 was undone later" in str(
            refused(engine, lambda: fork(engine, "0.0.0.0.1"))
        )
    else:
        fork(engine, "0.0.0.0.1")
        assert [effect.position for effect in engine.activities] == ["0.0.0.0.1"]


@pytest.mark.parametrize("place", ["alone", "in a branch"])
def test_fork_from_a_trimmed_loop(place: str) -> None:
    """A fork from the position of a loop starts it at the first round, and needs no trimmed rounds."""

    @workflow(name="undone.loops")
    def loops(inside: str) -> Durable[int]:
        def body(count: int) -> Durable[Continue[int] | Break[int]]:
            yield from work(count)
            return Break(count) if count == 5 else Continue(count + 1)

        if inside == "alone":
            return (yield from loop(body, 0, keep=0))
        return (yield from gather(loop(body, 0, keep=0)))[0]

    engine = DirectEngine(loops, *EVERY)
    engine.start(loops(place))
    for number in range(6):
        engine.finish(engine.activities[0], number)
    assert engine.result() == 5
    fork(engine, "0")
    assert [effect.args for effect in engine.activities] == [(0,)]
    for number in range(6):
        engine.finish(engine.activities[0], number)
    assert engine.result("f") == 5

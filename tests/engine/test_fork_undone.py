"""Forks of runs that have undone their steps, and of runs that begin with a loop whose first rounds are trimmed."""

from __future__ import annotations

from typing import Any

import pytest

from durable import Break, CannotFork, CannotRetry, Continue, Durable, WorkflowStatus, gather, loop, saga, workflow
from durable.engine.config import EngineConfig
from durable.runner.definitions import WorkflowDef
from tests.engine.desk import Desk
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


def _failed(undo: str) -> Desk:
    """The third step fails, and the second is undone, or its undo fails, or still runs."""
    desk = Desk(_shop(), *EVERY)
    desk.start(_shop()())
    for number in (0, 1):
        desk.finish(desk.activities[0], number)
    desk.fail(desk.activities[0], Refused("no"))
    if undo == "fails":
        desk.fail(desk.activities[0], Refused("no refund"))
    elif undo == "done":
        desk.finish(desk.activities[0])
    return desk


@pytest.mark.parametrize(("undo", "is_mended"), [("done", False), ("runs", False), ("done", True)])
def test_fork_behind_an_undone_step_is_refused(undo: str, is_mended: bool) -> None:
    """A fork that would take an undone step for done is refused and told which step; from that step on it works.

    With mended code, too, which does not come as far as the undo that is recorded.
    """
    desk = _failed(undo)
    if is_mended:
        desk.restart(_shop(ships=False), *EVERY)
    refusal = refused(desk, lambda: fork(desk, "2"))
    assert isinstance(refusal, CannotFork)
    assert "desk.work(...) at 1 was undone later; fork it from 1" in str(refusal)
    fork(desk, "1")
    (again,) = [one for one in desk.activities if one.workflow_id == "f"]
    assert (again.position, again.args) == ("1", (1,))


def test_fork_behind_a_step_whose_undo_failed() -> None:
    """A step whose undo has failed stays done, so a fork may go on behind it."""
    desk = _failed("fails")
    assert desk.status() is FAILED
    fork(desk, "2")
    desk.finish(desk.activities[0], 2)
    assert desk.result("f") == "shipped"


def test_fork_of_the_undo_itself() -> None:
    """An undo can be done again: what it undoes is not taken for done."""
    desk = _failed("done")
    fork(desk, "u.0.0")
    (again,) = desk.activities
    assert (again.workflow_id, again.definition) == ("f", clean)


def test_fork_of_a_crashed_run_goes_by_what_is_recorded() -> None:
    """The whole body of a run that took the process down is not rebuilt for this."""
    desk = Desk(_shop(), *EVERY, config=EngineConfig(max_crashes=1))
    desk.start(_shop()())
    for number in (0, 1):
        desk.finish(desk.activities[0], number)
    desk.state.mark[0] = desk.record().key
    desk.restart(_shop(), *EVERY, clean=False)
    assert desk.status() is WorkflowStatus.PARKED
    fork(desk, "1")
    assert [one.position for one in desk.activities] == ["1"]


def test_fork_behind_a_step_that_was_undone_in_part_is_refused() -> None:
    """An undo that failed at its second step has undone something: nobody takes what it undid for done."""

    @workflow(name="undone.in_part")
    def in_part() -> Durable[str]:
        yield from work(0).undo(lambda _: undoing())
        yield from work(1)
        return "shipped"

    def undoing() -> Durable[None]:
        yield from clean()
        yield from clean()

    desk = Desk(in_part, *EVERY)
    desk.start(in_part())
    desk.finish(desk.activities[0], 0)
    desk.fail(desk.activities[0], Refused("no"))
    desk.finish(desk.activities[0])
    desk.fail(desk.activities[0], Refused("no second part"))
    assert desk.status() is FAILED
    assert "desk.work(...) at 0 was undone later; fork it from 0" in str(refused(desk, lambda: fork(desk, "1")))
    assert "fork it from 0, the position of desk.work(...)" in str(refused(desk, lambda: retry(desk)))


def test_refusal_to_retry_names_the_first_undone_step() -> None:
    """The advice of a retry that is refused leads to a fork that works, also where the code is missing."""
    desk = _failed("done")
    refusal = refused(desk, lambda: retry(desk))
    assert isinstance(refusal, CannotRetry)
    assert "fork it from 1, the position of desk.work(...)" in str(refusal)
    desk.restart(_shop(ships=False), *EVERY)
    assert "from a step before the first undone one" in str(refused(desk, lambda: retry(desk)))


def test_fork_behind_a_saga_that_was_undone() -> None:
    """A saga that failed and was undone before the position is part of what is known, and no obstacle."""

    @workflow(name="undone.saga")
    def tries() -> Durable[str]:
        try:
            yield from saga(gather(work(1).undo(lambda _: clean()), go.wait().within(5)))
        except TimeoutError:
            yield from work(2)
        return "done"

    desk = Desk(tries, *EVERY)
    desk.start(tries())
    desk.finish(desk.activities[0], 1)
    desk.advance(5)
    desk.finish(desk.activities[0])
    desk.finish(desk.activities[0], 2)
    assert desk.result() == "done"
    fork(desk, "1")
    desk.finish(desk.activities[0], 2)
    assert desk.result("f") == "done"
    assert isinstance(refused(desk, lambda: fork(desk, "0.0.0.1", new_id="g")), CannotFork)


@pytest.mark.parametrize("is_undone", [True, False])
def test_fork_into_a_round_that_was_undone(is_undone: bool) -> None:
    """A round of a loop that is over is not rebuilt; what it has undone is recorded. A failed undo undoes nothing."""

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

    desk = Desk(rounds, *EVERY)
    desk.start(rounds())
    desk.finish(desk.activities[0], 1)
    desk.fail(desk.activities[0], Refused("no"))
    if is_undone:
        desk.finish(desk.activities[0])
    else:
        desk.fail(desk.activities[0], Refused("no refund"))
    for number in (1, 2):
        desk.finish(desk.activities[0], number)
    assert desk.result() == "done"
    if is_undone:
        assert "desk.work(...) at 0.0.0.0.0 was undone later" in str(refused(desk, lambda: fork(desk, "0.0.0.0.1")))
    else:
        fork(desk, "0.0.0.0.1")
        assert [one.position for one in desk.activities] == ["0.0.0.0.1"]


@pytest.mark.parametrize("place", ["alone", "in a branch"])
def test_fork_from_a_trimmed_loop(place: str) -> None:
    """A fork from the position of a loop does it again from its first round, and needs none that are trimmed."""

    @workflow(name="undone.loops")
    def loops(inside: str) -> Durable[int]:
        def body(count: int) -> Durable[Continue[int] | Break[int]]:
            yield from work(count)
            return Break(count) if count == 5 else Continue(count + 1)

        if inside == "alone":
            return (yield from loop(body, 0, keep=0))
        return (yield from gather(loop(body, 0, keep=0)))[0]

    desk = Desk(loops, *EVERY)
    desk.start(loops(place))
    for number in range(6):
        desk.finish(desk.activities[0], number)
    assert desk.result() == 5
    fork(desk, "0")
    assert [one.args for one in desk.activities] == [(0,)]
    for number in range(6):
        desk.finish(desk.activities[0], number)
    assert desk.result("f") == 5

"""`runs.repair` of workflows that are parked, have children, have published progress, or run loops."""

from __future__ import annotations

from typing import Any

import pytest

from durable import Break, CannotRetry, Continue, Durable, ParkReason, WorkflowStatus, activity, loop, publish, workflow
from durable.engine.operations import ReadProgress
from durable.runner.definitions import WorkflowDef
from tests.engine.direct import DirectEngine
from tests.engine.flows import EVERY, go, other, waiter, work
from tests.engine.mending import check_restart, refused, repair, retry
from tests.engine.test_fork import finish_all
from tests.engine.test_retry import fail_all

SUSPENDED, PARKED, CANCELLED = WorkflowStatus.SUSPENDED, WorkflowStatus.PARKED, WorkflowStatus.CANCELLED


# --- parked -----------------------------------------------------------------------------------------------------------


def typed(kind: type) -> WorkflowDef[[], list[Any]]:
    """A workflow with two results whose type depends on the version of the code."""

    @activity(name="repair.typed")
    def find() -> Any:
        raise NotImplementedError

    find.fn.__annotations__["return"] = kind

    @workflow(name="repair.typed")
    def body() -> Durable[list[Any]]:
        first = yield from find()
        return [first, (yield from find()), (yield from go.wait())]

    return body


def unreadable(count: int) -> DirectEngine:
    """A workflow whose first results are unreadable for the new code."""
    engine = DirectEngine(typed(str))
    engine.start(typed(str)())
    for number in range(2):
        engine.finish(engine.activities[0], "old" if number < count else "5")
    engine.restart(typed(int) if count == 2 else typed(str))
    return engine


def test_parked_workflow_continues_at_once() -> None:
    """A parked workflow continues once its unreadable results are replaced."""
    engine = unreadable(2)
    engine.restart(typed(int))
    engine.send(go, 0, to="w")
    assert (engine.status(), engine.record().park_reason) == (PARKED, ParkReason.UNREADABLE)
    assert isinstance(refused(engine, lambda: retry(engine)), CannotRetry)
    repair(engine, "0", 1)
    assert (engine.status(), engine.record().park_reason) == (PARKED, ParkReason.UNREADABLE)
    engine.restart(typed(int))
    repair(engine, "1", 2)
    assert engine.result() == [1, 2, 0]


def test_value_that_breaks_something_else_is_refused() -> None:
    """A value that does not fit the later entries is refused, and the workflow stays parked."""

    def version(kind: type) -> WorkflowDef[[], Any]:
        @activity(name="repair.typed")
        def find() -> Any:
            raise NotImplementedError

        find.fn.__annotations__["return"] = kind

        @workflow(name="repair.typed")
        def body() -> Durable[Any]:
            if (yield from find()) in ("old", 1):
                yield from go.wait()
            return (yield from other.wait())

        return body

    engine = DirectEngine(version(str))
    engine.start(version(str)())
    engine.finish(engine.activities[0], "old")
    engine.send(go, 1, to="w")
    engine.restart(version(int))
    engine.send(other, 5, to="w")
    assert engine.record().park_reason is ParkReason.UNREADABLE
    assert "recorded: event go" in str(refused(engine, lambda: repair(engine, "0", 2)))
    repair(engine, "0", 1)
    assert engine.result() == 5


def test_workflow_without_code_cannot_be_repaired() -> None:
    """A workflow without code cannot be repaired, because only its code knows which values fit."""
    engine = unreadable(0)
    engine.restart()
    engine.send(go, 0, to="w")
    assert engine.status() is PARKED
    assert "repair.typed" in str(refused(engine, lambda: repair(engine, "0", "x")))


def test_code_that_waits_for_something_else_there() -> None:
    """A result can be replaced only if the current code still waits for it."""

    @workflow(name="repair.typed")
    def changed() -> Durable[int]:
        return (yield from go.wait())

    engine = unreadable(0)
    engine.restart(changed)
    error = str(refused(engine, lambda: repair(engine, "0", "x")))
    assert "the current code does not wait for repair.typed there" in error


def test_workflow_that_crashed_the_process_stays_parked() -> None:
    """The result is replaced, and the workflow stays parked until an operator retries it."""
    engine = DirectEngine(*EVERY)

    @workflow(name="repair.killer")
    def killer() -> Durable[list[int]]:
        first = yield from work(1)
        return [first, (yield from work(2))]

    engine = DirectEngine(killer)
    engine.start(killer())
    engine.finish(engine.activities[0], 1)
    for _ in range(3):
        engine.restart(killer, clean=False)
    assert engine.record().park_reason is ParkReason.CRASHED
    repair(engine, "0", 10)
    assert (engine.status(), engine.activities) == (PARKED, [])
    retry(engine)
    assert (engine.record().crashes, engine.record().park_reason) == (0, None)
    check_restart(engine, killer)
    finish_all(engine, 2)
    assert engine.result() == [10, 2]


# --- children ---------------------------------------------------------------------------------------------------------


@workflow(name="repair.chooses")
def chooses() -> Durable[Any]:
    """A value decides whether it waits for a child, for an event, or for nothing."""
    kind = yield from work(1)
    if kind == 1:
        return (yield from waiter())
    return (yield from go.wait()) if kind == 2 else "nothing"


@pytest.mark.parametrize("restart", [True, False])
def test_child_that_is_no_longer_awaited(restart: bool) -> None:
    """A child that is no longer awaited after a repair ends with its parent, even across a restart."""
    engine = DirectEngine(*EVERY, chooses)
    for id in ("w", "v"):
        engine.start(chooses(), id)
        finish_all(engine, 1)
        assert engine.status(f"{id}/1") is SUSPENDED
    repair(engine, "0", 2)
    repair(engine, "0", 3, id="v")
    assert (engine.result("v"), engine.status("v/1")) == ("nothing", CANCELLED)
    if restart:
        check_restart(engine, *EVERY, chooses)
    engine.send(go, 5, to="w")
    assert (engine.result(), engine.status("w/1")) == (5, CANCELLED)


def test_failed_child_whose_result_was_given_by_hand() -> None:
    """A child that is retried after its result was replaced ends with its parent."""

    @workflow(name="repair.parent")
    def parent() -> Durable[Any]:
        first = yield from chooses()
        return [first, (yield from other.wait())]

    engine = DirectEngine(*EVERY, chooses, parent)
    engine.start(parent())
    fail_all(engine)
    repair(engine, "0", "by hand")
    retry(engine)
    retry(engine, "w/0")
    check_restart(engine, *EVERY, chooses, parent)
    engine.send(other, 1, to="w")
    assert (engine.result(), engine.status("w/0")) == (["by hand", 1], CANCELLED)


# --- progress ---------------------------------------------------------------------------------------------------------


@workflow(name="repair.publishes")
def publishes() -> Durable[int]:
    """Publishes the result of its step."""
    number = yield from work(1)
    publish(number)
    return number + (yield from go.wait())


def shown(engine: DirectEngine) -> str | None:
    """The published progress."""
    progress = engine.do(ReadProgress("w"))
    return None if progress is None else progress.value


def test_progress_follows_the_value() -> None:
    """Progress that was computed from the wrong value is published again with the right one."""
    engine = DirectEngine(publishes)
    engine.start(publishes())
    finish_all(engine, 1)
    assert shown(engine) == "1"
    repair(engine, "0", 10)
    assert shown(engine) == "10"
    check_restart(engine, publishes)
    assert shown(engine) == "10"


# --- loops ------------------------------------------------------------------------------------------------------------


def test_round_of_a_loop() -> None:
    """A result in the running round can be replaced. A finished round's results are already part of the state."""

    def body(number: int) -> Durable[Continue[int] | Break[int]]:
        number += yield from work(number)
        number += yield from work(number)
        return Continue(number) if number < 100 else Break(number)

    @workflow(name="repair.loops")
    def loops() -> Durable[int]:
        return (yield from loop(body, 0))

    engine = DirectEngine(loops)
    engine.start(loops())
    for value in (1, 2, 3):
        engine.finish(engine.activities[0], value)
    error = str(refused(engine, lambda: repair(engine, "0.0.1", 5)))
    assert "its round is over" in error
    assert "a loop has no result" in str(refused(engine, lambda: repair(engine, "0.1.0", 5)))
    repair(engine, "0.1.1", 50)
    check_restart(engine, loops)
    fail_all(engine)
    for _ in range(3):
        engine.advance(100)
        fail_all(engine)
    retry(engine)
    check_restart(engine, loops)
    assert [effect.args for effect in engine.activities] == [(53,)]
    engine.finish(engine.activities[0], 60)
    assert engine.result() == 113

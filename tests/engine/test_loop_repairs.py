"""Operators and loops: retry, fork and repair while rounds are trimmed."""

from __future__ import annotations

from typing import Any

from durable import Break, Continue, Durable, Event, WorkflowStatus, gather, loop, workflow
from durable.engine.operations import ForkWorkflow, Operation, RepairWorkflow, RetryWorkflow
from durable.errors import CannotFork, CannotRepair
from tests.engine.direct import DirectEngine
from tests.engine.flows import Refused, clean, work

Next = Continue[int] | Break[int]
tick = Event[int]("loop-repairs.tick")


def slow(number: int) -> Durable[Next]:
    """A round with an activity."""
    got = yield from work(number)
    return Continue(got + 1)


def quick(number: int) -> Durable[Next]:
    """A round with an event."""
    got = yield from tick.wait()
    return Continue(number + got)


@workflow(name="loop-repairs.both")
def both() -> Durable[None]:
    """Runs two loops side by side. One keeps almost nothing."""
    yield from gather(loop(slow, 0), loop(quick, 0, keep=0))


@workflow(name="loop-repairs.alone")
def alone() -> Durable[None]:
    """Runs a loop with a timeout, then another loop."""
    yield from loop(ending, 0, keep=2).within(1000)
    yield from loop(quick, 0, keep=0)


def ending(number: int) -> Durable[Next]:
    """A round that ends the loop if the activity returns 100 or more."""
    got = yield from work(number)
    return Continue(number + 1) if got < 100 else Break(got)


def finish(engine: DirectEngine, value: int | None = None) -> None:
    """The running activity returns this value, by default its own argument."""
    (effect,) = engine.activities
    engine.finish(effect, effect.args[0] if value is None else value)


def ticked(engine: DirectEngine, id: str = "w") -> None:
    """Send the events for three rounds of the quick loop."""
    for _ in range(3):
        engine.send(tick, 1, to=id)


def refused(engine: DirectEngine, operation: Operation[Any]) -> str:
    """Why the operation is refused."""
    (reply,) = engine.batch(operation)
    assert isinstance(reply, CannotFork | CannotRepair)
    return str(reply)


def test_fork_refuses_to_repeat_trimmed_rounds() -> None:
    """A fork is refused if another loop has trimmed rounds since the position: starting it again would repeat them."""
    engine = DirectEngine(both)
    engine.start(both())
    for _ in range(3):
        ticked(engine)
        finish(engine)
    for position in ("0.0.0.0.0", "0.0.0.1.1"):
        assert "the loop at 0.1.0" in refused(engine, ForkWorkflow("w", position, "f"))
    assert engine.backend.workflow("f") is None
    # Its last state is recorded, so the loop can be forked from there.
    assert engine.do(ForkWorkflow("w", "0.0.0.2.1", "f")) is None
    assert [wait.position for wait in engine.waits("f")] == ["0.1.0.9.1"]


def test_fork_before_anything_was_trimmed() -> None:
    """Later entries of the other loop do not matter: the fork runs them itself."""
    engine = DirectEngine(both)
    engine.start(both())
    finish(engine)
    finish(engine)
    ticked(engine)
    assert engine.do(ForkWorkflow("w", "0.0.0.1.1", "f")) is None
    assert [wait.position for wait in engine.waits("f")] == ["0.1.0.0.0"]
    assert [effect.args for effect in engine.activities if effect.workflow_id == "f"] == [(1,)]


def test_fork_from_a_round_that_is_kept() -> None:
    """A fork from a kept round continues in that round with its state, and a later loop has not begun."""
    engine = DirectEngine(alone)
    engine.start(alone())
    for value in (0, 1, 2, 3, 100):
        finish(engine, value)
    ticked(engine)
    assert engine.do(ForkWorkflow("w", "0.0.0.3.1", "f")) is None
    assert [(effect.position, effect.args) for effect in engine.activities] == [("0.0.0.3.1", (3,))]
    assert "nothing is recorded there" in refused(engine, ForkWorkflow("w", "0.0.0.1.1", "g"))


def test_round_that_failed_is_retried() -> None:
    """A retry runs the failed step again in its round, and moves the deadline of the loop."""
    engine = DirectEngine(alone)
    engine.start(alone())
    finish(engine)
    finish(engine)
    engine.fail(engine.activities[0], Refused("no"))
    assert engine.status() is WorkflowStatus.FAILED
    engine.advance(5_000)
    assert engine.do(RetryWorkflow("w")) is None
    wake_at = engine.record().wake_at
    assert wake_at is not None
    assert wake_at > engine.clock.now()
    for _ in range(5):
        finish(engine)
        engine.restart(alone)
        assert (engine.status(), engine.record().wake_at) == (WorkflowStatus.RUNNING, wake_at)
    assert [effect.args for effect in engine.activities] == [(7,)]


def test_result_in_a_round_is_repaired() -> None:
    """A result can be replaced only in the running round. For a finished round or a state, the refusal says why."""

    def two_steps(number: int) -> Durable[Next]:
        got = yield from work(number)
        yield from clean()
        return Continue(got + 1)

    @workflow(name="loop-repairs.two")
    def looping() -> Durable[None]:
        yield from loop(two_steps, 0)

    engine = DirectEngine(looping)
    engine.start(looping())
    for value in (0, None, 1):
        engine.finish(engine.activities[0], value)
    assert engine.do(RepairWorkflow("w", "0.1.1", "50", "wrong")) is None
    assert "its round is over" in refused(engine, RepairWorkflow("w", "0.0.0", "1", "wrong"))
    assert "no result that could be replaced" in refused(engine, RepairWorkflow("w", "0.1.0", "1", "wrong"))
    assert "nothing is recorded there" in refused(engine, RepairWorkflow("w", "0.1.2", "1", "wrong"))
    engine.restart(looping)
    engine.finish(engine.activities[0], None)
    assert [effect.args for effect in engine.activities] == [(51,)]

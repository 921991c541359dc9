"""Loops under the hands of an operator: what is retried, forked and repaired, with rounds that are trimmed."""

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
    """Two loops side by side, of which one keeps nearly nothing."""
    yield from gather(loop(slow, 0), loop(quick, 0, keep=0))


@workflow(name="loop-repairs.alone")
def alone() -> Durable[None]:
    """A loop with a limit around it, then another one."""
    yield from loop(ending, 0, keep=2).within(1000)
    yield from loop(quick, 0, keep=0)


def ending(number: int) -> Durable[Next]:
    """Ends when it is told to."""
    got = yield from work(number)
    return Continue(number + 1) if got < 100 else Break(got)


def finish(engine: DirectEngine, value: int | None = None) -> None:
    """The activity that runs returns, what it was given if nothing else."""
    (effect,) = engine.activities
    engine.finish(effect, effect.args[0] if value is None else value)


def ticked(engine: DirectEngine, id: str = "w") -> None:
    """Three rounds of the quick loop."""
    for _ in range(3):
        engine.send(tick, 1, to=id)


def refused(engine: DirectEngine, operation: Operation[Any]) -> str:
    """Why an operator is refused."""
    (reply,) = engine.batch(operation)
    assert isinstance(reply, CannotFork | CannotRepair)
    return str(reply)


def test_fork_refuses_to_repeat_rounds_that_are_trimmed() -> None:
    """A loop beside the position had done rounds of which nothing is left: to begin it anew would repeat them."""
    engine = DirectEngine(both)
    engine.start(both())
    for _ in range(3):
        ticked(engine)
        finish(engine)
    for position in ("0.0.0.0.0", "0.0.0.1.1"):
        assert "the loop at 0.1.0" in refused(engine, ForkWorkflow("w", position, "f"))
    assert engine.backend.workflow("f") is None
    # Its last state is known; from there on it can be forked.
    assert engine.do(ForkWorkflow("w", "0.0.0.2.1", "f")) is None
    assert [wait.position for wait in engine.waits("f")] == ["0.1.0.9.1"]


def test_fork_before_anything_was_trimmed() -> None:
    """What the other loop has done since then is of no interest: the fork does it for itself."""
    engine = DirectEngine(both)
    engine.start(both())
    finish(engine)
    finish(engine)
    ticked(engine)
    assert engine.do(ForkWorkflow("w", "0.0.0.1.1", "f")) is None
    assert [wait.position for wait in engine.waits("f")] == ["0.1.0.0.0"]
    assert [effect.args for effect in engine.activities if effect.workflow_id == "f"] == [(1,)]


def test_fork_from_a_round_that_is_kept() -> None:
    """It goes on in that round with its state, and a loop that came later has not begun."""
    engine = DirectEngine(alone)
    engine.start(alone())
    for value in (0, 1, 2, 3, 100):
        finish(engine, value)
    ticked(engine)
    assert engine.do(ForkWorkflow("w", "0.0.0.3.1", "f")) is None
    assert [(effect.position, effect.args) for effect in engine.activities] == [("0.0.0.3.1", (3,))]
    assert "nothing is recorded there" in refused(engine, ForkWorkflow("w", "0.0.0.1.1", "g"))


def test_round_that_failed_is_retried() -> None:
    """The step begins anew, in its round, and the limit around the loop is put off for good."""
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
    """In the round that runs a result can be replaced; in one that is over, or a state, it cannot, and it says why."""

    def two_steps(number: int) -> Durable[Next]:
        got = yield from work(number)
        yield from clean()
        return Continue(got + 1)

    @workflow(name="loop-repairs.two")
    def two() -> Durable[None]:
        yield from loop(two_steps, 0)

    engine = DirectEngine(two)
    engine.start(two())
    for value in (0, None, 1):
        engine.finish(engine.activities[0], value)
    assert engine.do(RepairWorkflow("w", "0.1.1", "50", "wrong")) is None
    assert "its round is over" in refused(engine, RepairWorkflow("w", "0.0.0", "1", "wrong"))
    assert "no result that could be replaced" in refused(engine, RepairWorkflow("w", "0.1.0", "1", "wrong"))
    assert "nothing is recorded there" in refused(engine, RepairWorkflow("w", "0.1.2", "1", "wrong"))
    engine.restart(two)
    engine.finish(engine.activities[0], None)
    assert [effect.args for effect in engine.activities] == [(51,)]

"""Repairs of workflows whose code has changed."""

from __future__ import annotations

from uuid import UUID

import pytest

from durable import (
    Durable,
    NonRetryable,
    WorkflowStatus,
    activity,
    patched,
    removed,
    uuid,
    workflow,
)
from durable.engine.operations import ForkWorkflow, RetryWorkflow
from tests.engine.direct import DirectEngine

# Which code the process runs.
CODE = {"is_new": False}


@activity(name="operators.work")
def work(number: int) -> int:
    """Never runs: the tests answer for it."""
    raise NotImplementedError


@activity(name="operators.pay")
def pay(id: UUID) -> None:
    """Never runs either."""
    raise NotImplementedError


@workflow(name="operators.obsolete")
def obsolete() -> Durable[int]:
    """Does a step that the new code removes, and one after it."""
    yield from removed("operators.work") if CODE["is_new"] else work(1)
    return (yield from work(2))


def _failed(engine: DirectEngine) -> None:
    engine.start(obsolete())
    (effect,) = engine.activities
    engine.fail(effect, NonRetryable("no more"))
    assert engine.status() is WorkflowStatus.FAILED


def test_a_run_goes_on_without_the_step_that_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the failed step is removed from the code, a retry continues the run."""
    engine = DirectEngine(obsolete)
    _failed(engine)
    monkeypatch.setitem(CODE, "is_new", True)
    engine.restart(obsolete)
    assert engine.do(RetryWorkflow("w")) is None
    engine.finish(engine.activities[-1], 5)
    assert engine.result() == 5


@pytest.mark.parametrize("clean", [True, False])
def test_a_step_is_removed_while_it_is_tried_again(clean: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step may be removed while it is being retried, before it has a result."""
    engine = DirectEngine(obsolete)
    _failed(engine)
    assert engine.do(RetryWorkflow("w")) is None
    monkeypatch.setitem(CODE, "is_new", True)
    engine.restart(obsolete, clean=clean)
    engine.settle()
    engine.finish(engine.activities[-1], 5)
    assert engine.result() == 5


@workflow(name="operators.payer")
def payer() -> Durable[None]:
    """Draws a payment id after asking `patched`."""
    yield from work(1)
    if patched("payments have ids"):
        yield from pay(uuid())


def test_a_fork_draws_for_itself_what_it_does_anew() -> None:
    """A step that a fork runs again draws a new value: with the old one, the payment service would see a duplicate."""
    engine = DirectEngine(payer)
    engine.start(payer())
    engine.finish(engine.activities[0], 0)
    (first,) = engine.activities
    engine.finish(first)
    assert engine.do(ForkWorkflow("w", "1", "f")) is None
    engine.settle()
    (second,) = engine.activities
    assert second.workflow_id == "f"
    assert second.args != first.args
    engine.restart(payer)
    assert engine.activities[0].args == second.args

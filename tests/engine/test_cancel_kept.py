"""A cancellation that is kept because the body cannot be rebuilt: when it is raised, and what it withdraws."""

from __future__ import annotations

from typing import Any

import pytest

from durable import Durable, WorkflowStatus, gather, sleep, workflow
from durable.engine.config import EngineConfig
from durable.engine.operations import CancelWorkflow, RetryWorkflow, TerminateWorkflow
from durable.errors import WorkflowTerminated
from durable.runner.definitions import WorkflowDef
from durable.testing.faults import SimCrash
from tests.engine.desk import Desk, event_of, refusal
from tests.engine.flows import EVERY, clean, go, tidy, waiter, work
from tests.engine.test_blamed_bodies import Killer

PARKED, CANCELLED = WorkflowStatus.PARKED, WorkflowStatus.CANCELLED


def _order(then: str = "waits") -> WorkflowDef[..., Any]:
    """A step with an undo, and then a wait, or with other code an end."""

    @workflow(name="kept.order")
    def order() -> Durable[str]:
        yield from work(1).undo(lambda _: clean())
        if then == "waits":
            yield from go.wait()
        elif then == "continues":
            raise order.continue_as()
        elif then == "fails":
            raise LookupError("new code")
        return "done"

    return order


def _kept(then: str = "waits") -> Desk:
    """One that has done its step, was cancelled without its code, and has this code now."""
    desk = Desk(_order(), *EVERY)
    desk.start(_order()())
    desk.finish(desk.activities[0], 1)
    desk.restart(*EVERY)
    assert desk.cancel(reason="why") is True
    assert (desk.status(), desk.record().cancel_pending) == (PARKED, True)
    desk.restart(_order(then), *EVERY)
    return desk


@pytest.mark.parametrize("then", ["waits", "returns", "fails"])
def test_kept_cancel_undoes_whatever_the_new_code_does(then: str) -> None:
    """Rebuilt by code that waits, returns or fails, a cancelled workflow undoes its step and ends cancelled."""
    desk = _kept(then)
    (undo,) = desk.activities
    assert undo.definition is clean
    desk.restart(_order(then), *EVERY)
    (undo,) = desk.activities
    desk.finish(undo)
    assert (desk.status(), desk.record().cancel_reason) == (CANCELLED, "why")
    assert desk.record().cancel_pending is False


@pytest.mark.parametrize("then", ["returns", "continues", "fails"])
def test_kept_cancel_of_one_that_owes_nothing(then: str) -> None:
    """With nothing to undo, code that has come to its end meanwhile ends cancelled at once."""

    @workflow(name="kept.bare")
    def waits() -> Durable[None]:
        yield from go.wait()

    @workflow(name="kept.bare")
    def ends() -> Durable[None]:
        yield from sleep(0)
        if then == "continues":
            raise ends.continue_as()
        if then == "fails":
            raise LookupError("new code")

    desk = Desk(waits, *EVERY)
    desk.start(waits())
    desk.restart(*EVERY)
    assert desk.cancel() is True
    desk.restart(ends, *EVERY)
    assert (desk.status(), desk.record().error) == (CANCELLED, None)


def test_kept_cancel_takes_awaited_children_along() -> None:
    """The child that a parked parent waits for is cancelled when the parent hears of its cancellation."""

    @workflow(name="kept.parent")
    def parent() -> Durable[object]:
        return (yield from gather(tidy(), go.wait()))

    desk = Desk(parent, *EVERY)
    desk.start(parent())
    desk.restart(*EVERY)
    desk.cancel()
    assert not desk.record("w/0.0.0").cancel_requested
    desk.restart(parent, *EVERY)
    assert (desk.status(), desk.waits()) == (CANCELLED, [])
    assert desk.record("w/0.0.0").cancel_requested


def test_kept_cancel_that_is_survived_clears_the_count_of_crashes() -> None:
    """A body that ran when the process died, and takes the same cancellation later, is not what killed it."""
    desk = Desk(_order(), *EVERY)
    desk.start(_order()())
    desk.finish(desk.activities[0], 1)
    desk.state.watch = Killer("w", fed=True)
    with pytest.raises(SimCrash):
        desk.cancel(reason="why")
    desk.restart(*EVERY, clean=False)
    assert desk.cancel(reason="why") is True
    assert (desk.record().cancel_pending, desk.record().crashes) == (True, 1)
    # No orderly stop, which would clear the count as well.
    desk.restart(_order(), *EVERY, clean=False)
    assert (desk.record().cancel_pending, desk.record().crashes) == (False, 0)


def test_crashed_workflow_hears_of_its_cancel_when_it_is_retried() -> None:
    """A cancel of a workflow that took the process down is kept, and raised by the retry."""
    desk = Desk(_order(), *EVERY, config=EngineConfig(max_crashes=1))
    desk.start(_order()())
    desk.finish(desk.activities[0], 1)
    desk.start(tidy(), "t")
    desk.state.mark[0] = desk.record("t").key
    desk.restart(_order(), *EVERY, clean=False)
    assert desk.status("t") is PARKED
    assert desk.cancel("t", "why") is True
    assert desk.recover().parked == 1
    assert (desk.status("t"), desk.record("t").cancel_pending, desk.history("t")) == (PARKED, True, [])
    desk.do(RetryWorkflow("t"))
    desk.settle()
    (cleanup,) = desk.activities
    assert cleanup.definition is clean
    desk.finish(cleanup)
    assert desk.status("t") is CANCELLED


def test_cancel_of_a_parked_workflow_whose_code_is_back() -> None:
    """A parked workflow whose code was loaded meanwhile hears of a cancel at once, and once."""
    desk = _kept()
    desk.restart(*EVERY)
    desk.start(_order()(), "loads the code")
    assert desk.cancel(reason="again") is True
    assert [entry.kind.value for entry in desk.history()].count("cancel") == 2


def test_parked_workflow_is_terminated_at_once() -> None:
    """Terminate ends a parked workflow for good: its mail becomes dead letters and nothing can be sent to it."""
    desk = Desk(*EVERY)
    desk.start(waiter())
    desk.restart(recover=False)
    desk.cancel()
    desk.send(go, 1, to="w")
    assert desk.do(TerminateWorkflow("w", "why")) is True
    assert (desk.status(), desk.record().cancel_reason, desk.record().cancel_pending) == (CANCELLED, "why", False)
    assert (len(desk.letters()), desk.waits(), desk.record().error) == (1, [], None)
    assert desk.do(CancelWorkflow("w")) is False
    assert refusal(desk.batch(event_of(go, 2, to="w"))[0])[0] is WorkflowTerminated

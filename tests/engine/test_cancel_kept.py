"""A cancel that is kept because the body cannot be rebuilt: when it is raised, and what it withdraws."""

from __future__ import annotations

from typing import Any

import pytest

from durable import Durable, WorkflowStatus, gather, sleep, workflow
from durable.engine.config import EngineConfig
from durable.engine.operations import CancelWorkflow, RetryWorkflow, TerminateWorkflow
from durable.errors import WorkflowTerminated
from durable.runner.definitions import WorkflowDef
from durable.testing.faults import SimCrash
from tests.engine.direct import DirectEngine, event_of, refusal
from tests.engine.flows import EVERY, clean, go, tidy, waiter, work
from tests.engine.test_blamed_bodies import Killer

PARKED, CANCELLED = WorkflowStatus.PARKED, WorkflowStatus.CANCELLED


def _order(then: str = "waits") -> WorkflowDef[..., Any]:
    """A workflow with a step that has an undo. Then it waits or, with other code, ends."""

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


def _kept(then: str = "waits") -> DirectEngine:
    """A workflow that did its step, was cancelled without its code, and now has this code."""
    engine = DirectEngine(_order(), *EVERY)
    engine.start(_order()())
    engine.finish(engine.activities[0], 1)
    engine.restart(*EVERY)
    assert engine.cancel(reason="why") is True
    assert (engine.status(), engine.record().cancel_pending) == (PARKED, True)
    engine.restart(_order(then), *EVERY)
    return engine


@pytest.mark.parametrize("then", ["waits", "returns", "fails"])
def test_kept_cancel_undoes_whatever_the_new_code_does(then: str) -> None:
    """Whether the new code waits, returns or fails, a cancelled workflow undoes its step and ends as cancelled."""
    engine = _kept(then)
    (undo,) = engine.activities
    assert undo.definition is clean
    engine.restart(_order(then), *EVERY)
    (undo,) = engine.activities
    engine.finish(undo)
    assert (engine.status(), engine.record().cancel_reason) == (CANCELLED, "why")
    assert engine.record().cancel_pending is False


@pytest.mark.parametrize("then", ["returns", "continues", "fails"])
def test_kept_cancel_of_a_workflow_without_undos(then: str) -> None:
    """Without undos, a cancelled workflow whose new code ends at once ends as cancelled."""

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

    engine = DirectEngine(waits, *EVERY)
    engine.start(waits())
    engine.restart(*EVERY)
    assert engine.cancel() is True
    engine.restart(ends, *EVERY)
    assert (engine.status(), engine.record().error) == (CANCELLED, None)


def test_kept_cancel_takes_awaited_children_along() -> None:
    """When a parked parent receives its cancel, the child that it awaits is cancelled too."""

    @workflow(name="kept.parent")
    def parent() -> Durable[object]:
        return (yield from gather(tidy(), go.wait()))

    engine = DirectEngine(parent, *EVERY)
    engine.start(parent())
    engine.restart(*EVERY)
    engine.cancel()
    assert not engine.record("w/0.0.0").cancel_requested
    engine.restart(parent, *EVERY)
    assert (engine.status(), engine.waits()) == (CANCELLED, [])
    assert engine.record("w/0.0.0").cancel_requested


def test_kept_cancel_that_is_survived_clears_the_count_of_crashes() -> None:
    """A body that later survives the cancel during which the process died is not to blame."""
    engine = DirectEngine(_order(), *EVERY)
    engine.start(_order()())
    engine.finish(engine.activities[0], 1)
    engine.state.watch = Killer("w", fed=True)
    with pytest.raises(SimCrash):
        engine.cancel(reason="why")
    engine.restart(*EVERY, clean=False)
    assert engine.cancel(reason="why") is True
    assert (engine.record().cancel_pending, engine.record().crashes) == (True, 1)
    # An unclean stop, because a clean one would clear the count as well.
    engine.restart(_order(), *EVERY, clean=False)
    assert (engine.record().cancel_pending, engine.record().crashes) == (False, 0)


def test_crashed_workflow_receives_its_cancel_when_it_is_retried() -> None:
    """A cancel of a workflow that crashed the process is kept, and the retry raises it."""
    engine = DirectEngine(_order(), *EVERY, config=EngineConfig(max_crashes=1))
    engine.start(_order()())
    engine.finish(engine.activities[0], 1)
    engine.start(tidy(), "t")
    engine.state.mark[0] = engine.record("t").key
    engine.restart(_order(), *EVERY, clean=False)
    assert engine.status("t") is PARKED
    assert engine.cancel("t", "why") is True
    assert engine.recover().parked == 1
    assert (engine.status("t"), engine.record("t").cancel_pending, engine.history("t")) == (PARKED, True, [])
    engine.do(RetryWorkflow("t"))
    engine.settle()
    (cleanup,) = engine.activities
    assert cleanup.definition is clean
    engine.finish(cleanup)
    assert engine.status("t") is CANCELLED


def test_cancel_of_a_parked_workflow_whose_code_is_back() -> None:
    """A parked workflow whose code has been loaded receives a cancel at once, and once."""
    engine = _kept()
    engine.restart(*EVERY)
    engine.start(_order()(), "loads the code")
    assert engine.cancel(reason="again") is True
    assert [entry.kind.value for entry in engine.history()].count("cancel") == 2


def test_parked_workflow_is_terminated_at_once() -> None:
    """Terminating a parked workflow is final: its mail becomes dead letters, and nothing can be sent to it."""
    engine = DirectEngine(*EVERY)
    engine.start(waiter())
    engine.restart(recover=False)
    engine.cancel()
    engine.send(go, 1, to="w")
    assert engine.do(TerminateWorkflow("w", "why")) is True
    assert (engine.status(), engine.record().cancel_reason, engine.record().cancel_pending) == (CANCELLED, "why", False)
    assert (len(engine.letters()), engine.waits(), engine.record().error) == (1, [], None)
    assert engine.do(CancelWorkflow("w")) is False
    assert refusal(engine.batch(event_of(go, 2, to="w"))[0])[0] is WorkflowTerminated

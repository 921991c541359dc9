"""A spawned child ends while its parent asks for its result, cancels it, gives up waiting, is parked or ends."""

from __future__ import annotations

from typing import Any

import pytest

from durable import (
    ChildWorkflowCancelled,
    Durable,
    Event,
    OnParentClose,
    WorkflowStatus,
    WorkflowTerminated,
    publish,
    race,
    spawn,
    workflow,
)
from durable.engine.operations import (
    CancelWorkflow,
    ReadProgress,
    ResumeWorkflow,
    SendEvent,
    TerminateWorkflow,
    WakeWorkflow,
)
from tests.engine.direct import DirectEngine, event_of, refusal
from tests.engine.flows import go, waiter
from tests.races.kit import TOGETHER

ask = Event[int]("races.ask")
CHILD = "w/0"
BOTH = pytest.mark.parametrize("child_first", [True, False], ids=["child first", "parent first"])


@workflow(name="races.asker")
def asker(close: str = "keep") -> Durable[int]:
    """Spawns a child, and asks for its result after an event."""
    handle = yield from spawn(waiter(), on_parent_close=OnParentClose(close))
    yield from ask.wait()
    return (yield from handle.result())


@workflow(name="races.leaver")
def leaver(close: str) -> Durable[str]:
    """Spawns a child, and ends after an event."""
    yield from spawn(waiter(), on_parent_close=OnParentClose(close))
    publish("leaving soon")
    yield from ask.wait()
    return "left"


@workflow(name="races.stopper")
def stopper() -> Durable[list[Any]]:
    """Spawns a child, and cancels it after an event."""
    handle = yield from spawn(waiter())
    yield from ask.wait()
    accepted = yield from handle.cancel()
    try:
        return [accepted, (yield from handle.result())]
    except ChildWorkflowCancelled:
        return [accepted, "cancelled"]


FLOWS = (waiter, asker, leaver, stopper)


def _ends() -> SendEvent:
    return event_of(go, 5, to=CHILD)


def _asks() -> SendEvent:
    return event_of(ask, 0, to="w")


def _in_order(child_first: bool, child: Any, parent: Any) -> tuple[Any, Any]:
    return (child, parent) if child_first else (parent, child)


@TOGETHER
@BOTH
def test_end_against_question(child_first: bool, together: bool) -> None:
    """A child that ends just before or just after its parent asks for the result delivers it, once."""
    engine = DirectEngine(*FLOWS)
    engine.start(asker())
    engine.two(*_in_order(child_first, _ends(), _asks()), together=together)
    assert engine.result() == 5
    assert [entry.kind.value for entry in engine.history()] == ["spawn", "event", "result"]


@TOGETHER
@BOTH
@pytest.mark.parametrize("close", ["keep", "cancel"])
def test_end_against_end(close: str, child_first: bool, together: bool) -> None:
    """A child that ends before its parent has ended; one that comes after is kept, or cancelled and takes nothing."""
    engine = DirectEngine(*FLOWS)
    engine.start(leaver(close))
    replies = engine.two(*_in_order(child_first, _ends(), _asks()), together=together)
    assert engine.result() == "left"
    if child_first or close == "keep":
        assert engine.result(CHILD) == 5
    else:
        assert engine.status(CHILD) is WorkflowStatus.CANCELLED
        assert refusal(replies[1]) == (WorkflowTerminated, CHILD, "cancelled")


@TOGETHER
@BOTH
@pytest.mark.parametrize("how", [CancelWorkflow, TerminateWorkflow])
@pytest.mark.parametrize("asked", [True, False])
def test_end_against_end_by_force(asked: bool, how: Any, child_first: bool, together: bool) -> None:
    """A parent that is cancelled or terminated around the end of its child, whether it waits for it or not."""
    engine = DirectEngine(*FLOWS)
    engine.start(asker("cancel"))
    if asked:
        engine.do(_asks())
    engine.two(*_in_order(child_first, _ends(), how("w")), together=together)
    parent_ended = WorkflowStatus.SUCCEEDED if child_first and asked else WorkflowStatus.CANCELLED
    child_ended = WorkflowStatus.SUCCEEDED if child_first else WorkflowStatus.CANCELLED
    assert (engine.status(), engine.status(CHILD)) == (parent_ended, child_ended)


@TOGETHER
@BOTH
def test_end_against_cancel_by_the_parent(child_first: bool, together: bool) -> None:
    """A parent that cancels its child learns whether the cancel was in time, and the result agrees with that."""
    engine = DirectEngine(*FLOWS)
    engine.start(stopper())
    engine.two(*_in_order(child_first, _ends(), _asks()), together=together)
    assert engine.result() == ([False, 5] if child_first else [True, "cancelled"])


@TOGETHER
@BOTH
def test_end_against_limit(child_first: bool, together: bool) -> None:
    """Of a result and its limit the first recorded one wins, and the child continues either way."""

    @workflow(name="races.limited")
    def limited() -> Durable[list[Any]]:
        handle = yield from spawn(waiter())
        first = yield from race(child=handle.result().within(60).or_default(-1), event=ask.wait())
        return [first.value, (yield from handle.result())]

    engine = DirectEngine(*FLOWS, limited)
    engine.start(limited())
    engine.clock.advance(60)
    wake = WakeWorkflow(engine.record().key)
    engine.two(*_in_order(child_first, _ends(), wake), together=together)
    assert engine.result() == ([5, 5] if child_first else [-1, 5])


@BOTH
def test_end_while_the_parent_is_parked(child_first: bool) -> None:
    """A parent that is parked when its child ends gets the result when its code is back, asked for before or after."""
    engine = DirectEngine(*FLOWS)
    engine.start(asker())
    if not child_first:
        engine.do(_asks())
    engine.restart(waiter)
    engine.do(ResumeWorkflow(engine.record().key))
    assert engine.status() is WorkflowStatus.PARKED
    engine.do(_ends())
    assert (engine.status(), engine.status(CHILD)) == (WorkflowStatus.PARKED, WorkflowStatus.SUCCEEDED)
    engine.restart(*FLOWS)
    if child_first:
        engine.do(_asks())
    assert engine.result() == 5


def test_child_that_ends_in_the_decision_that_spawns_it() -> None:
    """If a child ends immediately, its result is ready in the same decision."""

    @workflow(name="races.quick")
    def quick() -> Durable[int]:
        return 7
        yield

    @workflow(name="races.hasty")
    def hasty() -> Durable[int]:
        handle = yield from spawn(quick(), on_parent_close=OnParentClose.CANCEL)
        return (yield from handle.result())

    engine = DirectEngine(quick, hasty)
    engine.start(hasty())
    assert (engine.result(), engine.result("w/0")) == (7, 7)


@TOGETHER
def test_progress_against_end(together: bool) -> None:
    """The last value that a workflow published can be read after its end, in the same batch or later."""
    engine = DirectEngine(*FLOWS)
    engine.start(leaver("keep"))
    _, seen = engine.two(_asks(), ReadProgress("w"), together=together)
    assert engine.status() is WorkflowStatus.SUCCEEDED
    assert seen.value == '"leaving soon"'

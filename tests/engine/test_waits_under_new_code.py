"""Waits whose code has changed: the workflow gets what its new code asks for, and nothing else."""

from __future__ import annotations

from typing import Any

from durable import Durable, Event, WorkflowStatus, workflow
from durable.engine.operations import ResumeWorkflow
from tests.engine.direct import DirectEngine
from tests.engine.flows import EVERY, go, other, parent_of_waiter, waiter, work


def test_child_whose_parent_now_does_something_else() -> None:
    """If new code has an activity in the place of a child, the child's end does not resolve it."""

    @workflow(name="engine.parent_of_waiter")
    def works_instead(id: str | None = None) -> Durable[int]:
        return (yield from work(1))

    engine = DirectEngine(*EVERY)
    engine.start(parent_of_waiter())
    engine.restart(works_instead, waiter)
    engine.send(go, 5, to="w/0")
    assert (engine.status(), engine.history()) == (WorkflowStatus.RUNNING, [])
    engine.finish(engine.activities[0], 9)
    assert engine.result() == 9


def test_wait_whose_event_has_another_key_now() -> None:
    """A wait whose code now asks for another key is registered again when its body is rebuilt."""

    def keyed(key: str) -> Durable[int]:
        return (yield from go.wait(key))

    @workflow(name="changed-waits.keyed")
    def before() -> Durable[int]:
        return (yield from keyed("old"))

    @workflow(name="changed-waits.keyed")
    def after() -> Durable[int]:
        return (yield from keyed("new"))

    engine = DirectEngine(before)
    engine.start(before())
    engine.restart(after)
    engine.do(ResumeWorkflow(engine.record().key))
    assert [wait.event_key for wait in engine.waits()] == ["new"]
    engine.send(go, 5, key="new")
    assert engine.result() == 5


def _waits_for(event: Event[Any]) -> Any:
    @workflow(name="changed-waits.changing")
    def changing() -> Durable[Any]:
        return (yield from event.wait())

    return changing


def test_event_of_another_name_is_not_delivered() -> None:
    """A wait whose code now asks for another event does not get the old one."""
    engine = DirectEngine(_waits_for(go), checks=False)
    engine.start(_waits_for(go)())
    engine.restart(_waits_for(other))
    engine.send(go, 1)
    assert engine.status() is WorkflowStatus.SUSPENDED
    assert engine.pending("go") == 1


@workflow(name="changed-waits.changing")
def now_works() -> Durable[Any]:
    return (yield from work(1))


def test_event_is_not_recorded_as_the_result_of_an_activity() -> None:
    """A wait that became an activity is not resolved by the old event."""
    engine = DirectEngine(_waits_for(go), checks=False)
    engine.start(_waits_for(go)())
    engine.restart(now_works)
    engine.send(go, 1)
    assert engine.status() is WorkflowStatus.RUNNING
    assert engine.history() == []

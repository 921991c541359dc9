"""A decision that grows long continues in the next batch: nothing is lost, overtaken or done twice."""

from __future__ import annotations

from typing import Any

import pytest

from durable import Break, Continue, Durable, Queued, WorkflowStatus, gather, loop, race, sleep, spawn, workflow
from durable.engine.config import EngineConfig
from durable.engine.operations import TerminateWorkflow, WakeWorkflow
from durable.model.timers import OF_WORKFLOW
from tests.engine.direct import DirectEngine, event_of
from tests.engine.flows import go, nothing

TEN = EngineConfig(max_steps_per_decision=10)
COUNT = 35


@workflow(name="long.taker")
def taker(count: int) -> Durable[list[int]]:
    """Takes many events in a row."""
    yield from sleep(60)
    taken = []
    for _ in range(count):
        taken.append((yield from go.wait()))
    return taken


@workflow(name="long.hurried")
def hurried(count: int) -> Durable[list[int]]:
    """Takes many events in a row, each with a timeout of zero."""
    yield from sleep(60)
    taken = []
    for _ in range(count):
        taken.append((yield from go.wait().within(0).or_default(-1)))
    return taken


@workflow(name="long.parent")
def parent(kind: str) -> Durable[int]:
    """Starts many children at once, spawns many in a row, or runs many rounds of a loop."""
    if kind == "gather":
        return sum((yield from gather(*(nothing(number) for number in range(COUNT)))))
    if kind == "spawn":
        handles = []
        for number in range(COUNT):
            handles.append((yield from spawn(nothing(number))))
        return sum((yield from gather(*(handle.result() for handle in handles))))
    return (yield from loop(_round, [0, 0]))


def _round(state: list[int]) -> Durable[Any]:
    number, total = state
    total += yield from nothing(number)
    return Continue([number + 1, total]) if number < COUNT - 1 else Break(total)


@workflow(name="long.crowd")
def crowd(others: list[str]) -> Durable[str]:
    """Has more open waits than a decision may check, and meanwhile sends an event to each of the others."""

    def greet() -> Durable[None]:
        for other in others:
            yield from go.send(1, to=other)
        for _ in others:
            yield from go.wait()

    return str((yield from race(greeted=greet(), rest=gather(*(go.wait(str(n)) for n in range(COUNT))))).key)


EVERY = (taker, hurried, parent, crowd, nothing)


def _filled(definition: Any, to: str | None = "w") -> DirectEngine:
    """A sleeping workflow, and more events than one decision may take."""
    engine = DirectEngine(*EVERY, config=TEN, checks=False)
    engine.start(definition(COUNT))
    engine.batch(*(event_of(go, number, to=to) for number in range(COUNT)))
    return engine


@pytest.mark.parametrize("to", ["w", None])
@pytest.mark.parametrize("definition", [taker, hurried])
def test_pending_events_are_taken_over_several_batches(definition: Any, to: str | None) -> None:
    """Each commit takes a limited number of events, all in order, and a timeout that is over does not win."""
    engine = _filled(definition, to)
    before = engine.commits
    engine.advance(60)
    assert engine.result() == [*range(COUNT)]
    assert engine.commits >= before + 3


@pytest.mark.parametrize("clean", [True, False])
def test_crash_between_the_batches(clean: bool) -> None:
    """A stop after the first of several batches loses nothing: the workflow counts as running, and continues."""
    engine = _filled(taker)
    engine.clock.advance(60)
    key = engine.record().key
    engine.state.timers.cancel_timer((engine.record().wake_at or 0, OF_WORKFLOW, key))
    engine.do(WakeWorkflow(key))
    assert engine.status() is WorkflowStatus.RUNNING
    assert 0 < len(engine.history()) < COUNT
    engine.restart(*EVERY, clean=clean)
    engine.settle()
    assert engine.result() == [*range(COUNT)]


@pytest.mark.parametrize("to", ["w", None])
def test_event_between_the_batches_overtakes_nobody(to: str | None) -> None:
    """An event that arrives between batches waits behind those pending before it. Another waiter gets its turn."""
    engine = _filled(taker, to)
    engine.start(taker(1), "other")
    engine.clock.advance(60)
    engine.do(WakeWorkflow(engine.record().key))
    assert engine.send(go, 99, to=to) == Queued()
    engine.do(WakeWorkflow(engine.record().key))
    engine.settle()
    taken = engine.result()
    assert taken == sorted(taken)
    rest = engine.result("other") if to is None else [99]
    assert sorted(taken + rest) == [*range(COUNT), 99]


def test_workflow_that_waits_again_is_suspended() -> None:
    """When every postponed wait has been checked, an idle workflow is suspended and takes events at once."""
    engine = DirectEngine(*EVERY, config=TEN, checks=False)
    engine.start(taker(COUNT))
    engine.batch(*(event_of(go, number, to="w") for number in range(10)))
    engine.advance(60)
    assert engine.status() is WorkflowStatus.SUSPENDED
    engine.check()
    for number in range(10, COUNT):
        engine.send(go, number, to="w")
    assert engine.result() == [*range(COUNT)]


@pytest.mark.parametrize("is_ended", [True, False])
def test_workflow_that_ends_between_the_batches(is_ended: bool) -> None:
    """Postponed waits do no harm if their workflow is cancelled or evicted meanwhile."""
    engine = _filled(taker)
    engine.clock.advance(60)
    engine.do(WakeWorkflow(engine.record().key))
    if is_ended:
        engine.do(TerminateWorkflow("w"))
        engine.settle()
        assert len(engine.history()) + len(engine.letters()) == COUNT + 1
    else:
        engine.state.unload(engine.record().key)
        engine.settle()
        assert engine.result() == [*range(COUNT)]


@pytest.mark.parametrize("kind", ["gather", "spawn", "loop"])
def test_children_and_rounds_over_several_batches(kind: str) -> None:
    """A body that starts many children or runs many rounds does so over several commits."""
    engine = DirectEngine(*EVERY, config=TEN, checks=False)
    before = engine.commits
    engine.start(parent(kind))
    engine.settle()
    assert engine.result() == sum(range(COUNT))
    assert engine.commits >= before + 4


@pytest.mark.parametrize("loaded", [1, 2, 100])
def test_workflow_with_unchecked_waits_stays_in_memory(loaded: int) -> None:
    """A workflow with unchecked waits is not evicted: a rebuilt one would check them all again, and never finish."""
    config = EngineConfig(max_steps_per_decision=10, max_loaded_workflows=loaded)
    engine = DirectEngine(*EVERY, config=config, checks=False)
    ids = ["a", "b", "c", "d"]
    for id in ids:
        engine.start(crowd(ids), id, delay=1)
    engine.advance(1)
    assert [engine.result(id) for id in ids] == ["greeted"] * 4
    assert len(engine.state.loaded) <= loaded

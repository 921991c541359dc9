"""A child that its parent cancels first takes the events that its parent sent before, however long that takes."""

from __future__ import annotations

import pytest

from durable import Cancelled, Durable, EngineConfig, Event, WorkflowStatus, activity, gather, publish, spawn, workflow
from durable.model.records import EntryKind
from tests.engine.direct import DirectEngine, event_of

ping, answer, go_on = Event[int]("ping"), Event[int]("answer"), Event[None]("go-on")
news = Event[int]("news", consume_on_read=False)
COUNT = 30


@activity
async def slow() -> int:
    """Answered by hand."""
    return 0


@workflow(name="behind.kid")
def kid(name: str) -> Durable[None]:
    """Counts the events that it takes, and publishes the count when it is cancelled."""
    heard = 0
    try:
        while True:
            yield from (ping if name == "ping" else news).wait()
            heard += 1
    except Cancelled:
        publish(heard)
        raise


@workflow(name="behind.parent")
def parent(name: str) -> Durable[bool]:
    """Sends many events, then cancels its child."""
    child = yield from spawn(kid(name), "kid")
    for number in range(COUNT):
        if name == "ping":
            yield from ping.send(number, to=child.id)
        else:
            yield from news.send(number)
    return (yield from child.cancel())


@workflow(name="behind.late")
def late() -> Durable[None]:
    """Listens only after an activity has ended, and answers each event."""
    yield from slow()
    while True:
        number = yield from ping.wait()
        yield from answer.send(number)


@workflow(name="behind.restless")
def restless() -> Durable[None]:
    """Never rests: each event that it takes makes it send the next."""
    while True:
        number = yield from ping.wait()
        yield from ping.send(number + 1, to="kid")


@workflow(name="behind.patient")
def patient(name: str) -> Durable[bool]:
    """Waits for an event, spawns a child and sends many events, then waits for another event and cancels the child."""
    yield from go_on.wait()
    child = yield from spawn(restless() if name == "restless" else late(), "kid")
    for number in range(3 if name == "restless" else COUNT):
        yield from ping.send(number, to=child.id)
    # The child never takes this one.
    yield from answer.send(0, to=child.id)
    yield from go_on.wait()
    return (yield from child.cancel())


@workflow(name="behind.busy")
def busy() -> Durable[list[int]]:
    """Takes events next to an activity."""

    def take() -> Durable[int]:
        for _ in range(COUNT):
            yield from ping.wait()
        return COUNT

    return list((yield from gather(take(), slow())))


FLOWS = (kid, parent, late, restless, patient, busy)


@pytest.mark.parametrize("steps", [1, 2, 3, 10, 50, 1000])
@pytest.mark.parametrize("name", ["ping", "news"])
def test_all_is_heard_before_the_end(name: str, steps: int) -> None:
    """The child takes every event before it is cancelled, however few steps a decision may take."""
    engine = DirectEngine(*FLOWS, config=EngineConfig(max_steps_per_decision=steps), checks=False)
    engine.start(parent(name))
    engine.settle()
    assert engine.result() is True
    assert [entry.kind.value for entry in engine.history("kid")] == ["event"] * COUNT + ["cancel"]
    assert (engine.status("kid"), engine.letters()) == (WorkflowStatus.CANCELLED, [])


def _heard(engine: DirectEngine) -> int:
    """How many events the child has taken."""
    return sum(entry.kind is EntryKind.EVENT for entry in engine.history("kid"))


def _interrupted(fillers: int = 0) -> DirectEngine:
    """A parent that cancels its child while the child has not yet taken its events."""
    engine = DirectEngine(*FLOWS, config=EngineConfig(max_steps_per_decision=10), checks=False)
    engine.start(patient("late"))
    for number in range(fillers):
        engine.start(late(), f"filler-{number}")
    engine.send(go_on, None, to="w")
    engine.settle()
    engine.finish(engine.activities[-1], 0)
    engine.send(go_on, None, to="w")
    assert not engine.status("kid").is_terminal
    return engine


@pytest.mark.parametrize("more", [0, COUNT])
def test_child_that_is_behind_catches_up_first(more: int) -> None:
    """The cancel waits until the child has taken the earlier events, whatever others send meanwhile."""
    engine = _interrupted()
    engine.batch(*(event_of(ping, number, to="kid") for number in range(more)))
    engine.settle()
    assert engine.result() is True
    assert COUNT <= _heard(engine) < COUNT + 10


@pytest.mark.parametrize("fillers", [0, 60])
@pytest.mark.parametrize("clean", [True, False])
def test_all_is_heard_though_the_process_dies_in_between(clean: bool, fillers: int) -> None:
    """The child takes every event even if the recovery reaches the parent long before the child."""
    engine = _interrupted(fillers)
    engine.restart(*FLOWS, clean=clean)
    engine.advance(60)
    assert engine.result() is True
    assert _heard(engine) == COUNT


@pytest.mark.parametrize("steps", [10, 11, 12, 13])
def test_other_events_do_not_hold_it_up(steps: int) -> None:
    """A child that never rests is cancelled anyway, whatever it is sent later or does not wait for."""
    engine = DirectEngine(*FLOWS, config=EngineConfig(max_steps_per_decision=steps), checks=False)
    engine.start(patient("restless"))
    engine.batch(event_of(go_on, None, to="w"), event_of(go_on, None, to="w"))
    engine.settle()
    assert (engine.result(), engine.status("kid")) == (True, WorkflowStatus.CANCELLED)


def test_workflow_with_waits_to_look_at_counts_as_running() -> None:
    """An activity that ends meanwhile does not put the workflow to sleep: after a crash nobody would wake it."""
    engine = DirectEngine(*FLOWS, config=EngineConfig(max_steps_per_decision=10), checks=False)
    engine.batch(*(event_of(ping, number, to="w", allow_unstarted=True) for number in range(COUNT)))
    engine.start(busy())
    engine.finish(engine.activities[0], 7)
    assert engine.status() is WorkflowStatus.RUNNING
    engine.restart(*FLOWS)
    assert engine.result() == [COUNT, 7]

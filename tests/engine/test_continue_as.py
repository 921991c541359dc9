"""Workflows that continue as a new round."""

from __future__ import annotations

from typing import Any

import pytest

from durable import Durable, WorkflowStatus, now, race, sleep, workflow
from durable.engine.config import EngineConfig
from durable.engine.operations import CancelWorkflow, TerminateWorkflow
from tests.engine.direct import DirectEngine, call_of
from tests.engine.flows import EVERY, go, other, rounds, sleeper, spinner, waiter, work, work_rounds, worker


def test_history_is_cleared() -> None:
    """A new round begins with an empty history and its own arguments, under the same id and key."""
    engine = DirectEngine(*EVERY)
    engine.start(rounds(2))
    before = engine.record()
    engine.send(go, 5, to="w")
    assert (engine.history(), engine.waits()) == ([], [])
    engine.settle()
    after = engine.record()
    assert (after.key, after.round, after.input) == (before.key, 1, '{"left":1,"so_far":5}')
    assert len(engine.waits()) == 1


@pytest.mark.parametrize("clean", [True, False])
def test_restart_between_two_rounds(clean: bool) -> None:
    """After a restart between the commit of a round and its first step, the workflow continues with that round."""
    engine = DirectEngine(*EVERY)
    engine.start(rounds(2))
    engine.send(go, 5, to="w")
    engine.restart(*EVERY, clean=clean)
    engine.send(go, 6, to="w")
    engine.settle()
    assert engine.result() == 11


def test_mailbox_survives() -> None:
    """Events that a round did not take stay in the mailbox for later rounds."""
    engine = DirectEngine(*EVERY)
    engine.start(work_rounds(1), "busy")
    engine.send(go, 1, to="busy", key="never")
    engine.finish(engine.activities[0], 1)
    engine.settle()
    assert engine.pending("go") == 1
    engine.start(rounds(3))
    engine.batch(call_of(sleeper(), "x"))
    for number in (1, 2):
        engine.send(go, number, to="w")
    engine.settle()
    assert engine.record().round == 2


def test_mail_between_two_rounds() -> None:
    """An event that arrives between two rounds waits in the mailbox for the next one."""
    engine = DirectEngine(*EVERY)
    engine.start(rounds(3))
    engine.send(go, 1, to="w")
    engine.send(go, 2, to="w")
    engine.settle()
    engine.settle()
    assert (engine.record().round, engine.pending("go")) == (2, 0)


def test_a_thousand_rounds_take_constant_space() -> None:
    """After a thousand rounds there are as many rows as after one."""
    engine = DirectEngine(*EVERY, checks=False)
    engine.start(work_rounds(-1000))
    engine.finish(engine.activities[-1], 0)
    engine.settle()
    rows = engine.rows()
    while engine.record().round < 1000:
        engine.finish(engine.activities[-1], 0)
        engine.settle()
    assert engine.rows() == rows
    assert len(engine.state.in_flight) <= 1


def test_rounds_that_wait_for_nothing() -> None:
    """A workflow that continues again and again without waiting ends, and other workflows get their turn meanwhile."""
    engine = DirectEngine(*EVERY, checks=False)
    engine.start(spinner(1000))
    engine.start(worker(), "other")
    assert len(engine.activities) == 1
    assert engine.status() is WorkflowStatus.RUNNING
    engine.settle()
    assert engine.result() == 99


def test_continue_as_another_workflow() -> None:
    """A workflow may continue as another workflow: the new name is stored, and the original start still finds it."""

    @workflow(name="continue.first")
    def first() -> Durable[str]:
        yield from sleep(10)
        raise sleeper.continue_as(20)

    engine = DirectEngine(first, *EVERY)
    engine.start(first())
    engine.advance(10)
    assert engine.record().name == "engine.sleeper"
    assert engine.start(first()).key == engine.record().key
    engine.restart(*EVERY)
    engine.advance(20)
    assert engine.result() == "2031-05-17T12:00:30+00:00"


def test_new_round_has_a_new_now() -> None:
    """A round's time begins when the round before ended."""

    @workflow(name="continue.clock")
    def clock(left: int = 1) -> Durable[str]:
        if left == 0:
            return now().isoformat()[11:19]
        yield from sleep(90)
        raise clock.continue_as(left - 1)

    engine = DirectEngine(clock)
    engine.start(clock())
    engine.advance(90)
    assert engine.result() == "12:01:30"


@pytest.mark.parametrize("which", ["type", "count", "size", "name"])
def test_bad_arguments_fail_the_workflow(which: str) -> None:
    """Arguments that do not fit, are too large or belong to another function make the workflow fail, not hang."""

    @workflow(name="engine.sleeper")
    def impostor() -> Durable[None]:
        yield from sleep(1)

    @workflow(name="continue.bad")
    def bad(value: str) -> Durable[None]:
        yield from sleep(0)
        calls: dict[str, Any] = {
            "type": lambda: bad.continue_as(object()),  # type: ignore[arg-type]
            "count": bad.continue_as,
            "size": lambda: bad.continue_as("x" * 1000),
            "name": impostor.continue_as,
        }
        raise calls[value]()

    engine = DirectEngine(bad, *EVERY, config=EngineConfig(max_payload_bytes=100))
    engine.start(bad(which))
    assert engine.status() is WorkflowStatus.FAILED
    names = {"type": "CodecError", "count": "TypeError", "size": "PayloadTooLarge", "name": "DuplicateWorkflow"}
    assert names[which] in engine.record().error  # type: ignore[operator]


@pytest.mark.parametrize("end", [CancelWorkflow("w"), TerminateWorkflow("w")])
def test_cancel_between_two_rounds(end: CancelWorkflow) -> None:
    """A workflow that is ended between two rounds ends as cancelled, and its next round never runs."""
    engine = DirectEngine(*EVERY)
    engine.start(rounds(2))
    engine.send(go, 5, to="w")
    assert engine.do(end) is True
    engine.settle()
    assert engine.status() is WorkflowStatus.CANCELLED


def test_cancel_of_a_workflow_that_always_continues() -> None:
    """A workflow that continues again and again can still be cancelled."""
    engine = DirectEngine(*EVERY)
    engine.start(spinner(1000))
    assert engine.cancel() is True
    engine.settle()
    assert engine.status() is WorkflowStatus.CANCELLED


def test_cancel_of_a_workflow_whose_next_round_ends() -> None:
    """A cancel that finds the next round at its end comes too late, and returns False."""
    engine = DirectEngine(*EVERY)
    engine.start(spinner(1))
    assert engine.cancel() is False
    assert engine.result() == 99


@workflow(name="continue.polling")
def polling(number: int) -> Durable[int]:
    won = yield from race(work=work(number), event=go.wait())
    if won.key == "work":
        return int(won.value)
    raise polling.continue_as(number + 1)


def test_continue_as_stops_the_losing_activity() -> None:
    """A round that ends while a losing activity runs stops it, and the next round runs its own."""
    engine = DirectEngine(polling)
    engine.start(polling(1))
    first = engine.activities[0]
    engine.send(go, 0, to="w")
    engine.settle()
    assert [effect.args for effect in engine.activities] == [(2,)]
    engine.finish(first, 111)
    assert engine.status() is WorkflowStatus.RUNNING


@workflow(name="continue.ends_with_loser")
def ends_with_loser() -> Durable[Any]:
    won = yield from race(child=waiter(), event=other.wait())
    return won.key


@workflow(name="continue.continues_with_loser")
def continues_with_loser(left: int = 1) -> Durable[Any]:
    if left == 0:
        return (yield from sleep(100)).isoformat()
    yield from race(child=waiter(), event=other.wait())
    raise continues_with_loser.continue_as(left - 1)


@pytest.mark.parametrize("call", [ends_with_loser, continues_with_loser])
def test_losing_child_of_the_last_race_is_cancelled(call: Any) -> None:
    """A child that loses a race is cancelled even if its parent ends or continues right after the race."""
    engine = DirectEngine(*EVERY, ends_with_loser, continues_with_loser)
    engine.start(call())
    engine.send(other, 1)
    engine.settle()
    assert engine.status("w/0.child.0") is WorkflowStatus.CANCELLED


@workflow(name="continue.two_events")
def two_events(left: int = 1) -> Durable[Any]:
    yield from race(go.wait(), other.wait())
    if left == 0:
        return None
    raise two_events.continue_as(left - 1)


def test_losing_wait_does_not_survive_continue_as() -> None:
    """A wait that lost a race is gone when the workflow continues as a new round."""
    engine = DirectEngine(*EVERY, two_events, checks=False)
    engine.start(two_events())
    engine.send(go, 1, to="w")
    assert engine.waits() == []

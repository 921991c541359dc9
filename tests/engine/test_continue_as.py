"""Workflows that go on as another round."""

from __future__ import annotations

from typing import Any

import pytest

from durable import Durable, WorkflowStatus, now, race, sleep, workflow
from durable.engine.config import EngineConfig
from durable.engine.operations import CancelWorkflow, TerminateWorkflow
from tests.engine.desk import Desk, call_of
from tests.engine.flows import EVERY, go, other, rounds, sleeper, spinner, waiter, work, work_rounds, worker


def test_history_is_cleared() -> None:
    """A new round begins with an empty history and its own arguments, under the same id and key."""
    desk = Desk(*EVERY)
    desk.start(rounds(2))
    before = desk.record()
    desk.send(go, 5, to="w")
    assert (desk.history(), desk.waits()) == ([], [])
    desk.settle()
    after = desk.record()
    assert (after.key, after.round, after.input) == (before.key, 1, '{"left":1,"so_far":5}')
    assert len(desk.waits()) == 1


@pytest.mark.parametrize("clean", [True, False])
def test_restart_between_two_rounds(clean: bool) -> None:
    """A restart between the commit of a round and its first step goes on with that round."""
    desk = Desk(*EVERY)
    desk.start(rounds(2))
    desk.send(go, 5, to="w")
    desk.restart(*EVERY, clean=clean)
    desk.send(go, 6, to="w")
    desk.settle()
    assert desk.result() == 11


def test_mailbox_survives() -> None:
    """What was sent to a workflow and not taken yet is taken by its later rounds."""
    desk = Desk(*EVERY)
    desk.start(work_rounds(1), "busy")
    desk.send(go, 1, to="busy", key="never")
    desk.finish(desk.activities[0], 1)
    desk.settle()
    assert desk.pending("go") == 1
    desk.start(rounds(3))
    desk.batch(call_of(sleeper(), "x"))
    for number in (1, 2):
        desk.send(go, number, to="w")
    desk.settle()
    assert desk.record().round == 2


def test_mail_between_two_rounds() -> None:
    """An event that comes between two rounds waits in the mailbox for the next one."""
    desk = Desk(*EVERY)
    desk.start(rounds(3))
    desk.send(go, 1, to="w")
    desk.send(go, 2, to="w")
    desk.settle()
    desk.settle()
    assert (desk.record().round, desk.pending("go")) == (2, 0)


def test_a_thousand_rounds_take_constant_space() -> None:
    """After a thousand rounds there are as many rows as after one."""
    desk = Desk(*EVERY, checks=False)
    desk.start(work_rounds(-1000))
    desk.finish(desk.activities[-1], 0)
    desk.settle()
    rows = desk.rows()
    while desk.record().round < 1000:
        desk.finish(desk.activities[-1], 0)
        desk.settle()
    assert desk.rows() == rows
    assert len(desk.state.in_flight) <= 1


def test_rounds_that_wait_for_nothing() -> None:
    """A workflow that continues at once again and again ends, and another one gets its turn meanwhile."""
    desk = Desk(*EVERY, checks=False)
    desk.start(spinner(1000))
    desk.start(worker(), "other")
    assert len(desk.activities) == 1
    assert desk.status() is WorkflowStatus.RUNNING
    desk.settle()
    assert desk.result() == 99


def test_continue_as_another_workflow() -> None:
    """A workflow may continue as another one; that one's name is stored, and the first start is still known."""

    @workflow(name="continue.first")
    def first() -> Durable[str]:
        yield from sleep(10)
        raise sleeper.continue_as(20)

    desk = Desk(first, *EVERY)
    desk.start(first())
    desk.advance(10)
    assert desk.record().name == "desk.sleeper"
    assert desk.start(first()).key == desk.record().key
    desk.restart(*EVERY)
    desk.advance(20)
    assert desk.result() == "2031-05-17T12:00:30+00:00"


def test_new_round_has_a_new_now() -> None:
    """A round's time begins when the last round ended."""

    @workflow(name="continue.clock")
    def clock(left: int = 1) -> Durable[str]:
        if left == 0:
            return now().isoformat()[11:19]
        yield from sleep(90)
        raise clock.continue_as(left - 1)

    desk = Desk(clock)
    desk.start(clock())
    desk.advance(90)
    assert desk.result() == "12:01:30"


@pytest.mark.parametrize("which", ["type", "count", "size", "name"])
def test_bad_arguments_fail_the_workflow(which: str) -> None:
    """Arguments that do not fit, are too large or belong to another function end the workflow failed, not stuck."""

    @workflow(name="desk.sleeper")
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

    desk = Desk(bad, *EVERY, config=EngineConfig(max_payload_bytes=100))
    desk.start(bad(which))
    assert desk.status() is WorkflowStatus.FAILED
    names = {"type": "CodecError", "count": "TypeError", "size": "PayloadTooLarge", "name": "DuplicateWorkflow"}
    assert names[which] in desk.record().error  # type: ignore[operator]


@pytest.mark.parametrize("end", [CancelWorkflow("w"), TerminateWorkflow("w")])
def test_cancel_between_two_rounds(end: CancelWorkflow) -> None:
    """A workflow that is ended between two rounds ends cancelled, and its next round never goes on."""
    desk = Desk(*EVERY)
    desk.start(rounds(2))
    desk.send(go, 5, to="w")
    assert desk.do(end) is True
    desk.settle()
    assert desk.status() is WorkflowStatus.CANCELLED


def test_cancel_of_one_that_always_continues() -> None:
    """A workflow that continues whenever it is looked at can be cancelled all the same."""
    desk = Desk(*EVERY)
    desk.start(spinner(1000))
    assert desk.cancel() is True
    desk.settle()
    assert desk.status() is WorkflowStatus.CANCELLED


def test_cancel_of_one_whose_next_round_ends() -> None:
    """A cancel that finds the next round at its end comes too late, and is told so."""
    desk = Desk(*EVERY)
    desk.start(spinner(1))
    assert desk.cancel() is False
    assert desk.result() == 99


@workflow(name="continue.polling")
def polling(number: int) -> Durable[int]:
    won = yield from race(work=work(number), event=go.wait())
    if won.key == "work":
        return int(won.value)
    raise polling.continue_as(number + 1)


def test_continue_as_stops_the_losing_activity() -> None:
    """A round that ends while a losing activity runs stops it, and the next round runs its own."""
    desk = Desk(polling)
    desk.start(polling(1))
    first = desk.activities[0]
    desk.send(go, 0, to="w")
    desk.settle()
    assert [effect.args for effect in desk.activities] == [(2,)]
    desk.finish(first, 111)
    assert desk.status() is WorkflowStatus.RUNNING


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
    """A child that loses a race is cancelled also when its parent ends or continues right after the race."""
    desk = Desk(*EVERY, ends_with_loser, continues_with_loser)
    desk.start(call())
    desk.send(other, 1)
    desk.settle()
    assert desk.status("w/0.child.0") is WorkflowStatus.CANCELLED


@workflow(name="continue.two_events")
def two_events(left: int = 1) -> Durable[Any]:
    yield from race(go.wait(), other.wait())
    if left == 0:
        return None
    raise two_events.continue_as(left - 1)


def test_losing_wait_does_not_survive_continue_as() -> None:
    """The wait that lost a race is gone when the workflow continues: waits do not survive."""
    desk = Desk(*EVERY, two_events, checks=False)
    desk.start(two_events())
    desk.send(go, 1, to="w")
    assert desk.waits() == []

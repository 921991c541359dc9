"""Workflows that do not fit their code or their data are set aside, and go on when they fit again."""

from __future__ import annotations

from collections import deque
from typing import Any

import attrs
import pytest

from durable import Durable, Event, ParkReason, Queued, WorkflowStatus, gather, sleep, workflow
from durable.backends.memory import MemoryBackend, MemoryStore
from durable.engine import operations as ops
from durable.engine.decide.queries import Pending
from durable.engine.operations import (
    AwaitEnd,
    CheckWaits,
    DescribeWorkflow,
    Parked,
    ResumeWorkflow,
    SendEvent,
    StopActivity,
    TerminateWorkflow,
)
from durable.engine.operations.messages import LookAgain
from durable.errors import InvariantViolated, WorkflowTerminated
from durable.model.codec import Codec
from durable.model.registry import Registry
from durable.runner.definitions import WorkflowDef
from tests.engine.desk import Desk, event_of, refusal
from tests.engine.flows import EVERY, go, late_waiter, sleeper, waiter, work, worker


def _changing(second: str) -> WorkflowDef[[], Any]:
    """A workflow whose first and second steps depend on the version of its code."""

    @workflow(name="parking.changing")
    def changing() -> Durable[Any]:
        if second == "diverged":
            yield from sleep(1)
        elif second == "ended":
            return "early"
        yield from work(1)
        yield from go.wait()
        return "done"

    return changing


def _parked() -> Desk:
    """A workflow that has done its first step, under code that it does not fit."""
    desk = Desk(_changing("fits"), *EVERY)
    desk.start(_changing("fits")())
    desk.finish(desk.activities[0], 1)
    desk.restart(_changing("diverged"), *EVERY)
    desk.do(ResumeWorkflow(desk.record().key))
    return desk


class Opaque:
    """A type that cannot be stored."""


def test_divergence_parks_with_both_sides() -> None:
    """A body that asks for something else than what is recorded is parked with a diff, and nothing is appended."""
    desk = _parked()
    record = desk.record()
    assert (record.status, record.park_reason) == (WorkflowStatus.PARKED, ParkReason.DIVERGED)
    assert "recorded: activity desk.work" in (record.park_detail or "")
    assert len(desk.history()) == 1


def test_early_end_parks() -> None:
    """Code that ends before what is recorded is parked too."""
    desk = Desk(_changing("fits"))
    desk.start(_changing("fits")())
    desk.finish(desk.activities[0], 1)
    desk.restart(_changing("ended"))
    desk.do(ResumeWorkflow(desk.record().key))
    assert desk.record().park_reason is ParkReason.DIVERGED
    assert "the workflow has ended" in (desk.record().park_detail or "")


def test_parked_workflow_goes_on_with_the_right_code() -> None:
    """A parked workflow goes on where it was as soon as its code fits again."""
    desk = _parked()
    assert desk.send(go, 1, to="w") == Queued()
    report = desk.restart(_changing("fits"), *EVERY)
    assert (report.unparked, report.parked) == (1, 0)
    assert desk.record().park_reason is None
    assert len(desk.history()) == 2


def test_parked_workflow_stays_parked_without_it() -> None:
    """A restart without the right code leaves a workflow parked, and writes nothing about it again."""
    desk = _parked()
    before = desk.record()
    report = desk.restart(_changing("diverged"), *EVERY)
    assert (report.unparked, report.parked) == (0, 1)
    assert desk.record() == before


def test_others_go_on() -> None:
    """While one workflow is parked all others go on."""
    desk = _parked()
    desk.start(waiter(), "other")
    desk.send(go, 5)
    assert desk.result("other") == 5
    assert desk.status() is WorkflowStatus.PARKED


def test_nothing_is_appended_while_parked() -> None:
    """Events, wake-ups and late answers do not touch a parked workflow; its mail is kept."""
    desk = Desk(*EVERY)
    desk.start(worker())
    (effect,) = desk.activities
    desk.restart(recover=False)
    desk.do(ResumeWorkflow(effect.key))
    assert desk.record().park_reason is ParkReason.UNKNOWN_CODE
    before = desk.record()
    desk.do(desk.answer(effect, 1))
    desk.send(go, 1, to="w")
    desk.advance(1000)
    assert (desk.record(), desk.history()) == (before, [])
    assert desk.do(DescribeWorkflow("w")).pending_events == 1


def test_unknown_name_parks_and_names_the_cure() -> None:
    """A workflow whose code is not there is parked with what to do about it."""
    desk = Desk(*EVERY)
    desk.start(waiter())
    desk.restart()
    desk.send(go, 1)
    assert desk.record().park_reason is ParkReason.UNKNOWN_CODE
    assert "import the module" in (desk.record().park_detail or "")
    desk.restart(*EVERY)
    assert desk.result() == 1


def test_unreadable_input_parks() -> None:
    """Stored arguments that today's function cannot take park the workflow."""

    def takes(kind: Any) -> WorkflowDef[[Any], None]:
        @workflow(name="parking.input")
        def taker(value: kind) -> Durable[None]:
            yield from sleep(60)

        taker.fn.__annotations__["value"] = kind
        return taker

    desk = Desk(takes(str))
    desk.start(takes(str)("text"))
    desk.restart(takes(int))
    desk.advance(60)
    assert desk.record().park_reason is ParkReason.UNREADABLE
    desk.restart(takes(str))
    assert desk.status() is WorkflowStatus.SUCCEEDED


def test_unreadable_history_parks() -> None:
    """A recorded result that cannot be read parks the workflow, whoever spoilt it."""
    store = MemoryStore()
    desk = Desk(*EVERY, make=lambda: MemoryBackend(store))
    desk.start(late_waiter())
    desk.finish(desk.activities[0], 1)
    key = desk.record().key
    desk.restart(*EVERY)
    (entry,) = store.history[key].values()
    store.history[key][entry.seq] = entry._replace(outcome='"text"')
    desk.send(go, 5)
    assert desk.record().park_reason is ParkReason.UNREADABLE
    assert desk.pending("go") == 1


class HostileCodec(Codec):
    """Fails in a way that no codec should."""

    def function(self, fn: Any, name: str) -> Any:
        raise ZeroDivisionError("hostile")


def test_body_that_cannot_be_rebuilt_parks() -> None:
    """Whatever else goes wrong while a body is rebuilt parks that workflow and no other."""
    desk = Desk(*EVERY)
    desk.start(sleeper())
    desk.codec = HostileCodec()
    desk.restart(*EVERY)
    desk.do(ResumeWorkflow(desk.record().key))
    assert desk.record().park_reason is ParkReason.UNREADABLE
    assert "ZeroDivisionError" in (desk.record().park_detail or "")


def test_bug_of_ours_parks_nobody() -> None:
    """A broken invariant while a body is rebuilt is not taken for bad data: it stops the engine."""

    @workflow(name="parking.ours")
    def ours() -> Durable[None]:
        yield from sleep(60)

    desk = Desk(ours)
    desk.start(ours())
    desk.restart(ours)
    desk.backend.close()
    with pytest.raises(InvariantViolated):
        desk.do(ResumeWorkflow(1))


def test_long_detail_is_cut() -> None:
    """The detail of a parked workflow is bounded."""
    store = MemoryStore()
    desk = Desk(*EVERY, make=lambda: MemoryBackend(store))
    desk.start(waiter())
    desk.restart(*EVERY)
    record = desk.record()
    store.workflows[record.key] = attrs.evolve(record, name="x" * 20_000)
    desk.do(ResumeWorkflow(record.key))
    assert len(desk.record().park_detail or "") == 8000


def test_parked_workflow_can_be_ended() -> None:
    """A parked workflow can be terminated: its body cannot run, and it ends at once."""
    desk = _parked()
    desk.send(go, 1, to="w")
    end = TerminateWorkflow("w", "why")
    assert desk.do(end) is True
    assert (desk.status(), desk.record().cancel_reason) == (WorkflowStatus.CANCELLED, "why")
    assert desk.record().park_reason is None
    assert len(desk.letters()) == 1
    assert desk.do(end) is False
    assert refusal(desk.batch(event_of(go, 2, to="w"))[0])[0] is WorkflowTerminated


def test_cancel_that_parks() -> None:
    """A cancel that finds the code gone is kept until it is back."""
    desk = Desk(*EVERY)
    desk.start(worker())
    desk.restart(recover=False)
    assert desk.cancel(reason="why") is True
    assert (desk.status(), desk.record().cancel_reason) == (WorkflowStatus.PARKED, "why")
    desk.restart(*EVERY)
    assert (desk.status(), desk.record().cancel_reason) == (WorkflowStatus.CANCELLED, "why")


def _done() -> WorkflowDef[[], int]:
    """New code of `waiter`, which has nothing left to do."""

    @workflow(name="desk.waiter")
    def done() -> Durable[int]:
        return 3
        yield from sleep(1)

    return done


def test_cancel_of_one_that_ends_under_new_code() -> None:
    """A cancel that finds that the new code has nothing left to do comes too late."""
    desk = Desk(*EVERY)
    desk.start(waiter())
    desk.restart(_done())
    assert desk.cancel() is False
    assert desk.result() == 3


def test_terminate_of_one_that_ends_under_new_code() -> None:
    """A terminate runs nothing, so it ends a workflow that the new code would have brought to its end."""
    desk = Desk(*EVERY)
    desk.start(waiter())
    desk.restart(_done())
    assert desk.do(ops.TerminateWorkflow("w")) is True
    assert desk.status() is WorkflowStatus.CANCELLED


def test_parking_stops_what_runs() -> None:
    """Activities of a workflow that is parked while they run are stopped."""
    desk = Desk(*EVERY)

    @workflow(name="parking.mixed")
    def mixed() -> Durable[None]:
        yield from gather(work(1), Event[Opaque]("mixed").wait())

    desk.start(mixed())
    desk.do(SendEvent(name="mixed", payload='"text"'))
    assert desk.status() is WorkflowStatus.PARKED
    assert StopActivity in [type(effect) for effect in desk.effects]
    assert desk.activities == []


@pytest.mark.parametrize("is_known", [True, False])
def test_waits_of_a_workflow_that_cannot_run(is_known: bool) -> None:
    """Waits that were put off are checked only if the body can be rebuilt, and only once."""
    desk = Desk(*EVERY, checks=False)
    record = desk.start(waiter())
    desk.state.unload(record.key)
    desk.state.put_off[record.key] = deque([LookAgain(record.key, "0")])
    if not is_known:
        desk.state.registry = Registry(())
    desk.do(CheckWaits(record.key))
    desk.do(CheckWaits(record.key))
    assert desk.status() is (WorkflowStatus.SUSPENDED if is_known else WorkflowStatus.PARKED)


def test_parked_workflow_is_an_answer_only_on_request() -> None:
    """A caller that does not wait for parked workflows gets the record; any other caller keeps waiting."""
    desk = Desk(*EVERY)
    desk.start(worker())
    desk.restart()
    assert desk.status() is WorkflowStatus.PARKED
    assert Parked(desk.record()) in desk.effects
    assert desk.do(AwaitEnd("w", wait_if_parked=False)) == desk.record()
    assert desk.batch(AwaitEnd("w")) == [Pending(desk.record().key)]

"""Workflows that do not fit their code or data are parked, and continue when they fit again."""

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
from tests.engine.direct import DirectEngine, event_of, refusal
from tests.engine.flows import EVERY, go, late_waiter, sleeper, waiter, work, worker


def _changing(second: str) -> WorkflowDef[[], Any]:
    """A workflow whose steps depend on the version of its code."""

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


def _parked() -> DirectEngine:
    """A workflow that did its first step and now has code that it does not fit."""
    engine = DirectEngine(_changing("fits"), *EVERY)
    engine.start(_changing("fits")())
    engine.finish(engine.activities[0], 1)
    engine.restart(_changing("diverged"), *EVERY)
    engine.do(ResumeWorkflow(engine.record().key))
    return engine


class Opaque:
    """A type that cannot be stored."""


def test_divergence_parks_with_both_sides() -> None:
    """A body that diverges from its history is parked with a diff, and nothing is appended."""
    engine = _parked()
    record = engine.record()
    assert (record.status, record.park_reason) == (WorkflowStatus.PARKED, ParkReason.DIVERGED)
    assert "recorded: activity engine.work" in (record.park_detail or "")
    assert len(engine.history()) == 1


def test_early_end_parks() -> None:
    """A body that ends before its recorded entries do is parked."""
    engine = DirectEngine(_changing("fits"))
    engine.start(_changing("fits")())
    engine.finish(engine.activities[0], 1)
    engine.restart(_changing("ended"))
    engine.do(ResumeWorkflow(engine.record().key))
    assert engine.record().park_reason is ParkReason.DIVERGED
    assert "the workflow has ended" in (engine.record().park_detail or "")


def test_parked_workflow_goes_on_with_the_right_code() -> None:
    """A parked workflow continues where it was once its code fits."""
    engine = _parked()
    assert engine.send(go, 1, to="w") == Queued()
    report = engine.restart(_changing("fits"), *EVERY)
    assert (report.unparked, report.parked) == (1, 0)
    assert engine.record().park_reason is None
    assert len(engine.history()) == 2


def test_parked_workflow_stays_parked_without_it() -> None:
    """A restart without the right code leaves a workflow parked, and does not rewrite its record."""
    engine = _parked()
    before = engine.record()
    report = engine.restart(_changing("diverged"), *EVERY)
    assert (report.unparked, report.parked) == (0, 1)
    assert engine.record() == before


def test_others_go_on() -> None:
    """Other workflows continue while one is parked."""
    engine = _parked()
    engine.start(waiter(), "other")
    engine.send(go, 5)
    assert engine.result("other") == 5
    assert engine.status() is WorkflowStatus.PARKED


def test_nothing_is_appended_while_parked() -> None:
    """Events, wake-ups and late results do not change a parked workflow, and its mail is kept."""
    engine = DirectEngine(*EVERY)
    engine.start(worker())
    (effect,) = engine.activities
    engine.restart(recover=False)
    engine.do(ResumeWorkflow(effect.key))
    assert engine.record().park_reason is ParkReason.UNKNOWN_CODE
    before = engine.record()
    engine.do(engine.answer(effect, 1))
    engine.send(go, 1, to="w")
    engine.advance(1000)
    assert (engine.record(), engine.history()) == (before, [])
    assert engine.do(DescribeWorkflow("w")).pending_events == 1


def test_unknown_name_parks_and_names_the_cure() -> None:
    """A workflow whose code is missing is parked, and the detail says what to do."""
    engine = DirectEngine(*EVERY)
    engine.start(waiter())
    engine.restart()
    engine.send(go, 1)
    assert engine.record().park_reason is ParkReason.UNKNOWN_CODE
    assert "import the module" in (engine.record().park_detail or "")
    engine.restart(*EVERY)
    assert engine.result() == 1


def test_unreadable_input_parks() -> None:
    """Stored arguments that the new function cannot read park the workflow."""

    def takes(kind: Any) -> WorkflowDef[[Any], None]:
        @workflow(name="parking.input")
        def taker(value: kind) -> Durable[None]:
            yield from sleep(60)

        taker.fn.__annotations__["value"] = kind
        return taker

    engine = DirectEngine(takes(str))
    engine.start(takes(str)("text"))
    engine.restart(takes(int))
    engine.advance(60)
    assert engine.record().park_reason is ParkReason.UNREADABLE
    engine.restart(takes(str))
    assert engine.status() is WorkflowStatus.SUCCEEDED


def test_unreadable_history_parks() -> None:
    """A recorded result that is unreadable parks the workflow."""
    store = MemoryStore()
    engine = DirectEngine(*EVERY, make=lambda: MemoryBackend(store))
    engine.start(late_waiter())
    engine.finish(engine.activities[0], 1)
    key = engine.record().key
    engine.restart(*EVERY)
    (entry,) = store.history[key].values()
    store.history[key][entry.seq] = entry._replace(outcome='"text"')
    engine.send(go, 5)
    assert engine.record().park_reason is ParkReason.UNREADABLE
    assert engine.pending("go") == 1


class HostileCodec(Codec):
    """Fails in a way that no codec should."""

    def function(self, fn: Any, name: str) -> Any:
        raise ZeroDivisionError("hostile")


def test_body_that_cannot_be_rebuilt_parks() -> None:
    """Any other error while a body is rebuilt parks that workflow and no other."""
    engine = DirectEngine(*EVERY)
    engine.start(sleeper())
    engine.codec = HostileCodec()
    engine.restart(*EVERY)
    engine.do(ResumeWorkflow(engine.record().key))
    assert engine.record().park_reason is ParkReason.UNREADABLE
    assert "ZeroDivisionError" in (engine.record().park_detail or "")


def test_bug_of_ours_parks_nobody() -> None:
    """A broken invariant while a body is rebuilt is not taken for bad data: it stops the engine."""

    @workflow(name="parking.ours")
    def ours() -> Durable[None]:
        yield from sleep(60)

    engine = DirectEngine(ours)
    engine.start(ours())
    engine.restart(ours)
    engine.backend.close()
    with pytest.raises(InvariantViolated):
        engine.do(ResumeWorkflow(1))


def test_long_detail_is_cut() -> None:
    """The detail of a parked workflow is cut to a limit."""
    store = MemoryStore()
    engine = DirectEngine(*EVERY, make=lambda: MemoryBackend(store))
    engine.start(waiter())
    engine.restart(*EVERY)
    record = engine.record()
    store.workflows[record.key] = attrs.evolve(record, name="x" * 20_000)
    engine.do(ResumeWorkflow(record.key))
    assert len(engine.record().park_detail or "") == 8000


def test_parked_workflow_can_be_ended() -> None:
    """A parked workflow ends at once when it is terminated, because its body cannot run."""
    engine = _parked()
    engine.send(go, 1, to="w")
    end = TerminateWorkflow("w", "why")
    assert engine.do(end) is True
    assert (engine.status(), engine.record().cancel_reason) == (WorkflowStatus.CANCELLED, "why")
    assert engine.record().park_reason is None
    assert len(engine.letters()) == 1
    assert engine.do(end) is False
    assert refusal(engine.batch(event_of(go, 2, to="w"))[0])[0] is WorkflowTerminated


def test_cancel_that_parks() -> None:
    """A cancel of a workflow without code is kept until the code is back."""
    engine = DirectEngine(*EVERY)
    engine.start(worker())
    engine.restart(recover=False)
    assert engine.cancel(reason="why") is True
    assert (engine.status(), engine.record().cancel_reason) == (WorkflowStatus.PARKED, "why")
    engine.restart(*EVERY)
    assert (engine.status(), engine.record().cancel_reason) == (WorkflowStatus.CANCELLED, "why")


def _done() -> WorkflowDef[[], int]:
    """New code of `waiter` that ends at once."""

    @workflow(name="engine.waiter")
    def done() -> Durable[int]:
        return 3
        yield from sleep(1)

    return done


def test_cancel_of_a_workflow_that_ends_under_new_code() -> None:
    """A cancel comes too late if the new code ends at once."""
    engine = DirectEngine(*EVERY)
    engine.start(waiter())
    engine.restart(_done())
    assert engine.cancel() is False
    assert engine.result() == 3


def test_terminate_of_a_workflow_that_ends_under_new_code() -> None:
    """Terminate runs no code, so it ends a workflow whose new code would have ended by itself."""
    engine = DirectEngine(*EVERY)
    engine.start(waiter())
    engine.restart(_done())
    assert engine.do(ops.TerminateWorkflow("w")) is True
    assert engine.status() is WorkflowStatus.CANCELLED


def test_parking_stops_what_runs() -> None:
    """Parking a workflow stops its running activities."""
    engine = DirectEngine(*EVERY)

    @workflow(name="parking.mixed")
    def mixed() -> Durable[None]:
        yield from gather(work(1), Event[Opaque]("mixed").wait())

    engine.start(mixed())
    engine.do(SendEvent(name="mixed", payload='"text"'))
    assert engine.status() is WorkflowStatus.PARKED
    assert StopActivity in [type(effect) for effect in engine.effects]
    assert engine.activities == []


@pytest.mark.parametrize("has_code", [True, False])
def test_waits_of_a_workflow_that_cannot_run(has_code: bool) -> None:
    """Postponed waits are checked only if the body can be rebuilt, and only once."""
    engine = DirectEngine(*EVERY, checks=False)
    record = engine.start(waiter())
    engine.state.unload(record.key)
    engine.state.put_off[record.key] = deque([LookAgain(record.key, "0")])
    if not has_code:
        engine.state.registry = Registry(())
    engine.do(CheckWaits(record.key))
    engine.do(CheckWaits(record.key))
    assert engine.status() is (WorkflowStatus.SUSPENDED if has_code else WorkflowStatus.PARKED)


def test_parked_workflow_is_an_answer_only_on_request() -> None:
    """A caller that does not wait for parked workflows gets the record. Any other caller keeps waiting."""
    engine = DirectEngine(*EVERY)
    engine.start(worker())
    engine.restart()
    assert engine.status() is WorkflowStatus.PARKED
    assert Parked(engine.record()) in engine.effects
    assert engine.do(AwaitEnd("w", wait_if_parked=False)) == engine.record()
    assert engine.batch(AwaitEnd("w")) == [Pending(engine.record().key)]

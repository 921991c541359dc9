"""How a workflow starts."""

from __future__ import annotations

from typing import Any

import pytest

from durable import Durable, InvalidValue, PayloadTooLarge, WorkflowStatus, now, sleep, workflow
from durable.engine.config import EngineConfig
from durable.engine.operations import CancelWorkflow, DescribeWorkflow, ResumeWorkflow, TerminateWorkflow
from durable.errors import DuplicateWorkflow
from durable.model.clock import SECOND
from tests.engine.direct import DirectEngine, call_of, refusal
from tests.engine.flows import EVERY, failing, go, late_waiter, nothing, waiter, worker


@workflow(name="start.clock")
def reads_clock() -> Durable[str]:
    """Returns the time at which it began."""
    yield from sleep(0)
    return now().isoformat()


def test_start_stores_the_workflow() -> None:
    """A started workflow is stored with its name, arguments and tags, and runs to its first wait."""
    engine = DirectEngine(*EVERY)
    engine.start(worker(7), tags=("red", "blue"))
    record = engine.record()
    assert (record.name, record.input, record.tags) == ("engine.worker", '{"number":7}', ("red", "blue"))
    assert (record.status, record.created_at, record.start_at) == (
        WorkflowStatus.RUNNING,
        engine.clock.now(),
        engine.clock.now(),
    )
    assert [effect.args for effect in engine.activities] == [(7,)]


def test_start_may_end_at_once() -> None:
    """A workflow without waits starts and finishes in one commit."""
    engine = DirectEngine(*EVERY)
    engine.start(nothing(3))
    assert engine.result() == 3
    assert engine.record().finished_at == engine.clock.now()


def test_failure_is_stored_with_its_class() -> None:
    """A workflow that raises fails, and its error can be rebuilt."""
    engine = DirectEngine(*EVERY)
    engine.start(failing())
    assert engine.status() is WorkflowStatus.FAILED
    assert isinstance(engine.error(), LookupError)


def test_delayed_start_waits() -> None:
    """A delayed workflow is stored at once, runs nothing before its time, and then starts with that time as its now."""
    engine = DirectEngine(*EVERY, reads_clock)
    engine.start(reads_clock(), delay=60)
    begin = engine.record().start_at
    assert (engine.status(), engine.record().wake_at) == (WorkflowStatus.SUSPENDED, begin)
    engine.advance(59)
    assert engine.status() is WorkflowStatus.SUSPENDED
    engine.advance(100)
    assert engine.result() == "2031-05-17T12:01:00+00:00"


@pytest.mark.parametrize("clean", [True, False])
def test_delayed_start_survives_a_restart(clean: bool) -> None:
    """A delay counts from the start, whatever restarts in between."""
    engine = DirectEngine(*EVERY, reads_clock)
    engine.start(reads_clock(), delay=60)
    engine.clock.advance(59)
    engine.restart(*EVERY, reads_clock, clean=clean)
    assert engine.status() is WorkflowStatus.SUSPENDED
    engine.advance(1)
    assert engine.result() == "2031-05-17T12:01:00+00:00"


@pytest.mark.parametrize("end", [CancelWorkflow("w"), TerminateWorkflow("w")])
def test_delayed_start_can_be_called_off(end: CancelWorkflow) -> None:
    """A delayed workflow that is ended before its time never runs."""
    engine = DirectEngine(*EVERY)
    engine.start(worker(), delay=60)
    assert engine.do(end) is True
    engine.advance(60)
    assert engine.status() is WorkflowStatus.CANCELLED
    assert engine.effects == [effect for effect in engine.effects if type(effect).__name__ == "Ended"]


def test_delayed_start_keeps_its_mail() -> None:
    """An event to a delayed workflow stays in its mailbox until it waits."""
    engine = DirectEngine(*EVERY)
    engine.start(waiter(), delay=60)
    engine.start(waiter(), "taker")
    engine.send(go, 5, to="w")
    assert engine.do(DescribeWorkflow("w")).pending_events == 1
    assert engine.pending("go") == 1
    engine.advance(30)
    assert engine.status() is WorkflowStatus.SUSPENDED


def test_delay_beyond_the_calendar_is_refused() -> None:
    """A start after the year 9999 is refused, and nothing is stored."""
    engine = DirectEngine(*EVERY)
    (reply,) = engine.batch(call_of(worker(), "w", delay=8000 * 365.0 * 86400))
    assert refusal(reply)[0] is InvalidValue
    assert engine.rows() == 0


def test_large_arguments_are_refused() -> None:
    """Arguments over the limit are refused before anything is stored. Arguments at the limit are accepted."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_payload_bytes=12))
    (reply,) = engine.batch(call_of(worker(1000), "w"))
    assert refusal(reply) == (PayloadTooLarge, "workflow engine.worker: arguments", 15, 12)
    assert engine.rows() == 0
    engine.start(worker(1))
    assert engine.status() is WorkflowStatus.RUNNING


def test_large_result_fails_the_workflow() -> None:
    """A result that is over the limit or cannot be stored fails the workflow with that reason."""

    @workflow(name="start.results")
    def results(length: int) -> Durable[Any]:
        yield from sleep(0)
        return "x" * length if length else object()

    engine = DirectEngine(results, config=EngineConfig(max_payload_bytes=100))
    engine.start(results(99), "large")
    engine.start(results(0), "strange")
    engine.start(results(98), "fits")
    assert [type(engine.error(id)).__name__ for id in ("large", "strange")] == ["PayloadTooLarge", "CodecError"]
    assert len(engine.result("fits")) == 98


def test_name_of_another_function_is_refused() -> None:
    """A workflow whose name belongs to another function is refused, and nothing is stored."""

    @workflow(name="engine.worker")
    def impostor() -> Durable[None]:
        yield from sleep(1)

    engine = DirectEngine(*EVERY)
    (reply,) = engine.batch(call_of(impostor(), "w"))
    assert refusal(reply)[0] is DuplicateWorkflow
    assert engine.rows() == 0


def test_keys_ascend_over_restarts() -> None:
    """No key is assigned twice, even after a restart."""
    engine = DirectEngine(*EVERY)
    engine.start(late_waiter(), "a")
    engine.send(go, 1)
    before = engine.state.serial
    engine.restart(*EVERY, clean=False)
    engine.start(late_waiter(), "b")
    assert engine.record("b").key > before


def test_resume_of_an_ended_or_unknown_workflow() -> None:
    """Resuming a workflow that is unknown or has ended does nothing."""
    engine = DirectEngine(*EVERY)
    engine.start(nothing())
    engine.batch(ResumeWorkflow(engine.record().key), ResumeWorkflow(4711))
    assert engine.result() == 0
    assert engine.record().finished_at == engine.clock.now() // SECOND * SECOND

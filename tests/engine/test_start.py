"""How a workflow begins."""

from __future__ import annotations

from typing import Any

import pytest

from durable import Durable, InvalidValue, PayloadTooLarge, WorkflowStatus, now, sleep, workflow
from durable.engine.config import EngineConfig
from durable.engine.operations import CancelWorkflow, DescribeWorkflow, ResumeWorkflow, TerminateWorkflow
from durable.errors import DuplicateWorkflow
from durable.model.clock import SECOND
from tests.engine.desk import Desk, call_of, refusal
from tests.engine.flows import EVERY, failing, go, late_waiter, nothing, waiter, worker


@workflow(name="start.clock")
def reads_clock() -> Durable[str]:
    """Says when it began."""
    yield from sleep(0)
    return now().isoformat()


def test_start_stores_the_workflow() -> None:
    """A started workflow is stored with its name, arguments and tags, and runs to its first wait."""
    desk = Desk(*EVERY)
    desk.start(worker(7), tags=("red", "blue"))
    record = desk.record()
    assert (record.name, record.input, record.tags) == ("desk.worker", '{"number":7}', ("red", "blue"))
    assert (record.status, record.created_at, record.start_at) == (
        WorkflowStatus.RUNNING,
        desk.clock.now(),
        desk.clock.now(),
    )
    assert [effect.args for effect in desk.activities] == [(7,)]


def test_start_may_end_at_once() -> None:
    """A workflow that waits for nothing is started and finished in one commit."""
    desk = Desk(*EVERY)
    desk.start(nothing(3))
    assert desk.result() == 3
    assert desk.record().finished_at == desk.clock.now()


def test_failure_is_stored_with_its_class() -> None:
    """A workflow that raises ends failed, and its error can be rebuilt."""
    desk = Desk(*EVERY)
    desk.start(failing())
    assert desk.status() is WorkflowStatus.FAILED
    assert isinstance(desk.error(), LookupError)


def test_delayed_start_waits() -> None:
    """A delayed workflow is stored at once, runs nothing before its time, and then takes that time for now."""
    desk = Desk(*EVERY, reads_clock)
    desk.start(reads_clock(), delay=60)
    begin = desk.record().start_at
    assert (desk.status(), desk.record().wake_at) == (WorkflowStatus.SUSPENDED, begin)
    desk.advance(59)
    assert desk.status() is WorkflowStatus.SUSPENDED
    desk.advance(100)
    assert desk.result() == "2031-05-17T12:01:00+00:00"


@pytest.mark.parametrize("clean", [True, False])
def test_delayed_start_survives_a_restart(clean: bool) -> None:
    """A delay is counted from the start, whatever restarts in between."""
    desk = Desk(*EVERY, reads_clock)
    desk.start(reads_clock(), delay=60)
    desk.clock.advance(59)
    desk.restart(*EVERY, reads_clock, clean=clean)
    assert desk.status() is WorkflowStatus.SUSPENDED
    desk.advance(1)
    assert desk.result() == "2031-05-17T12:01:00+00:00"


@pytest.mark.parametrize("end", [CancelWorkflow("w"), TerminateWorkflow("w")])
def test_delayed_start_can_be_called_off(end: CancelWorkflow) -> None:
    """A workflow that is ended before its time never runs."""
    desk = Desk(*EVERY)
    desk.start(worker(), delay=60)
    assert desk.do(end) is True
    desk.advance(60)
    assert desk.status() is WorkflowStatus.CANCELLED
    assert desk.effects == [effect for effect in desk.effects if type(effect).__name__ == "Ended"]


def test_delayed_start_keeps_its_mail() -> None:
    """An event to a workflow whose time has not come lies in its mailbox until it waits."""
    desk = Desk(*EVERY)
    desk.start(waiter(), delay=60)
    desk.start(waiter(), "taker")
    desk.send(go, 5, to="w")
    assert desk.do(DescribeWorkflow("w")).pending_events == 1
    assert desk.pending("go") == 1
    desk.advance(30)
    assert desk.status() is WorkflowStatus.SUSPENDED


def test_delay_beyond_the_calendar_is_refused() -> None:
    """A start after the year 9999 is refused, and nothing is stored."""
    desk = Desk(*EVERY)
    (reply,) = desk.batch(call_of(worker(), "w", delay=8000 * 365.0 * 86400))
    assert refusal(reply)[0] is InvalidValue
    assert desk.rows() == 0


def test_large_arguments_are_refused() -> None:
    """Arguments over the limit are refused before anything is stored; at the limit they are taken."""
    desk = Desk(*EVERY, config=EngineConfig(max_payload_bytes=12))
    (reply,) = desk.batch(call_of(worker(1000), "w"))
    assert refusal(reply) == (PayloadTooLarge, "workflow desk.worker: arguments", 15, 12)
    assert desk.rows() == 0
    desk.start(worker(1))
    assert desk.status() is WorkflowStatus.RUNNING


def test_large_result_fails_the_workflow() -> None:
    """A result over the limit, or one that cannot be stored, ends the workflow failed with that reason."""

    @workflow(name="start.results")
    def results(length: int) -> Durable[Any]:
        yield from sleep(0)
        return "x" * length if length else object()

    desk = Desk(results, config=EngineConfig(max_payload_bytes=100))
    desk.start(results(99), "large")
    desk.start(results(0), "strange")
    desk.start(results(98), "fits")
    assert [type(desk.error(id)).__name__ for id in ("large", "strange")] == ["PayloadTooLarge", "CodecError"]
    assert len(desk.result("fits")) == 98


def test_name_of_another_function_is_refused() -> None:
    """A workflow whose name belongs to another function is refused, and nothing is stored."""

    @workflow(name="desk.worker")
    def impostor() -> Durable[None]:
        yield from sleep(1)

    desk = Desk(*EVERY)
    (reply,) = desk.batch(call_of(impostor(), "w"))
    assert refusal(reply)[0] is DuplicateWorkflow
    assert desk.rows() == 0


def test_keys_ascend_over_restarts() -> None:
    """No key is ever given out twice, not even after a restart."""
    desk = Desk(*EVERY)
    desk.start(late_waiter(), "a")
    desk.send(go, 1)
    before = desk.state.serial
    desk.restart(*EVERY, clean=False)
    desk.start(late_waiter(), "b")
    assert desk.record("b").key > before


def test_resume_of_nobody() -> None:
    """Resuming a workflow that is gone or has ended does nothing."""
    desk = Desk(*EVERY)
    desk.start(nothing())
    desk.batch(ResumeWorkflow(desk.record().key), ResumeWorkflow(4711))
    assert desk.result() == 0
    assert desk.record().finished_at == desk.clock.now() // SECOND * SECOND

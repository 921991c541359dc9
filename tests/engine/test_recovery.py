"""What runs again after a start: every page of running workflows, and none that only waits."""

from __future__ import annotations

import pytest

from durable import Durable, ParkReason, TimedOut, WorkflowStatus, workflow
from durable.backends.memory import MemoryBackend, MemoryStore
from durable.engine import operations as ops
from durable.engine.config import EngineConfig
from durable.engine.operations import RecoverWorkflows, TerminateWorkflow
from durable.engine.operations.views import RecoveryReport
from tests.engine.direct import DirectEngine
from tests.engine.flows import EVERY, late_waiter, sleeper, waiter, work, worker
from tests.engine.stepped import SteppedEngine


def test_clean_stop_counts_nothing() -> None:
    """After a clean stop every running workflow continues, and none is on trial, however often it happens."""
    engine = DirectEngine(*EVERY)
    engine.start(worker())
    for _ in range(5):
        assert engine.restart(*EVERY) == RecoveryReport(resumed=1)
        assert not engine.activities[0].on_trial
    assert len(engine.activities) == 1


def test_sleeping_workflows_are_not_touched() -> None:
    """Recovery neither loads nor tries workflows that only wait."""
    engine = DirectEngine(*EVERY)
    engine.start(sleeper(), "s")
    engine.start(waiter(), "w")
    assert engine.restart(*EVERY, clean=False) == RecoveryReport()
    assert (list(engine.state.loaded), engine.suspects()) == ([], [])


@pytest.mark.parametrize("clean", [True, False])
def test_report_counts_what_stays_parked(clean: bool) -> None:
    """A running workflow without its code counts as parked, at the start that parks it and at the next one."""
    engine = DirectEngine(*EVERY)
    engine.start(worker(), "w")
    for _ in range(2):
        assert engine.restart(clean=clean) == RecoveryReport(parked=1)
    assert engine.restart(*EVERY, clean=clean) == RecoveryReport(unparked=1)
    assert engine.restart(*EVERY, clean=clean) == RecoveryReport(resumed=1)


def test_overdue_timer_fires_at_once() -> None:
    """A crash does not delay a timer."""
    engine = DirectEngine(*EVERY)
    engine.start(sleeper(10))
    engine.clock.advance(10)
    engine.restart(*EVERY, clean=False)
    assert engine.status() is WorkflowStatus.SUCCEEDED


def test_pages() -> None:
    """Recovery continues page by page until it has handled every running workflow."""
    engine = DirectEngine(*EVERY, checks=False)
    for number in range(51):
        engine.start(worker(), f"w{number}")
    engine.restart(*EVERY, recover=False)
    report = engine.do(RecoverWorkflows())
    assert (report.resumed, report.next_after) == (50, engine.record("w49").key)
    assert engine.do(RecoverWorkflows(report.next_after or 0, report.until)) == RecoveryReport(resumed=1)
    engine.settle()
    assert len(engine.activities) == 51


def test_later_starts_do_not_prolong_a_recovery() -> None:
    """Recovery ends with the last workflow that existed when it began, however many have started since."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_loaded_workflows=1), checks=False)
    for number in range(51):
        engine.start(worker(), f"w{number}")
    engine.restart(*EVERY, recover=False)
    report = engine.do(RecoverWorkflows())
    for number in range(100):
        engine.start(worker(), f"late{number}")
    assert engine.do(RecoverWorkflows(report.next_after or 0, report.until)) == RecoveryReport(resumed=1)


def test_workflow_that_just_ended_is_not_resumed() -> None:
    """A workflow that ends earlier in the batch of the recovery is not resumed."""
    engine = DirectEngine(*EVERY)
    engine.start(worker())
    engine.start(waiter(), "v")
    engine.restart(*EVERY, recover=False)
    _, report = engine.batch(TerminateWorkflow("w"), RecoverWorkflows())
    assert report == RecoveryReport()


@pytest.mark.parametrize("clean", [True, False])
def test_one_bad_workflow_does_not_stop_the_others(clean: bool) -> None:
    """A workflow that cannot be rebuilt is parked, and the others of its page continue."""
    engine = DirectEngine(*EVERY)
    engine.start(worker(), "a")
    engine.start(late_waiter(), "b")
    engine.start(worker(), "c")
    engine.restart(worker, clean=clean)
    assert [effect.workflow_id for effect in engine.activities] == ["a", "c"]
    assert engine.record("b").park_reason is ParkReason.UNKNOWN_CODE


@workflow(name="recovery.limited")
def limited() -> Durable[None]:
    """Does an activity with a deadline."""
    yield from work(0).within(10)


def test_overdue_timer_beside_an_activity() -> None:
    """A deadline that passed while the engine was down fires after a crash, even before the recovery."""
    engine = DirectEngine(limited)
    engine.start(limited())
    engine.clock.advance(60)
    engine.restart(limited, clean=False, recover=False)
    engine.settle()
    engine.recover()
    assert engine.status() is WorkflowStatus.FAILED
    assert isinstance(engine.error(), TimedOut)


def test_recover_blames_no_workflow_that_began_later() -> None:
    """A workflow that started after a crash is not blamed for it."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_loaded_workflows=1))
    engine.restart(*EVERY, clean=False)
    engine.start(worker(), "a")
    engine.start(worker(), "b")
    engine.recover()
    assert engine.suspects() == []


@pytest.mark.parametrize("times", [2, 5])
def test_recover_again_counts_no_crash(times: int) -> None:
    """A workflow that was tried after a crash is not tried again, however often recover() is called."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_loaded_workflows=1))
    engine.start(worker(), "a")
    engine.start(worker(), "b")
    engine.restart(*EVERY, clean=False)
    for number in range(times):
        engine.start(sleeper(1000), f"other {number}")
        engine.recover()
        engine.advance(10)
    assert engine.suspects() == []
    assert {engine.status(id) for id in ("a", "b")} == {WorkflowStatus.RUNNING}


def test_overdue_retry_runs_at_once() -> None:
    """A retry that is overdue after a crash begins once, on trial."""
    engine = DirectEngine(*EVERY)
    engine.start(worker())
    engine.fail(engine.activities[0], ValueError("once"))
    engine.clock.advance(100)
    engine.restart(*EVERY, clean=False, recover=False)
    key = engine.record().key
    engine.batch(ops.RecoverWorkflows(), ops.WakeWorkflow(key))
    engine.settle()
    assert [effect.on_trial for effect in engine.activities] == [True]


def test_recovery_keeps_to_the_limit_of_loaded_bodies() -> None:
    """Batches that write nothing evict bodies too, so a recovery never loads all running workflows at once."""
    store = MemoryStore()
    engine = DirectEngine(*EVERY, make=lambda: MemoryBackend(store))
    for number in range(10):
        engine.start(worker(), f"w{number}")
    engine.restart(*EVERY, recover=False)
    keys = [engine.record(f"w{number}").key for number in range(10)]
    engine.restart(recover=False)
    stepped = SteppedEngine(EngineConfig(max_loaded_workflows=2), store)
    for key in keys:
        stepped.ask(ops.ResumeWorkflow(key))
    assert len(stepped.coordinator.state.loaded) <= 2

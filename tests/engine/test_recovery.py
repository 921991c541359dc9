"""What runs again after a start: every page of it, and nothing that only waits."""

from __future__ import annotations

import pytest

from durable import Durable, ParkReason, TimedOut, WorkflowStatus, workflow
from durable.backends.memory import MemoryBackend, MemoryStore
from durable.engine import operations as ops
from durable.engine.config import EngineConfig
from durable.engine.operations import RecoverWorkflows, TerminateWorkflow
from durable.engine.operations.views import RecoveryReport
from tests.engine.desk import Desk
from tests.engine.flows import EVERY, late_waiter, sleeper, waiter, work, worker
from tests.engine.office import Office


def test_clean_stop_counts_nothing() -> None:
    """After an orderly stop everything that ran runs again, and nobody is on trial, however often it happens."""
    desk = Desk(*EVERY)
    desk.start(worker())
    for _ in range(5):
        assert desk.restart(*EVERY) == RecoveryReport(resumed=1)
        assert not desk.activities[0].on_trial
    assert len(desk.activities) == 1


def test_sleeping_workflows_are_not_touched() -> None:
    """Recovery neither loads nor tries workflows that only wait."""
    desk = Desk(*EVERY)
    desk.start(sleeper(), "s")
    desk.start(waiter(), "w")
    assert desk.restart(*EVERY, clean=False) == RecoveryReport()
    assert (list(desk.state.loaded), desk.suspects()) == ([], [])


@pytest.mark.parametrize("clean", [True, False])
def test_report_counts_what_stays_parked(clean: bool) -> None:
    """A running workflow without its code counts as parked, at the start that parks it and at the next one."""
    desk = Desk(*EVERY)
    desk.start(worker(), "w")
    for _ in range(2):
        assert desk.restart(clean=clean) == RecoveryReport(parked=1)
    assert desk.restart(*EVERY, clean=clean) == RecoveryReport(unparked=1)
    assert desk.restart(*EVERY, clean=clean) == RecoveryReport(resumed=1)


def test_timer_that_was_overdue_fires_at_once() -> None:
    """An unclean stop holds up no timer."""
    desk = Desk(*EVERY)
    desk.start(sleeper(10))
    desk.clock.advance(10)
    desk.restart(*EVERY, clean=False)
    assert desk.status() is WorkflowStatus.SUCCEEDED


def test_pages() -> None:
    """Recovery goes on page by page until it has seen everything that runs."""
    desk = Desk(*EVERY, checks=False)
    for number in range(51):
        desk.start(worker(), f"w{number}")
    desk.restart(*EVERY, recover=False)
    report = desk.do(RecoverWorkflows())
    assert (report.resumed, report.next_after) == (50, desk.record("w49").key)
    assert desk.do(RecoverWorkflows(report.next_after or 0, report.until)) == RecoveryReport(resumed=1)
    desk.settle()
    assert len(desk.activities) == 51


def test_what_starts_meanwhile_does_not_prolong_a_recovery() -> None:
    """The last page ends where the workflows ended when the first was looked over, however many have started since."""
    desk = Desk(*EVERY, config=EngineConfig(max_loaded_workflows=1), checks=False)
    for number in range(51):
        desk.start(worker(), f"w{number}")
    desk.restart(*EVERY, recover=False)
    report = desk.do(RecoverWorkflows())
    for number in range(100):
        desk.start(worker(), f"late{number}")
    assert desk.do(RecoverWorkflows(report.next_after or 0, report.until)) == RecoveryReport(resumed=1)


def test_what_ended_meanwhile_is_left_alone() -> None:
    """A workflow that ends in the batch of the recovery, before it, is not resumed."""
    desk = Desk(*EVERY)
    desk.start(worker())
    desk.start(waiter(), "v")
    desk.restart(*EVERY, recover=False)
    _, report = desk.batch(TerminateWorkflow("w"), RecoverWorkflows())
    assert report == RecoveryReport()


@pytest.mark.parametrize("clean", [True, False])
def test_one_bad_workflow_does_not_stop_the_others(clean: bool) -> None:
    """A workflow that cannot be rebuilt is parked; all others of the page go on."""
    desk = Desk(*EVERY)
    desk.start(worker(), "a")
    desk.start(late_waiter(), "b")
    desk.start(worker(), "c")
    desk.restart(worker, clean=clean)
    assert [effect.workflow_id for effect in desk.activities] == ["a", "c"]
    assert desk.record("b").park_reason is ParkReason.UNKNOWN_CODE


@workflow(name="recovery.limited")
def limited() -> Durable[None]:
    """An activity against a deadline."""
    yield from work(0).within(10)


def test_overdue_timer_beside_an_activity() -> None:
    """A deadline that passed while nobody ran fires after a crash, also if it is looked at before the recovery."""
    desk = Desk(limited)
    desk.start(limited())
    desk.clock.advance(60)
    desk.restart(limited, clean=False, recover=False)
    desk.settle()
    desk.recover()
    assert desk.status() is WorkflowStatus.FAILED
    assert isinstance(desk.error(), TimedOut)


def test_recover_blames_no_workflow_that_began_later() -> None:
    """A workflow that was started after an unclean stop did not cause it."""
    desk = Desk(*EVERY, config=EngineConfig(max_loaded_workflows=1))
    desk.restart(*EVERY, clean=False)
    desk.start(worker(), "a")
    desk.start(worker(), "b")
    desk.recover()
    assert desk.suspects() == []


@pytest.mark.parametrize("times", [2, 5])
def test_recover_again_counts_no_crash(times: int) -> None:
    """A workflow that was tried after an unclean stop is not tried again, however often recover() is called."""
    desk = Desk(*EVERY, config=EngineConfig(max_loaded_workflows=1))
    desk.start(worker(), "a")
    desk.start(worker(), "b")
    desk.restart(*EVERY, clean=False)
    for number in range(times):
        desk.start(sleeper(1000), f"other {number}")
        desk.recover()
        desk.advance(10)
    assert desk.suspects() == []
    assert {desk.status(id) for id in ("a", "b")} == {WorkflowStatus.RUNNING}


def test_overdue_retry_runs_at_once() -> None:
    """A retry that was overdue at an unclean start begins once, on trial like every activity of that moment."""
    desk = Desk(*EVERY)
    desk.start(worker())
    desk.fail(desk.activities[0], ValueError("once"))
    desk.clock.advance(100)
    desk.restart(*EVERY, clean=False, recover=False)
    key = desk.record().key
    desk.batch(ops.RecoverWorkflows(), ops.WakeWorkflow(key))
    desk.settle()
    assert [effect.on_trial for effect in desk.activities] == [True]


def test_recovery_keeps_to_the_limit_of_loaded_bodies() -> None:
    """Batches that write nothing let go of bodies too: a recovery does not load all that is running at once."""
    store = MemoryStore()
    desk = Desk(*EVERY, make=lambda: MemoryBackend(store))
    for number in range(10):
        desk.start(worker(), f"w{number}")
    desk.restart(*EVERY, recover=False)
    keys = [desk.record(f"w{number}").key for number in range(10)]
    desk.restart(recover=False)
    office = Office(EngineConfig(max_loaded_workflows=2), store)
    for key in keys:
        office.ask(ops.ResumeWorkflow(key))
    assert len(office.coordinator.state.loaded) <= 2

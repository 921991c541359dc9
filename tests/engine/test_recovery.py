"""What goes on after a start, and who is not trusted."""

from __future__ import annotations

import pytest

from durable import Durable, ParkReason, TimedOut, WorkflowStatus, sleep, workflow
from durable.engine.config import EngineConfig
from durable.engine.operations import Follow, RecoverWorkflows, ResumeWorkflow, TerminateWorkflow, WakeWorkflow
from durable.engine.recovery import must_wait
from durable.engine.turn import Turn
from durable.engine.views import RecoveryReport
from tests.engine.desk import Desk
from tests.engine.flows import EVERY, late_waiter, nothing, sleeper, waiter, work, worker


def _crashes(desk: Desk, *ids: str) -> list[int]:
    return [desk.record(id).crashes for id in ids]


def test_clean_stop_counts_nothing() -> None:
    """After an orderly stop everything that ran goes on, and nobody is blamed, however often it happens."""
    desk = Desk(*EVERY)
    desk.start(worker())
    for _ in range(5):
        assert desk.restart(*EVERY) == RecoveryReport(resumed=1)
    assert _crashes(desk, "w") == [0]
    assert len(desk.activities) == 1


def test_crash_is_committed_before_the_body_runs() -> None:
    """After an unclean stop the crash is counted in one commit, and the body is loaded in the next."""
    desk = Desk(*EVERY)
    desk.start(worker())
    desk.restart(*EVERY, clean=False, recover=False)
    report = desk.do(RecoverWorkflows())
    assert report == RecoveryReport(resumed=1)
    assert (_crashes(desk, "w"), list(desk.state.loaded)) == ([1], [])
    desk.settle()
    assert len(desk.activities) == 1


def test_sleeping_workflows_are_not_touched() -> None:
    """Recovery neither loads nor blames workflows that only wait."""
    desk = Desk(*EVERY)
    desk.start(sleeper(), "s")
    desk.start(waiter(), "w")
    assert desk.restart(*EVERY, clean=False) == RecoveryReport()
    assert (_crashes(desk, "s", "w"), list(desk.state.loaded)) == ([0, 0], [])


def test_third_crash_parks() -> None:
    """A workflow that was in work at three unclean stops in a row is parked, and stays so until somebody decides."""
    desk = Desk(*EVERY)
    desk.start(worker())
    for crashes in (1, 2):
        desk.restart(*EVERY, clean=False)
        assert _crashes(desk, "w") == [crashes]
        assert len(desk.activities) == 1
    desk.restart(*EVERY, clean=False)
    assert (desk.status(), desk.record().park_reason) == (WorkflowStatus.PARKED, ParkReason.CRASHED)
    assert desk.activities == []
    for clean in (True, False):
        assert desk.restart(*EVERY, clean=clean) == RecoveryReport(parked=1)
    assert desk.cancel() is True


def test_limit_of_one_crash() -> None:
    """With max_crashes=1 the first unclean stop parks what was in work."""
    desk = Desk(*EVERY, config=EngineConfig(max_crashes=1))
    desk.start(worker())
    desk.restart(*EVERY, clean=False)
    assert desk.record().park_reason is ParkReason.CRASHED


def test_progress_clears_the_count() -> None:
    """A workflow that makes progress between unclean stops is never parked."""

    @workflow(name="recovery.steps")
    def steps() -> Durable[str]:
        for _ in range(6):
            yield from work(1)
        return "done"

    desk = Desk(steps)
    desk.start(steps())
    for _ in range(6):
        desk.restart(steps, clean=False)
        assert _crashes(desk, "w") == [1]
        desk.finish(desk.activities[0], 1)
        assert _crashes(desk, "w") == [0]
    assert desk.result() == "done"


def test_clean_stop_between_crashes_keeps_the_count() -> None:
    """An orderly stop does not wash a suspect clean; only progress does."""
    desk = Desk(*EVERY)
    desk.start(worker())
    desk.restart(*EVERY, clean=False)
    desk.restart(*EVERY, clean=True)
    assert _crashes(desk, "w") == [1]
    desk.restart(*EVERY, clean=False)
    assert _crashes(desk, "w") == [2]


def test_suspects_are_tried_one_at_a_time() -> None:
    """After a second unclean stop each suspect runs alone until it has made progress, ended, or had its time."""
    desk = Desk(*EVERY)
    for id in "abcd":
        desk.start(late_waiter(), id)
    desk.restart(*EVERY, clean=False)
    report = desk.restart(*EVERY, clean=False)
    assert report.suspects == 4
    assert [effect.workflow_id for effect in desk.activities] == ["a"]
    assert _crashes(desk, *"abcd") == [2, 1, 1, 1]
    desk.finish(desk.activities[0], 1)
    desk.settle()
    assert [effect.workflow_id for effect in desk.activities] == ["b"]
    desk.cancel("b")
    desk.settle()
    assert [effect.workflow_id for effect in desk.activities] == ["c"]
    desk.clock.advance(4.9)
    desk.batch()
    assert len(desk.activities) == 1
    desk.clock.advance(0.1)
    desk.batch()
    desk.settle()
    assert [effect.workflow_id for effect in desk.activities] == ["c", "d"]


def test_suspect_that_ended_before_its_trial() -> None:
    """A suspect that was ended while it waited for its trial is passed over."""
    desk = Desk(*EVERY)
    for id in "abc":
        desk.start(worker(), id)
    for _ in range(2):
        desk.restart(*EVERY, clean=False)
    desk.cancel("b")
    desk.finish(desk.activities[0], 1)
    desk.settle()
    assert [effect.workflow_id for effect in desk.activities] == ["c"]


def test_others_go_on_while_suspects_wait() -> None:
    """New work is not held up by suspects that wait for their trial."""
    desk = Desk(*EVERY)
    for id in "ab":
        desk.start(worker(), id)
    for _ in range(2):
        desk.restart(*EVERY, clean=False)
    desk.start(nothing(4), "new")
    assert desk.result("new") == 4


def test_suspects_of_a_repeated_recovery() -> None:
    """Recovering again while suspects wait or stand trial does not queue them twice."""
    desk = Desk(*EVERY)
    for id in "ab":
        desk.start(worker(), id)
    desk.restart(*EVERY, clean=False)
    desk.restart(*EVERY, clean=False, recover=False)
    for _ in range(3):
        desk.do(RecoverWorkflows())
    assert _crashes(desk, "a", "b") == [2, 1]
    assert len(desk.state.trials.waiting) == 1


def test_overdue_timer_is_counted() -> None:
    """A timer that was overdue at an unclean start fires only when a crash was counted for its workflow."""
    desk = Desk(*EVERY)

    @workflow(name="recovery.two_sleeps")
    def two_sleeps() -> Durable[None]:
        yield from sleep(10)
        yield from sleep(10)

    desk.start(two_sleeps())
    desk.clock.advance(10)
    desk.restart(two_sleeps, clean=False, recover=False)
    key = desk.record().key
    desk.do(WakeWorkflow(key))
    assert (_crashes(desk, "w"), desk.history()) == ([1], [])
    assert desk.effects[-1] == Follow(WakeWorkflow(key))
    desk.settle()
    assert (_crashes(desk, "w"), len(desk.history())) == ([0], 1)


def test_timer_that_kills_is_parked_at_the_third_start() -> None:
    """A workflow that takes the process down as soon as its timer fires does so twice, and is parked then."""
    desk = Desk(*EVERY)
    desk.start(sleeper(10))
    key = desk.record().key
    desk.clock.advance(10)
    for crashes in (1, 2):
        desk.restart(*EVERY, clean=False, recover=False)
        desk.do(WakeWorkflow(key))
        assert _crashes(desk, "w") == [crashes]
    desk.restart(*EVERY, clean=False, recover=False)
    desk.do(WakeWorkflow(key))
    desk.settle()
    assert desk.record().park_reason is ParkReason.CRASHED


def test_timer_that_is_not_overdue_is_not_counted() -> None:
    """A timer that comes due after an unclean start fires without any blame."""
    desk = Desk(*EVERY)
    desk.start(sleeper(10), "a")
    desk.restart(*EVERY, clean=False)
    desk.advance(10)
    assert (desk.status("a"), _crashes(desk, "a")) == (WorkflowStatus.SUCCEEDED, [0])


def test_wake_up_of_what_is_loaded_or_gone_need_not_wait() -> None:
    """A wake-up waits for a count only after an unclean stop, and only for what is stored, overdue and not loaded."""
    desk = Desk(*EVERY)
    desk.start(sleeper(10))
    key = desk.record().key
    assert must_wait(Turn(desk.state, desk.clock.now()), WakeWorkflow(key)) is False
    desk.clock.advance(10)
    desk.restart(*EVERY, clean=False, recover=False)
    assert must_wait(Turn(desk.state, desk.clock.now()), WakeWorkflow(4711)) is False
    desk.do(ResumeWorkflow(key))
    assert must_wait(Turn(desk.state, desk.clock.now()), WakeWorkflow(key)) is False


def test_pages() -> None:
    """Recovery goes on page by page until it has seen everything that runs."""
    desk = Desk(*EVERY, checks=False)
    for number in range(201):
        desk.start(worker(), f"w{number}")
    desk.restart(*EVERY, recover=False)
    report = desk.do(RecoverWorkflows())
    assert (report.resumed, report.next_after) == (200, desk.record("w199").key)
    assert desk.do(RecoverWorkflows(report.next_after or 0)) == RecoveryReport(resumed=1)
    desk.settle()
    assert len(desk.activities) == 201


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


def test_suspect_is_not_tried_beside_one_that_may_be_to_blame() -> None:
    """A suspect waits until those that came back with it for the first time have shown that they are harmless."""
    desk = Desk(*EVERY)
    desk.start(late_waiter(), "old")
    desk.restart(*EVERY, clean=False)
    desk.start(late_waiter(), "new")
    desk.restart(*EVERY, clean=False)
    assert [effect.workflow_id for effect in desk.activities] == ["new"]
    assert _crashes(desk, "old", "new") == [1, 1]
    desk.finish(desk.activities[0], 1)
    desk.settle()
    assert [effect.workflow_id for effect in desk.activities] == ["old"]
    assert _crashes(desk, "old", "new") == [2, 0]


def test_overdue_timer_does_not_fire_beside_a_suspect() -> None:
    """A timer that was overdue at an unclean start waits while somebody is on trial."""
    desk = Desk(*EVERY)
    desk.start(late_waiter(), "suspect")
    desk.start(sleeper(5), "asleep")
    desk.restart(*EVERY, clean=False)
    desk.clock.advance(10)
    desk.restart(*EVERY, clean=False)
    assert [effect.workflow_id for effect in desk.activities] == ["suspect"]
    desk.advance(0)
    assert desk.status("asleep") is WorkflowStatus.SUSPENDED
    desk.finish(desk.activities[0], 1)
    desk.settle()
    assert desk.status("asleep") is WorkflowStatus.SUCCEEDED


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


def test_suspect_with_a_due_timer_waits_outside_the_window() -> None:
    """A timer that is due and must wait for its trial does not come back into the window before that."""
    desk = Desk(*EVERY, config=EngineConfig(timer_window=1))
    desk.start(worker(), "w")
    key = desk.start(sleeper(10), "s").key
    desk.start(sleeper(60), "later")
    desk.clock.advance(20)
    desk.restart(*EVERY, clean=False, recover=False)
    desk.do(WakeWorkflow(key))
    desk.restart(*EVERY, clean=False)
    assert list(desk.state.trials.waiting) == [key]
    desk.advance(40)
    assert desk.status("later") is WorkflowStatus.SUCCEEDED
    desk.settle()
    assert desk.status("s") is WorkflowStatus.SUCCEEDED

"""Who is blamed for an unclean stop in which no body ran: whoever began an activity just before."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from durable import (
    Durable,
    WorkflowDef,
    WorkflowStatus,
    gather,
    sleep,
    workflow,
)
from durable.engine.operations import BeginAttempt, RecoverWorkflows
from durable.engine.operations.views import RecoveryReport
from durable.engine.state.trials import WINDOW
from durable.model.clock import to_datetime
from tests.engine.desk import Desk
from tests.engine.flows import EVERY, nothing, waiter, work, worker

MOMENT = WINDOW / 1_000_000


@workflow(name="trials.two")
def two() -> Durable[list[int]]:
    """Two activities, the second a while after the first."""
    return [*(yield from gather(work(1), _later()))]


def _later() -> Durable[int]:
    yield from sleep(0.2)
    return (yield from work(2))


FLOWS: tuple[WorkflowDef[Any, Any], ...] = (two, *EVERY)


def _parked(desk: Desk) -> list[str]:
    return [id for id in desk.ids() if desk.status(id) is WorkflowStatus.PARKED]


def _waiting(desk: Desk) -> list[str]:
    return [effect.workflow_id for effect in desk.activities]


def _crash(desk: Desk, culprit: str) -> None:
    """Let trials run until the culprit begins its activity; that kills the process."""
    for _ in range(4):
        if culprit in _waiting(desk):
            break
        desk.advance(MOMENT)
    assert culprit in _waiting(desk), "nobody waits longer than two windows"
    desk.restart(*FLOWS, clean=False)


@pytest.mark.parametrize(("count", "culprit", "limit"), [(1, 0, 3), (2, 1, 4), (20, 13, 8), (1_000, 617, 13)])
def test_one_culprit_among_many_is_found_by_halves(count: int, culprit: int, limit: int) -> None:
    """Exactly the one that kills the process is parked, after about log2(n) crashes."""
    desk = Desk(*FLOWS, checks=count < 100)
    for number in range(count):
        desk.start(worker(), f"w{number}")
    crashes = 1
    desk.restart(*FLOWS, clean=False)
    while not _parked(desk):
        crashes += 1
        assert crashes <= limit
        _crash(desk, f"w{culprit}")
    assert _parked(desk) == [f"w{culprit}"]
    desk.advance(MOMENT)
    desk.advance(MOMENT)
    assert len(desk.activities) == count - 1


def test_two_culprits_are_both_found() -> None:
    """The second one is found when the first is parked; nobody else is."""
    desk = Desk(*FLOWS)
    for number in range(8):
        desk.start(worker(), f"w{number}")
    for _ in range(30):
        desk.restart(*FLOWS, clean=False)
        for _ in range(4):
            if {"w2", "w5"} & set(_waiting(desk)):
                break
            desk.advance(MOMENT)
        else:
            break
    assert _parked(desk) == ["w2", "w5"]


def test_kill_long_after_the_beginning_accuses_nobody() -> None:
    """Ten kills, each a moment after everybody has begun: nobody is parked, nobody ever waits."""
    desk = Desk(*FLOWS)
    for number in range(10):
        desk.start(worker(), f"w{number}")
    for _ in range(10):
        desk.restart(*FLOWS, clean=False)
        assert len(desk.activities) == 10
        desk.advance(MOMENT)
        assert desk.suspects() == []


def test_suspects_wait_for_two_windows_at_most() -> None:
    """After a crash of those on trial half of them run at once, the others a window later, the rest after another."""
    desk = Desk(*FLOWS)
    for id in "abcd":
        desk.start(worker(), id)
    desk.restart(*FLOWS, clean=False)
    desk.advance(MOMENT)
    desk.start(worker(), "e")
    for id in "ab":
        desk.state.trials.waiting[desk.record(id).key] = 1
        desk.state.trials.admit(desk.record(id).key)
    desk.start(worker(), "f")
    assert desk.restart(*FLOWS, clean=False) == RecoveryReport(resumed=1, suspects=5)
    assert _waiting(desk) == ["a"]
    desk.advance(MOMENT)
    assert _waiting(desk) == ["a", "b"]
    desk.advance(MOMENT)
    assert _waiting(desk) == ["a", "b", "c", "d", "e", "f"]


def test_beginning_of_one_that_was_acquitted_changes_nothing() -> None:
    """The report that an activity has begun may come after its workflow has been acquitted."""
    desk = Desk(*FLOWS)
    desk.start(worker())
    desk.restart(*FLOWS, clean=False)
    desk.advance(MOMENT)
    desk.do(BeginAttempt(desk.record().key))
    assert desk.suspects() == []


def test_groups_are_never_on_trial_together() -> None:
    """However long it takes until the first half begins, the other half begins after that has been tried."""
    desk = Desk(*FLOWS)
    for id in "ab":
        desk.start(worker(), id)
    desk.restart(*FLOWS, clean=False)
    desk.restart(*FLOWS, clean=False, recover=False)
    desk.do(RecoverWorkflows())
    # Its body took this long to rebuild, so its activity begins only now.
    desk.clock.advance(2 * MOMENT)
    desk.settle()
    assert (_waiting(desk), len(desk.suspects())) == (["a"], 1)
    desk.advance(MOMENT / 2)
    assert _waiting(desk) == ["a"]
    desk.advance(MOMENT / 2)
    assert (_waiting(desk), desk.suspects()) == (["a", "b"], [(desk.record("b").key, 1)])


def test_group_that_does_not_begin_is_not_waited_for_long() -> None:
    """Activities that wait for a thread keep the others waiting for three windows at most."""
    desk = Desk(*FLOWS)
    for id in "ab":
        desk.start(worker(), id)
    desk.restart(*FLOWS, clean=False)
    desk.restart(*FLOWS, clean=False, recover=False)
    desk.do(RecoverWorkflows())
    for _ in range(4):
        desk.batch()
        desk.clock.advance(MOMENT)
    desk.settle()
    assert _waiting(desk) == ["a", "b"]


def test_activity_that_has_not_begun_stays_on_trial() -> None:
    """One that waits for a thread has shown nothing yet: its window begins when it does."""
    desk = Desk(*FLOWS)
    desk.start(worker())
    desk.restart(*FLOWS, clean=False, recover=False)
    desk.do(RecoverWorkflows())
    desk.clock.advance(10 * MOMENT)
    desk.batch()
    assert desk.suspects() == [(desk.record().key, 1)]
    desk.settle()
    desk.advance(MOMENT)
    assert desk.suspects() == []


def test_second_activity_prolongs_the_trial() -> None:
    """A workflow is acquitted when the window of its last activity is over."""
    desk = Desk(*FLOWS)
    desk.start(two())
    desk.restart(*FLOWS, clean=False)
    desk.advance(0.2)
    assert len(desk.activities) == 2
    desk.advance(MOMENT - 0.1)
    assert len(desk.suspects()) == 1
    desk.advance(0.1)
    assert desk.suspects() == []


def test_activity_that_ends_acquits() -> None:
    """A workflow that makes progress between crashes is never parked, however fast they follow each other."""

    @workflow(name="trials.steps")
    def steps() -> Durable[str]:
        for _ in range(6):
            yield from work(1)
        return "done"

    desk = Desk(steps)
    desk.start(steps())
    for _ in range(6):
        desk.restart(steps, clean=False)
        assert len(desk.suspects()) == 1
        desk.finish(desk.activities[0], 1)
        assert desk.suspects() == []
    assert desk.result() == "done"


def test_workflow_is_on_trial_until_its_last_activity_has_ended() -> None:
    """Of two activities that run at once, the end of one says nothing about the other."""
    desk = Desk(*FLOWS)
    desk.start(two())
    desk.advance(0.2)
    desk.restart(*FLOWS, clean=False)
    first, second = desk.activities
    desk.finish(first, 1)
    assert len(desk.suspects()) == 1
    desk.finish(second, 2)
    assert desk.suspects() == []


def test_new_work_is_not_held_up() -> None:
    """While suspects wait, new workflows run, and one of the suspects runs when somebody needs it."""
    desk = _half_admitted()
    desk.start(nothing(4), "new")
    assert desk.result("new") == 4
    desk.cancel("b")
    assert desk.status("b") is WorkflowStatus.CANCELLED
    desk.advance(MOMENT)
    assert _waiting(desk) == ["a"]


def _half_admitted() -> Desk:
    desk = Desk(*FLOWS)
    for id in "ab":
        desk.start(worker(), id)
    desk.restart(*FLOWS, clean=False)
    desk.restart(*FLOWS, clean=False)
    assert _waiting(desk) == ["a"]
    return desk


def test_repeated_recovery_admits_nobody_early() -> None:
    """Recovering again while a suspect waits leaves it waiting, and once all have been admitted tries nobody."""
    desk = _half_admitted()
    assert desk.do(RecoverWorkflows()) == RecoveryReport(suspects=1)
    assert _waiting(desk) == ["a"]
    for _ in range(3):
        desk.advance(MOMENT)
    assert _waiting(desk) == ["a", "b"]
    assert desk.do(RecoverWorkflows()) == RecoveryReport()


def test_crash_of_a_body_says_nothing_about_those_on_trial() -> None:
    """A body kills the process again and again; the only other workflow with an activity is not parked with it."""
    desk = Desk(*FLOWS)
    desk.start(worker(), "a")
    desk.start(waiter(), "b")
    for _ in range(3):
        desk.restart(*FLOWS, clean=False)
        desk.state.mark[0] = desk.record("b").key
    desk.restart(*FLOWS, clean=False)
    assert _parked(desk) == ["b"]


def test_clean_stop_ends_all_trials() -> None:
    """Whoever was on trial when the engine stopped in order is not accused later."""
    desk = _half_admitted()
    assert desk.restart(*FLOWS, clean=True) == RecoveryReport(resumed=2)
    assert desk.suspects() == []


def test_clock_that_is_set_back_does_not_prolong_a_trial() -> None:
    """The others are admitted although the instant for it is an hour away by the new clock."""
    desk = _half_admitted()
    desk.clock.set(to_datetime(desk.clock.now()) - timedelta(hours=1))
    desk.batch()
    desk.settle()
    assert _waiting(desk) == ["a", "b"]


def test_failed_activity_that_waits_for_its_retry_is_not_tried() -> None:
    """It has no attempt that runs, so it cannot be what kills the process."""
    desk = Desk(*FLOWS)
    desk.start(worker())
    desk.fail(desk.activities[0], ValueError("once"))
    desk.restart(*FLOWS, clean=False)
    assert desk.suspects() == []
    for _ in range(3):
        desk.advance(MOMENT)
    desk.advance(60)
    assert not desk.activities[0].on_trial

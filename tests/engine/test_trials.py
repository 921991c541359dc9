"""Who is blamed for a crash while no body ran: the workflows that had just begun an activity."""

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
from durable.engine.state.crashes import WINDOW
from durable.model.clock import to_datetime
from tests.engine.direct import DirectEngine
from tests.engine.flows import EVERY, nothing, waiter, work, worker

MOMENT = WINDOW / 1_000_000


@workflow(name="trials.two")
def two_activities() -> Durable[list[int]]:
    """Does two activities, the second a while after the first."""
    return [*(yield from gather(work(1), _later()))]


def _later() -> Durable[int]:
    yield from sleep(0.2)
    return (yield from work(2))


FLOWS: tuple[WorkflowDef[Any, Any], ...] = (two_activities, *EVERY)


def _parked(engine: DirectEngine) -> list[str]:
    return [id for id in engine.ids() if engine.status(id) is WorkflowStatus.PARKED]


def _waiting(engine: DirectEngine) -> list[str]:
    return [effect.workflow_id for effect in engine.activities]


def _crash(engine: DirectEngine, culprit: str) -> None:
    """Let trials run until the culprit begins its activity, which kills the process."""
    for _ in range(4):
        if culprit in _waiting(engine):
            break
        engine.advance(MOMENT)
    assert culprit in _waiting(engine), "nobody waits longer than two windows"
    engine.restart(*FLOWS, clean=False)


@pytest.mark.parametrize(("count", "culprit", "limit"), [(1, 0, 3), (2, 1, 4), (20, 13, 8), (1_000, 617, 13)])
def test_one_culprit_among_many_is_found_by_halves(count: int, culprit: int, limit: int) -> None:
    """Exactly the workflow that kills the process is parked, after about log2(n) crashes."""
    engine = DirectEngine(*FLOWS, checks=count < 100)
    for number in range(count):
        engine.start(worker(), f"w{number}")
    crashes = 1
    engine.restart(*FLOWS, clean=False)
    while not _parked(engine):
        crashes += 1
        assert crashes <= limit
        _crash(engine, f"w{culprit}")
    assert _parked(engine) == [f"w{culprit}"]
    engine.advance(MOMENT)
    engine.advance(MOMENT)
    assert len(engine.activities) == count - 1


def test_two_culprits_are_both_parked() -> None:
    """After the first culprit is parked, the second is found too, and nobody else is parked."""
    engine = DirectEngine(*FLOWS)
    for number in range(8):
        engine.start(worker(), f"w{number}")
    for _ in range(30):
        engine.restart(*FLOWS, clean=False)
        for _ in range(4):
            if {"w2", "w5"} & set(_waiting(engine)):
                break
            engine.advance(MOMENT)
        else:
            break
    assert _parked(engine) == ["w2", "w5"]


def test_kill_long_after_the_beginning_blames_nobody() -> None:
    """If every kill comes long after the activities began, nobody is parked and nobody has to wait."""
    engine = DirectEngine(*FLOWS)
    for number in range(10):
        engine.start(worker(), f"w{number}")
    for _ in range(10):
        engine.restart(*FLOWS, clean=False)
        assert len(engine.activities) == 10
        engine.advance(MOMENT)
        assert engine.suspects() == []


def test_suspects_wait_for_two_windows_at_most() -> None:
    """Suspects run in three groups, a window apart: half of those on trial, the other half, then the rest."""
    engine = DirectEngine(*FLOWS)
    for id in "abcd":
        engine.start(worker(), id)
    engine.restart(*FLOWS, clean=False)
    engine.advance(MOMENT)
    engine.start(worker(), "e")
    for id in "ab":
        engine.state.trials.waiting[engine.record(id).key] = 1
        engine.state.trials.admit(engine.record(id).key)
    engine.start(worker(), "f")
    assert engine.restart(*FLOWS, clean=False) == RecoveryReport(resumed=1, suspects=5)
    assert _waiting(engine) == ["a"]
    engine.advance(MOMENT)
    assert _waiting(engine) == ["a", "b"]
    engine.advance(MOMENT)
    assert _waiting(engine) == ["a", "b", "c", "d", "e", "f"]


def test_late_report_of_a_beginning_changes_nothing() -> None:
    """The report that an activity has begun may arrive after its workflow was acquitted."""
    engine = DirectEngine(*FLOWS)
    engine.start(worker())
    engine.restart(*FLOWS, clean=False)
    engine.advance(MOMENT)
    engine.do(BeginAttempt(engine.record().key))
    assert engine.suspects() == []


def test_groups_are_never_on_trial_together() -> None:
    """The second half begins after the first has been tried, however long the first takes to begin."""
    engine = DirectEngine(*FLOWS)
    for id in "ab":
        engine.start(worker(), id)
    engine.restart(*FLOWS, clean=False)
    engine.restart(*FLOWS, clean=False, recover=False)
    engine.do(RecoverWorkflows())
    # Its body took this long to rebuild, so its activity begins only now.
    engine.clock.advance(2 * MOMENT)
    engine.settle()
    assert (_waiting(engine), len(engine.suspects())) == (["a"], 1)
    engine.advance(MOMENT / 2)
    assert _waiting(engine) == ["a"]
    engine.advance(MOMENT / 2)
    assert (_waiting(engine), engine.suspects()) == (["a", "b"], [(engine.record("b").key, 1)])


def test_group_that_does_not_begin_holds_up_others_briefly() -> None:
    """Activities that wait for a thread hold up the other suspects for three windows at most."""
    engine = DirectEngine(*FLOWS)
    for id in "ab":
        engine.start(worker(), id)
    engine.restart(*FLOWS, clean=False)
    engine.restart(*FLOWS, clean=False, recover=False)
    engine.do(RecoverWorkflows())
    for _ in range(4):
        engine.batch()
        engine.clock.advance(MOMENT)
    engine.settle()
    assert _waiting(engine) == ["a", "b"]


def test_activity_that_has_not_begun_stays_on_trial() -> None:
    """An activity that waits for a thread is not acquitted: its window begins when it does."""
    engine = DirectEngine(*FLOWS)
    engine.start(worker())
    engine.restart(*FLOWS, clean=False, recover=False)
    engine.do(RecoverWorkflows())
    engine.clock.advance(10 * MOMENT)
    engine.batch()
    assert engine.suspects() == [(engine.record().key, 1)]
    engine.settle()
    engine.advance(MOMENT)
    assert engine.suspects() == []


def test_second_activity_extends_the_trial() -> None:
    """A workflow is acquitted when the window of its last activity is over."""
    engine = DirectEngine(*FLOWS)
    engine.start(two_activities())
    engine.restart(*FLOWS, clean=False)
    engine.advance(0.2)
    assert len(engine.activities) == 2
    engine.advance(MOMENT - 0.1)
    assert len(engine.suspects()) == 1
    engine.advance(0.1)
    assert engine.suspects() == []


def test_activity_that_ends_acquits() -> None:
    """A workflow that makes progress between crashes is never parked, however fast they follow each other."""

    @workflow(name="trials.steps")
    def steps() -> Durable[str]:
        for _ in range(6):
            yield from work(1)
        return "done"

    engine = DirectEngine(steps)
    engine.start(steps())
    for _ in range(6):
        engine.restart(steps, clean=False)
        assert len(engine.suspects()) == 1
        engine.finish(engine.activities[0], 1)
        assert engine.suspects() == []
    assert engine.result() == "done"


def test_workflow_is_on_trial_until_its_last_activity_has_ended() -> None:
    """If two activities run at once, the end of the first does not acquit their workflow."""
    engine = DirectEngine(*FLOWS)
    engine.start(two_activities())
    engine.advance(0.2)
    engine.restart(*FLOWS, clean=False)
    first, second = engine.activities
    engine.finish(first, 1)
    assert len(engine.suspects()) == 1
    engine.finish(second, 2)
    assert engine.suspects() == []


def test_new_work_is_not_held_up() -> None:
    """While suspects wait, new workflows run, and a suspect runs if an operation needs it."""
    engine = _half_admitted()
    engine.start(nothing(4), "new")
    assert engine.result("new") == 4
    engine.cancel("b")
    assert engine.status("b") is WorkflowStatus.CANCELLED
    engine.advance(MOMENT)
    assert _waiting(engine) == ["a"]


def _half_admitted() -> DirectEngine:
    engine = DirectEngine(*FLOWS)
    for id in "ab":
        engine.start(worker(), id)
    engine.restart(*FLOWS, clean=False)
    engine.restart(*FLOWS, clean=False)
    assert _waiting(engine) == ["a"]
    return engine


def test_repeated_recovery_admits_nobody_early() -> None:
    """Recovering again while a suspect waits admits nobody, and after all were admitted it tries nobody."""
    engine = _half_admitted()
    assert engine.do(RecoverWorkflows()) == RecoveryReport(suspects=1)
    assert _waiting(engine) == ["a"]
    for _ in range(3):
        engine.advance(MOMENT)
    assert _waiting(engine) == ["a", "b"]
    assert engine.do(RecoverWorkflows()) == RecoveryReport()


def test_crash_of_a_body_blames_no_activity() -> None:
    """If a body kills the process again and again, a workflow whose activity runs is not parked with it."""
    engine = DirectEngine(*FLOWS)
    engine.start(worker(), "a")
    engine.start(waiter(), "b")
    for _ in range(3):
        engine.restart(*FLOWS, clean=False)
        engine.state.mark[0] = engine.record("b").key
    engine.restart(*FLOWS, clean=False)
    assert _parked(engine) == ["b"]


def test_clean_stop_ends_all_trials() -> None:
    """A suspect is not blamed later if the engine stopped cleanly."""
    engine = _half_admitted()
    assert engine.restart(*FLOWS, clean=True) == RecoveryReport(resumed=2)
    assert engine.suspects() == []


def test_clock_that_is_set_back_does_not_extend_a_trial() -> None:
    """After the clock was set back, waiting suspects are admitted without waiting for the old instant."""
    engine = _half_admitted()
    engine.clock.set(to_datetime(engine.clock.now()) - timedelta(hours=1))
    engine.batch()
    engine.settle()
    assert _waiting(engine) == ["a", "b"]


def test_failed_activity_that_waits_for_its_retry_is_not_tried() -> None:
    """A workflow that waits for a retry has no running attempt, so it is not tried."""
    engine = DirectEngine(*FLOWS)
    engine.start(worker())
    engine.fail(engine.activities[0], ValueError("once"))
    engine.restart(*FLOWS, clean=False)
    assert engine.suspects() == []
    for _ in range(3):
        engine.advance(MOMENT)
    engine.advance(60)
    assert not engine.activities[0].on_trial

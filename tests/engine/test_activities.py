"""What is recorded of activities, and when they are tried again."""

from __future__ import annotations

import pytest

from durable import (
    ActivityTimedOut,
    CodecError,
    Durable,
    EntryStatus,
    PayloadTooLarge,
    Retry,
    RetryAfter,
    WorkflowStatus,
    activity,
    gather,
    sleep,
    workflow,
)
from durable.engine.config import EngineConfig
from durable.engine.operations import StopActivity, WakeWorkflow
from durable.model.clock import SECOND
from tests.engine.desk import Desk
from tests.engine.flows import EVERY, Refused, sleeper, work, worker

RESTART = pytest.mark.parametrize("restart", [None, True, False], ids=["no restart", "clean", "unclean"])


def _kinds(desk: Desk) -> list[str]:
    return [entry.status.value for entry in desk.history()]


def test_result_is_recorded_and_used() -> None:
    """The recorded result is the activity's, and the activity is handed out once."""
    desk = Desk(*EVERY)
    desk.start(worker(2))
    (effect,) = desk.activities
    assert (effect.workflow_id, effect.position, effect.attempt, effect.round) == ("w", "0", 1, 0)
    desk.finish(effect, 4)
    assert desk.result() == 4
    (entry,) = desk.history()
    assert (entry.kind.value, entry.name, entry.outcome) == ("activity", "desk.work", "4")


@RESTART
def test_attempts_are_counted_over_restarts(restart: bool | None) -> None:
    """Failed attempts are recorded with the time of the next; the count and that time survive a restart."""
    desk = Desk(*EVERY)
    desk.start(worker())
    for attempt, delay in ((1, 10), (2, 20)):
        (effect,) = desk.activities
        assert effect.attempt == attempt
        desk.fail(effect, ValueError(f"attempt {attempt}"))
        due = desk.clock.now() + delay * SECOND
        assert (desk.record().wake_at, desk.history()[-1].retry_at_us) == (due, due)
        if restart is not None:
            desk.restart(*EVERY, clean=restart)
        desk.advance(delay - 1)
        assert desk.activities == []
        desk.advance(1)
    (effect,) = desk.activities
    assert effect.attempt == 3
    desk.fail(effect, ValueError("attempt 3"))
    assert _kinds(desk) == ["retry", "retry", "error"]
    assert str(desk.error()) == "attempt 3"


@pytest.mark.parametrize(
    "error",
    [Refused("no"), CodecError("x", "y"), PayloadTooLarge("x", 2, 1)],
)
def test_permanent_errors_are_not_retried(error: Exception) -> None:
    """An error that says so, or that no retry can mend, ends the attempts at once."""
    desk = Desk(*EVERY)
    desk.start(worker())
    desk.fail(desk.activities[0], error)
    assert _kinds(desk) == ["error"]
    assert type(desk.error()) is type(error)


def test_timeout_is_retried() -> None:
    """An attempt that took too long counts as a failed one, and is tried again."""
    desk = Desk(*EVERY)
    desk.start(worker())
    desk.fail(desk.activities[0], ActivityTimedOut("desk.work", 1.0))
    assert _kinds(desk) == ["retry"]


def test_retry_after_says_when() -> None:
    """RetryAfter sets the delay of the next attempt, and does not add attempts."""
    desk = Desk(*EVERY)
    desk.start(worker())
    for _ in range(2):
        desk.fail(desk.activities[0], RetryAfter(77))
        assert desk.record().wake_at == desk.clock.now() + 77 * SECOND
        desk.advance(77)
    desk.fail(desk.activities[0], RetryAfter(77))
    assert _kinds(desk) == ["retry", "retry", "error"]


def test_retry_without_delay_runs_at_once() -> None:
    """A policy without a delay hands out the next attempt in the decision that recorded the failed one."""

    @activity(name="desk.eager", retry=Retry(max_attempts=None, first_delay=0, jitter=0))
    def eager() -> None: ...

    @workflow(name="activities.eager")
    def runs() -> Durable[None]:
        yield from eager()

    desk = Desk(runs)
    desk.start(runs())
    for attempt in range(1, 50):
        (effect,) = desk.activities
        assert effect.attempt == attempt
        desk.fail(effect, OSError())
    assert desk.record().wake_at is None


@pytest.mark.parametrize("room", [1, 1000])
def test_wake_up_does_not_hand_out_what_runs(room: int) -> None:
    """A wake-up, and a body that is rebuilt, never hand out again what is in flight."""
    desk = Desk(*EVERY, config=EngineConfig(max_loaded_workflows=room))
    desk.start(worker())
    desk.start(sleeper(), "elsewhere")
    desk.do(WakeWorkflow(desk.record().key))
    desk.advance(100)
    runs = [effect for effect in desk.effects if type(effect).__name__ == "RunActivity"]
    assert len(runs) == 1


def test_body_catches_a_failure_once() -> None:
    """A failure that the body caught is caught again when the body is rebuilt."""

    @workflow(name="activities.catches")
    def catches() -> Durable[str]:
        try:
            yield from work(1)
        except Refused as error:
            yield from sleep(60)
            return f"caught {error}"
        return "nothing to catch"

    desk = Desk(catches)
    desk.start(catches())
    desk.fail(desk.activities[0], Refused("no"))
    desk.restart(catches)
    desk.advance(60)
    assert desk.result() == "caught no"


def test_failed_branch_stops_the_others() -> None:
    """The first failure in a gather stops the activities of the other branches, one stop for each."""

    @workflow(name="activities.gathers")
    def gathers() -> Durable[str]:
        try:
            yield from gather(work(1), work(2), work(3))
        except Refused:
            yield from sleep(60)
        return "done"

    desk = Desk(gathers)
    desk.start(gathers())
    first, second, third = desk.activities
    desk.fail(second, Refused("no"))
    stops = [effect for effect in desk.effects if isinstance(effect, StopActivity)]
    assert [stop.position for stop in stops] == [first.position, third.position]
    assert desk.status() is WorkflowStatus.SUSPENDED
    desk.do(desk.answer(first, 1))
    assert len(desk.history()) == 1


def test_retries_of_branches_keep_their_own_times() -> None:
    """Each branch is tried again at its own time; the record wakes at the earliest."""

    @workflow(name="activities.pair")
    def pair() -> Durable[tuple[int, int]]:
        return (yield from gather(work(1), work(2)))

    desk = Desk(pair)
    desk.start(pair())
    one, two = desk.activities
    desk.fail(one, OSError())
    desk.clock.advance(5)
    desk.fail(two, OSError())
    assert desk.record().wake_at == desk.clock.now() + 5 * SECOND
    desk.advance(5)
    assert [effect.position for effect in desk.activities] == [one.position]
    desk.advance(5)
    assert [effect.attempt for effect in desk.activities] == [2, 2]
    assert {entry.status for entry in desk.history()} == {EntryStatus.RETRY}

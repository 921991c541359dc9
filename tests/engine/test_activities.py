"""What is recorded of activities, and when they are retried."""

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
from tests.engine.direct import DirectEngine
from tests.engine.flows import EVERY, Refused, sleeper, work, worker

RESTART = pytest.mark.parametrize("restart", [None, True, False], ids=["no restart", "clean", "unclean"])


def _kinds(engine: DirectEngine) -> list[str]:
    return [entry.status.value for entry in engine.history()]


def test_result_is_recorded_and_used() -> None:
    """The recorded result is the activity's, and the activity is handed out once."""
    engine = DirectEngine(*EVERY)
    engine.start(worker(2))
    (effect,) = engine.activities
    assert (effect.workflow_id, effect.position, effect.attempt, effect.round) == ("w", "0", 1, 0)
    engine.finish(effect, 4)
    assert engine.result() == 4
    (entry,) = engine.history()
    assert (entry.kind.value, entry.name, entry.outcome) == ("activity", "engine.work", "4")


@RESTART
def test_attempts_are_counted_over_restarts(restart: bool | None) -> None:
    """A failed attempt is recorded with the time of the next one. The count and that time survive a restart."""
    engine = DirectEngine(*EVERY)
    engine.start(worker())
    for attempt, delay in ((1, 10), (2, 20)):
        (effect,) = engine.activities
        assert effect.attempt == attempt
        engine.fail(effect, ValueError(f"attempt {attempt}"))
        due = engine.clock.now() + delay * SECOND
        assert (engine.record().wake_at, engine.history()[-1].retry_at_us) == (due, due)
        if restart is not None:
            engine.restart(*EVERY, clean=restart)
        engine.advance(delay - 1)
        assert engine.activities == []
        engine.advance(1)
    (effect,) = engine.activities
    assert effect.attempt == 3
    engine.fail(effect, ValueError("attempt 3"))
    assert _kinds(engine) == ["retry", "retry", "error"]
    assert str(engine.error()) == "attempt 3"


@pytest.mark.parametrize(
    "error",
    [Refused("no"), CodecError("x", "y"), PayloadTooLarge("x", 2, 1)],
)
def test_permanent_errors_are_not_retried(error: Exception) -> None:
    """An error that is permanent, or that no retry can fix, ends the attempts at once."""
    engine = DirectEngine(*EVERY)
    engine.start(worker())
    engine.fail(engine.activities[0], error)
    assert _kinds(engine) == ["error"]
    assert type(engine.error()) is type(error)


def test_timeout_is_retried() -> None:
    """An attempt that timed out counts as failed, and is retried."""
    engine = DirectEngine(*EVERY)
    engine.start(worker())
    engine.fail(engine.activities[0], ActivityTimedOut("engine.work", 1.0))
    assert _kinds(engine) == ["retry"]


def test_retry_after_says_when() -> None:
    """RetryAfter sets the delay of the next attempt, and adds no attempts."""
    engine = DirectEngine(*EVERY)
    engine.start(worker())
    for _ in range(2):
        engine.fail(engine.activities[0], RetryAfter(77))
        assert engine.record().wake_at == engine.clock.now() + 77 * SECOND
        engine.advance(77)
    engine.fail(engine.activities[0], RetryAfter(77))
    assert _kinds(engine) == ["retry", "retry", "error"]


def test_retry_without_delay_runs_at_once() -> None:
    """Without a delay, the next attempt is handed out in the decision that recorded the failure."""

    @activity(name="engine.eager", retry=Retry(max_attempts=None, first_delay=0, jitter=0))
    def eager() -> None: ...

    @workflow(name="activities.eager")
    def runs() -> Durable[None]:
        yield from eager()

    engine = DirectEngine(runs)
    engine.start(runs())
    for attempt in range(1, 50):
        (effect,) = engine.activities
        assert effect.attempt == attempt
        engine.fail(effect, OSError())
    assert engine.record().wake_at is None


@pytest.mark.parametrize("room", [1, 1000])
def test_wake_up_does_not_hand_out_what_runs(room: int) -> None:
    """Neither a wake-up nor a rebuilt body hands out an activity that is in flight."""
    engine = DirectEngine(*EVERY, config=EngineConfig(max_loaded_workflows=room))
    engine.start(worker())
    engine.start(sleeper(), "elsewhere")
    engine.do(WakeWorkflow(engine.record().key))
    engine.advance(100)
    runs = [effect for effect in engine.effects if type(effect).__name__ == "RunActivity"]
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

    engine = DirectEngine(catches)
    engine.start(catches())
    engine.fail(engine.activities[0], Refused("no"))
    engine.restart(catches)
    engine.advance(60)
    assert engine.result() == "caught no"


def test_failed_branch_stops_the_others() -> None:
    """The first failure in a gather stops the activities of the other branches, with one stop each."""

    @workflow(name="activities.gathers")
    def gathers() -> Durable[str]:
        try:
            yield from gather(work(1), work(2), work(3))
        except Refused:
            yield from sleep(60)
        return "done"

    engine = DirectEngine(gathers)
    engine.start(gathers())
    first, second, third = engine.activities
    engine.fail(second, Refused("no"))
    stops = [effect for effect in engine.effects if isinstance(effect, StopActivity)]
    assert [stop.position for stop in stops] == [first.position, third.position]
    assert engine.status() is WorkflowStatus.SUSPENDED
    engine.do(engine.answer(first, 1))
    assert len(engine.history()) == 1


def test_retries_of_branches_keep_their_own_times() -> None:
    """Each branch is retried at its own time, and the record wakes at the earliest."""

    @workflow(name="activities.pair")
    def pair() -> Durable[tuple[int, int]]:
        return (yield from gather(work(1), work(2)))

    engine = DirectEngine(pair)
    engine.start(pair())
    first, second = engine.activities
    engine.fail(first, OSError())
    engine.clock.advance(5)
    engine.fail(second, OSError())
    assert engine.record().wake_at == engine.clock.now() + 5 * SECOND
    engine.advance(5)
    assert [effect.position for effect in engine.activities] == [first.position]
    engine.advance(5)
    assert [effect.attempt for effect in engine.activities] == [2, 2]
    assert {entry.status for entry in engine.history()} == {EntryStatus.RETRY}

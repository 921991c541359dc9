"""Timeouts, sleeps and pauses after a retry or in a fork: time spent FAILED does not count."""

from __future__ import annotations

from datetime import timedelta

from durable import (
    Break,
    Continue,
    Durable,
    WorkflowStatus,
    gather,
    loop,
    now,
    pause,
    sleep,
    sleep_until,
    workflow,
)
from durable.runner.definitions import WorkflowDef
from tests.engine.asking import resume
from tests.engine.direct import DirectEngine
from tests.engine.flows import go
from tests.engine.mending import check_restart, fork, refused, retry
from tests.engine.test_retry import fail_all, once

FAILED = WorkflowStatus.FAILED


def left(engine: DirectEngine, id: str = "w") -> float | None:
    """How many seconds are left until the next deadline."""
    wake_at = engine.record(id).wake_at
    return None if wake_at is None else (wake_at - engine.clock.now()) / 1_000_000


def limited(broken: bool = False) -> WorkflowDef[[], int]:
    """Two steps within a timeout of 60 seconds."""

    def both() -> Durable[int]:
        first = yield from once(1)
        if broken:
            raise KeyError("a bug")
        return first + (yield from once(2))

    @workflow(name="retry.limited")
    def body() -> Durable[int]:
        (total,) = yield from gather(both()).within(60)
        return total

    return body


def test_time_spent_failed_does_not_count() -> None:
    """A timeout around the retried step resumes where it stopped, however often and however long it was FAILED."""
    engine = DirectEngine(limited())
    engine.start(limited()())
    for _ in range(3):
        engine.advance(10)
        fail_all(engine)
        assert engine.status() is FAILED
        engine.advance(1000)
        retry(engine)
        check_restart(engine, limited())
    assert left(engine) == 30
    engine.finish(engine.activities[0], 1)
    engine.advance(30)
    assert type(engine.error()).__name__ == "TimedOut"
    assert "ends in durable.TimedOut" in str(refused(engine, lambda: retry(engine)))


def test_time_until_the_code_is_fixed_does_not_count() -> None:
    """Time spent FAILED does not count if the code itself failed, either."""
    engine = DirectEngine(limited(broken=True))
    engine.start(limited(broken=True)())
    engine.advance(10)
    engine.finish(engine.activities[0], 1)
    engine.advance(1000)
    engine.restart(limited())
    retry(engine)
    check_restart(engine, limited())
    assert left(engine) == 50
    engine.finish(engine.activities[0], 2)
    assert engine.result() == 3


def test_other_sleep_keeps_its_deadline() -> None:
    """A sleep beside the retried step keeps its deadline."""

    @workflow(name="retry.beside")
    def beside() -> Durable[str]:
        fired, _ = yield from gather(sleep(60), once())
        return fired.isoformat()

    engine = DirectEngine(beside)
    engine.start(beside())
    due = engine.record().wake_at
    fail_all(engine)
    engine.advance(10)
    retry(engine)
    assert engine.record().wake_at == due
    engine.advance(100)
    engine.finish(engine.activities[0], 1)
    assert engine.status() is WorkflowStatus.SUCCEEDED


@workflow(name="retry.asks")
def asks() -> Durable[bool]:
    """Asks a question that expires."""
    return (yield from pause(returns=bool, expires_after=60))


@workflow(name="retry.asks_beside")
def asks_beside() -> Durable[bool]:
    """Asks a question that expires, beside a step."""
    answer, _ = yield from gather(pause(returns=bool, expires_after=60), once())
    return answer


def test_expired_question_is_asked_again() -> None:
    """A pause that expired is asked again after a retry, with its full time."""
    engine = DirectEngine(asks)
    engine.start(asks())
    engine.advance(60)
    assert type(engine.error()).__name__ == "PauseExpired"
    engine.advance(500)
    retry(engine)
    check_restart(engine, asks)
    assert left(engine) == 60
    engine.advance(59)
    assert resume(engine, "0", True) is None
    assert engine.result() is True


def test_other_pause_keeps_its_remaining_time() -> None:
    """A pause beside the retried step keeps its remaining time, because nobody could answer it while FAILED."""
    engine = DirectEngine(asks_beside)
    engine.start(asks_beside())
    engine.advance(20)
    fail_all(engine)
    engine.advance(500)
    retry(engine)
    check_restart(engine, asks_beside)
    assert engine.record().wake_at == engine.clock.now() + 40_000_000


def test_limit_around_a_loop_stays_moved() -> None:
    """A retried round moves the timeout around its loop for good, even after the round ends and across restarts."""

    def body(number: int) -> Durable[Continue[int] | Break[int]]:
        number += yield from once(number)
        return Continue(number) if number < 3 else Break(number)

    @workflow(name="retry.looping")
    def looping() -> Durable[int]:
        return (yield from loop(body, 0, keep=0).within(60))

    engine = DirectEngine(looping)
    engine.start(looping())
    fail_all(engine)
    engine.advance(1000)
    retry(engine)
    for number in range(3):
        check_restart(engine, looping)
        assert left(engine) == 60 - number
        engine.advance(1)
        engine.finish(engine.activities[0], 1)
    assert engine.result() == 3


# --- forks ------------------------------------------------------------------------------------------------------------


@workflow(name="fork.limited")
def limited_wait() -> Durable[int]:
    """Waits for an event with a timeout."""
    return (yield from go.wait().within(60))


def test_fork_of_a_limit_that_was_over() -> None:
    """A wait that timed out gets its full timeout again in a fork, counted from the fork."""
    engine = DirectEngine(limited_wait)
    engine.start(limited_wait())
    engine.advance(60)
    assert engine.status() is FAILED
    engine.advance(1000)
    fork(engine, "0")
    check_restart(engine, limited_wait)
    assert left(engine, "f") == 60
    engine.advance(20)
    fork(engine, "0", new_id="g")
    check_restart(engine, limited_wait)
    assert (left(engine, "f"), left(engine, "g")) == (40, 60)
    engine.send(go, 5, to="f")
    assert engine.result("f") == 5


def test_fork_inside_a_timeout_keeps_the_remaining_time() -> None:
    """A timeout that began before the last copied step continues from there."""
    engine = DirectEngine(limited())
    engine.start(limited()())
    engine.advance(10)
    engine.finish(engine.activities[0], 1)
    engine.advance(10)
    fail_all(engine)
    engine.advance(1000)
    fork(engine, "0.0.0.0.1")
    check_restart(engine, limited())
    assert left(engine, "f") == 50


@workflow(name="fork.sleeps")
def sleeps() -> Durable[list[str]]:
    """Sleeps for a while and until an instant, beside a step; then once more."""
    until = now() + timedelta(seconds=100)
    both = yield from gather(sleep(50), sleep_until(until), once())
    last = yield from sleep(30)
    return [str(both[0] - until), str(last - until)]


def test_fork_sleeps_from_its_own_time_on() -> None:
    """A sleep that the fork begins lasts its full time. An instant stays, and so does a sleep in the copied part."""
    engine = DirectEngine(sleeps)
    engine.start(sleeps())
    engine.advance(20)
    engine.finish(engine.activities[0], 1)
    engine.advance(30)
    engine.advance(50)
    engine.advance(30)
    assert engine.status() is WorkflowStatus.SUCCEEDED
    engine.advance(1000)
    fork(engine, "0", new_id="whole")
    assert engine.history("whole")[-1].name == "timer"
    assert left(engine, "whole") == 50
    fork(engine, "0.0.0", new_id="begun")
    check_restart(engine, sleeps)
    # Both sleeps began before the last copied step, and are over.
    assert left(engine, "begun") == 30
    fork(engine, "1", new_id="last")
    assert left(engine, "last") == 30

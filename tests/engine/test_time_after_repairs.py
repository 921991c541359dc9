"""Limits, sleeps and questions after a retry or in a fork: time spent FAILED does not count."""

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
from tests.engine.desk import Desk
from tests.engine.flows import go
from tests.engine.mending import check_restart, fork, refused, retry
from tests.engine.test_retry import fail_all, once

FAILED = WorkflowStatus.FAILED


def left(desk: Desk, id: str = "w") -> float | None:
    """How many seconds are left until the next deadline."""
    wake_at = desk.record(id).wake_at
    return None if wake_at is None else (wake_at - desk.clock.now()) / 1_000_000


def limited(broken: bool = False) -> WorkflowDef[[], int]:
    """Two steps within a limit of 60 seconds."""

    def both() -> Durable[int]:
        first = yield from once(1)
        if broken:
            raise KeyError("a bug")
        return first + (yield from once(2))

    @workflow(name="retry.limited")
    def body() -> Durable[int]:
        (found,) = yield from gather(both()).within(60)
        return found

    return body


def test_time_in_which_it_lay_failed_does_not_count() -> None:
    """A limit around the retried step continues where it stopped, however often and however long it was FAILED."""
    desk = Desk(limited())
    desk.start(limited()())
    for _ in range(3):
        desk.advance(10)
        fail_all(desk)
        assert desk.status() is FAILED
        desk.advance(1000)
        retry(desk)
        check_restart(desk, limited())
    assert left(desk) == 30
    desk.finish(desk.activities[0], 1)
    desk.advance(30)
    assert type(desk.error()).__name__ == "TimedOut"
    assert "ends in durable.TimedOut" in str(refused(desk, lambda: retry(desk)))


def test_time_in_which_the_code_was_mended_does_not_count() -> None:
    """The same holds if the code failed and not a step."""
    desk = Desk(limited(broken=True))
    desk.start(limited(broken=True)())
    desk.advance(10)
    desk.finish(desk.activities[0], 1)
    desk.advance(1000)
    desk.restart(limited())
    retry(desk)
    check_restart(desk, limited())
    assert left(desk) == 50
    desk.finish(desk.activities[0], 2)
    assert desk.result() == 3


def test_sleep_beside_it_ends_at_its_time() -> None:
    """A timer beside the step is not a limit: its instant does not move."""

    @workflow(name="retry.beside")
    def beside() -> Durable[str]:
        fired, _ = yield from gather(sleep(60), once())
        return fired.isoformat()

    desk = Desk(beside)
    desk.start(beside())
    due = desk.record().wake_at
    fail_all(desk)
    desk.advance(10)
    retry(desk)
    assert desk.record().wake_at == due
    desk.advance(100)
    desk.finish(desk.activities[0], 1)
    assert desk.status() is WorkflowStatus.SUCCEEDED


@workflow(name="retry.asks")
def asks() -> Durable[bool]:
    """A question that expires."""
    return (yield from pause(returns=bool, expires_after=60))


@workflow(name="retry.asks_beside")
def asks_beside() -> Durable[bool]:
    """A question that expires, beside a step."""
    answer, _ = yield from gather(pause(returns=bool, expires_after=60), once())
    return answer


def test_expired_question_is_asked_again() -> None:
    """A pause that expired is asked again after a retry, with its full time."""
    desk = Desk(asks)
    desk.start(asks())
    desk.advance(60)
    assert type(desk.error()).__name__ == "PauseExpired"
    desk.advance(500)
    retry(desk)
    check_restart(desk, asks)
    assert left(desk) == 60
    desk.advance(59)
    assert resume(desk, "0", True) is None
    assert desk.result() is True


def test_question_beside_the_step_keeps_the_time_it_had_left() -> None:
    """While the workflow was FAILED it could not be answered, so that time does not count."""
    desk = Desk(asks_beside)
    desk.start(asks_beside())
    desk.advance(20)
    fail_all(desk)
    desk.advance(500)
    retry(desk)
    check_restart(desk, asks_beside)
    assert desk.record().wake_at == desk.clock.now() + 40_000_000


def test_limit_around_a_loop_stays_moved() -> None:
    """A round that was retried and is over has moved the limit around its loop for good, over restarts."""

    def body(number: int) -> Durable[Continue[int] | Break[int]]:
        number += yield from once(number)
        return Continue(number) if number < 3 else Break(number)

    @workflow(name="retry.looping")
    def looping() -> Durable[int]:
        return (yield from loop(body, 0, keep=0).within(60))

    desk = Desk(looping)
    desk.start(looping())
    fail_all(desk)
    desk.advance(1000)
    retry(desk)
    for number in range(3):
        check_restart(desk, looping)
        assert left(desk) == 60 - number
        desk.advance(1)
        desk.finish(desk.activities[0], 1)
    assert desk.result() == 3


# --- forks ------------------------------------------------------------------------------------------------------------


@workflow(name="fork.limited")
def limited_wait() -> Durable[int]:
    """An event within a limit."""
    return (yield from go.wait().within(60))


def test_fork_of_a_limit_that_was_over() -> None:
    """A wait that took too long has its whole limit again in a fork, from the time of the fork on."""
    desk = Desk(limited_wait)
    desk.start(limited_wait())
    desk.advance(60)
    assert desk.status() is FAILED
    desk.advance(1000)
    fork(desk, "0")
    check_restart(desk, limited_wait)
    assert left(desk, "f") == 60
    desk.advance(20)
    fork(desk, "0", new_id="g")
    check_restart(desk, limited_wait)
    assert (left(desk, "f"), left(desk, "g")) == (40, 60)
    desk.send(go, 5, to="f")
    assert desk.result("f") == 5


def test_fork_inside_a_limit_has_what_was_left_of_it() -> None:
    """A limit that had begun before the last copied step continues from there."""
    desk = Desk(limited())
    desk.start(limited()())
    desk.advance(10)
    desk.finish(desk.activities[0], 1)
    desk.advance(10)
    fail_all(desk)
    desk.advance(1000)
    fork(desk, "0.0.0.0.1")
    check_restart(desk, limited())
    assert left(desk, "f") == 50


@workflow(name="fork.sleeps")
def sleeps() -> Durable[list[str]]:
    """Sleeps for a while and until an instant, beside a step; then once more."""
    until = now() + timedelta(seconds=100)
    both = yield from gather(sleep(50), sleep_until(until), once())
    last = yield from sleep(30)
    return [str(both[0] - until), str(last - until)]


def test_fork_sleeps_from_its_own_time_on() -> None:
    """What it begins itself lasts its whole time; an instant stands, and so does a sleep that had begun before."""
    desk = Desk(sleeps)
    desk.start(sleeps())
    desk.advance(20)
    desk.finish(desk.activities[0], 1)
    desk.advance(30)
    desk.advance(50)
    desk.advance(30)
    assert desk.status() is WorkflowStatus.SUCCEEDED
    desk.advance(1000)
    fork(desk, "0", new_id="whole")
    assert desk.history("whole")[-1].name == "timer"
    assert left(desk, "whole") == 50
    fork(desk, "0.0.0", new_id="begun")
    check_restart(desk, sleeps)
    # Both sleeps had begun before the step that was copied last, and are over.
    assert left(desk, "begun") == 30
    fork(desk, "1", new_id="last")
    assert left(desk, "last") == 30

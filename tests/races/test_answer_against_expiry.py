"""A person answers while the pause expires, is withdrawn, loses its branch, or another person answers."""

from __future__ import annotations

import pytest

from durable import (
    Durable,
    PauseAlreadyAnswered,
    PauseCancelled,
    PauseExpired,
    PauseNotFound,
    WorkflowStatus,
    WorkflowTerminated,
    pause,
    sleep,
    workflow,
)
from durable.engine.operations import CancelPause, CancelWorkflow, ResumePause, TerminateWorkflow, WakeWorkflow
from tests.engine.asking import FLOWS, asker, ids
from tests.engine.desk import Desk, refusal
from tests.races.kit import TOGETHER

ANSWER = ResumePause("w", "0", "5")


def _desk(expires_after: float | None = None) -> Desk:
    """It has paused; then there is a second pause."""
    desk = Desk(*FLOWS)
    desk.start(asker(2, expires_after))
    return desk


def _expiring() -> tuple[Desk, WakeWorkflow]:
    """A workflow whose pause has expired, before the expiry is decided."""
    desk = _desk(60)
    desk.clock.advance(60)
    return desk, WakeWorkflow(desk.record().key)


def _second(desk: Desk) -> str:
    """Answer the second pause; the result."""
    assert ids(desk) == ["1"]
    assert desk.batch(ResumePause("w", "1", "6")) == [None]
    first, second = desk.result()
    assert second == 6
    return str(first)


@TOGETHER
def test_answer_before_the_expiry_wins(together: bool) -> None:
    """An answer that is decided before the expiry counts, and the deadline that has passed does nothing."""
    desk, wake = _expiring()
    assert desk.two(ANSWER, wake, together=together) == [None, None]
    assert [(entry.position, entry.status.value) for entry in desk.history()] == [("0", "ok")]
    assert _second(desk) == "5"


@TOGETHER
def test_expiry_before_the_answer_wins(together: bool) -> None:
    """An answer after the recorded expiry is refused with that reason, and does not touch the next pause."""
    desk, wake = _expiring()
    _, late = desk.two(wake, ANSWER, together=together)
    assert refusal(late) == (PauseExpired, "w", "0")
    assert [(entry.position, entry.status.value) for entry in desk.history()] == [("0", "error")]
    assert _second(desk) == str(PauseExpired("w", "0"))


@TOGETHER
def test_expiry_twice_is_one(together: bool) -> None:
    """Two wake-ups for one deadline end one pause, and not the next."""
    desk, wake = _expiring()
    desk.two(wake, wake, together=together)
    assert len(desk.history()) == 1
    assert ids(desk) == ["1"]


@pytest.mark.parametrize("clean", [True, False])
def test_restart_between_deadline_and_answer(clean: bool) -> None:
    """A pause that expired while no engine ran is expired before any answer after the restart."""
    desk, _ = _expiring()
    desk.restart(*FLOWS, clean=clean)
    assert refusal(desk.batch(ANSWER)[0]) == (PauseExpired, "w", "0")
    assert _second(desk) == str(PauseExpired("w", "0"))


@TOGETHER
@pytest.mark.parametrize("second", ["5", "7"], ids=["the same", "another"])
def test_two_answers(together: bool, second: str) -> None:
    """The first of two answers stands, whatever the second says."""
    desk = _desk()
    answered, late = desk.two(ANSWER, ResumePause("w", "0", second), together=together)
    assert (answered, refusal(late)) == (None, (PauseAlreadyAnswered, "w", "0"))
    assert _second(desk) == "5"


@TOGETHER
@pytest.mark.parametrize("is_answer_first", [True, False])
def test_answer_against_taking_it_back(together: bool, is_answer_first: bool) -> None:
    """The body gets whichever is decided first; the other is refused."""
    desk = _desk()
    both = (ANSWER, CancelPause("w", "0"))
    answered, late = desk.two(*(both if is_answer_first else both[::-1]), together=together)
    expected = (PauseAlreadyAnswered, "w", "0") if is_answer_first else (PauseCancelled, "w", "0", None)
    assert (answered, refusal(late)) == (None, expected)
    assert _second(desk) == ("5" if is_answer_first else str(PauseCancelled("w", "0")))


@TOGETHER
@pytest.mark.parametrize("end", [CancelWorkflow("w"), TerminateWorkflow("w")], ids=["cancel", "terminate"])
def test_answer_against_the_end(together: bool, end: CancelWorkflow | TerminateWorkflow) -> None:
    """An answer before the end is recorded and does not change the end; an answer after it is refused."""
    desk = _desk()
    assert desk.two(ANSWER, end, together=together) == [None, True]
    assert desk.history()[0].outcome == "5"
    other = _desk()
    told, late = other.two(end, ANSWER, together=together)
    assert (told, refusal(late)) == (True, (WorkflowTerminated, "w", "cancelled"))
    for each in (desk, other):
        assert (each.status(), ids(each)) == (WorkflowStatus.CANCELLED, [])


@workflow(name="races.limited")
def limited() -> Durable[list[int]]:
    """A pause within a limit, -1 if it is over; then a timer."""
    answer = yield from pause(returns=int).within(60).or_default(-1)
    yield from sleep(1000)
    return [answer]


@TOGETHER
@pytest.mark.parametrize("is_answer_first", [True, False])
def test_answer_against_the_limit_of_its_branch(together: bool, is_answer_first: bool) -> None:
    """An answer before the limit wins the branch; after the limit the pause is gone and the answer is refused."""
    desk = Desk(limited)
    desk.start(limited())
    desk.clock.advance(60)
    answer, wake = ResumePause("w", "0.0.0", "5"), WakeWorkflow(desk.record().key)
    replies = desk.two(*((answer, wake) if is_answer_first else (wake, answer)), together=together)
    if is_answer_first:
        assert replies == [None, None]
    else:
        assert refusal(replies[1]) == (PauseNotFound, "w", "0.0.0")
    assert ids(desk) == []
    desk.advance(1000)
    assert desk.result() == [5 if is_answer_first else -1]


@TOGETHER
def test_answer_against_its_own_question(together: bool) -> None:
    """An answer to the next pause is accepted right after the one that opens it, also in one commit."""
    desk = _desk()
    assert desk.two(ANSWER, ResumePause("w", "1", "6"), together=together) == [None, None]
    assert desk.result() == [5, 6]
    early = _desk()
    refused, answered = early.two(ResumePause("w", "1", "6"), ANSWER, together=together)
    assert (refusal(refused), answered) == ((PauseNotFound, "w", "1"), None)
    assert ids(early) == ["1"]

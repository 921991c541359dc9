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
from tests.engine.direct import DirectEngine, refusal
from tests.races.kit import TOGETHER

ANSWER = ResumePause("w", "0", "5")


def _engine(expires_after: float | None = None) -> DirectEngine:
    """It has paused; then there is a second pause."""
    engine = DirectEngine(*FLOWS)
    engine.start(asker(2, expires_after))
    return engine


def _expiring() -> tuple[DirectEngine, WakeWorkflow]:
    """A workflow whose pause has expired, before the expiry is decided."""
    engine = _engine(60)
    engine.clock.advance(60)
    return engine, WakeWorkflow(engine.record().key)


def _second(engine: DirectEngine) -> str:
    """Answer the second pause; the result."""
    assert ids(engine) == ["1"]
    assert engine.batch(ResumePause("w", "1", "6")) == [None]
    first, second = engine.result()
    assert second == 6
    return str(first)


@TOGETHER
def test_answer_before_the_expiry_wins(together: bool) -> None:
    """An answer that is decided before the expiry counts, and the deadline that has passed does nothing."""
    engine, wake = _expiring()
    assert engine.two(ANSWER, wake, together=together) == [None, None]
    assert [(entry.position, entry.status.value) for entry in engine.history()] == [("0", "ok")]
    assert _second(engine) == "5"


@TOGETHER
def test_expiry_before_the_answer_wins(together: bool) -> None:
    """An answer after the recorded expiry is refused with that reason, and does not touch the next pause."""
    engine, wake = _expiring()
    _, late = engine.two(wake, ANSWER, together=together)
    assert refusal(late) == (PauseExpired, "w", "0")
    assert [(entry.position, entry.status.value) for entry in engine.history()] == [("0", "error")]
    assert _second(engine) == str(PauseExpired("w", "0"))


@TOGETHER
def test_expiry_twice_is_one(together: bool) -> None:
    """Two wake-ups for one deadline end one pause, and not the next."""
    engine, wake = _expiring()
    engine.two(wake, wake, together=together)
    assert len(engine.history()) == 1
    assert ids(engine) == ["1"]


@pytest.mark.parametrize("clean", [True, False])
def test_restart_between_deadline_and_answer(clean: bool) -> None:
    """A pause that expired while no engine ran is expired before any answer after the restart."""
    engine, _ = _expiring()
    engine.restart(*FLOWS, clean=clean)
    assert refusal(engine.batch(ANSWER)[0]) == (PauseExpired, "w", "0")
    assert _second(engine) == str(PauseExpired("w", "0"))


@TOGETHER
@pytest.mark.parametrize("second", ["5", "7"], ids=["the same", "another"])
def test_two_answers(together: bool, second: str) -> None:
    """The first of two answers stands, whatever the second says."""
    engine = _engine()
    answered, late = engine.two(ANSWER, ResumePause("w", "0", second), together=together)
    assert (answered, refusal(late)) == (None, (PauseAlreadyAnswered, "w", "0"))
    assert _second(engine) == "5"


@TOGETHER
@pytest.mark.parametrize("is_answer_first", [True, False])
def test_answer_against_taking_it_back(together: bool, is_answer_first: bool) -> None:
    """The body gets whichever is decided first; the other is refused."""
    engine = _engine()
    both = (ANSWER, CancelPause("w", "0"))
    answered, late = engine.two(*(both if is_answer_first else both[::-1]), together=together)
    expected = (PauseAlreadyAnswered, "w", "0") if is_answer_first else (PauseCancelled, "w", "0", None)
    assert (answered, refusal(late)) == (None, expected)
    assert _second(engine) == ("5" if is_answer_first else str(PauseCancelled("w", "0")))


@TOGETHER
@pytest.mark.parametrize("end", [CancelWorkflow("w"), TerminateWorkflow("w")], ids=["cancel", "terminate"])
def test_answer_against_the_end(together: bool, end: CancelWorkflow | TerminateWorkflow) -> None:
    """An answer before the end is recorded and does not change the end; an answer after it is refused."""
    engine = _engine()
    assert engine.two(ANSWER, end, together=together) == [None, True]
    assert engine.history()[0].outcome == "5"
    ended_first = _engine()
    accepted, late = ended_first.two(end, ANSWER, together=together)
    assert (accepted, refusal(late)) == (True, (WorkflowTerminated, "w", "cancelled"))
    for each in (engine, ended_first):
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
    engine = DirectEngine(limited)
    engine.start(limited())
    engine.clock.advance(60)
    answer, wake = ResumePause("w", "0.0.0", "5"), WakeWorkflow(engine.record().key)
    replies = engine.two(*((answer, wake) if is_answer_first else (wake, answer)), together=together)
    if is_answer_first:
        assert replies == [None, None]
    else:
        assert refusal(replies[1]) == (PauseNotFound, "w", "0.0.0")
    assert ids(engine) == []
    engine.advance(1000)
    assert engine.result() == [5 if is_answer_first else -1]


@TOGETHER
def test_answer_against_its_own_question(together: bool) -> None:
    """An answer to the next pause is accepted right after the one that opens it, also in one commit."""
    engine = _engine()
    assert engine.two(ANSWER, ResumePause("w", "1", "6"), together=together) == [None, None]
    assert engine.result() == [5, 6]
    early = _engine()
    refused, answered = early.two(ResumePause("w", "1", "6"), ANSWER, together=together)
    assert (refusal(refused), answered) == ((PauseNotFound, "w", "1"), None)
    assert ids(early) == ["1"]

"""An operator repairs a workflow while something else happens to it: in both orders, in one batch and in two."""

from __future__ import annotations

import pytest

from durable import CannotRetry, Durable, WorkflowAlreadyExists, WorkflowStatus, gather, workflow
from durable.engine.operations import (
    CancelWorkflow,
    ForkWorkflow,
    RepairWorkflow,
    RetryWorkflow,
    RunActivity,
    StopActivity,
    TerminateWorkflow,
    WakeWorkflow,
)
from durable.errors import WorkflowTerminated
from tests.engine.direct import DirectEngine, call_of, event_of, refusal
from tests.engine.flows import EVERY, Refused, go, patient, waiter, work, worker
from tests.engine.mending import check_restart, outline, repair, retry
from tests.engine.test_retry import fail_all, once
from tests.races.kit import TOGETHER

FAILED, RUNNING, CANCELLED = WorkflowStatus.FAILED, WorkflowStatus.RUNNING, WorkflowStatus.CANCELLED
CANCEL = CancelWorkflow("w", "why")
RETRY = RetryWorkflow("w")


@workflow(name="races.two")
def two_steps() -> Durable[list[int]]:
    """A step and one with its result."""
    first = yield from work(1)
    return [first, (yield from work(first))]


@workflow(name="races.both")
def both() -> Durable[list[int]]:
    """Two steps at once."""
    return list((yield from gather(once(1), once(2))))


@workflow(name="races.parent")
def parent() -> Durable[list[int]]:
    """A child that waits, beside a step."""
    return list((yield from gather(waiter(), once(1))))


FLOWS = (*EVERY, two_steps, both, parent)


def failed() -> DirectEngine:
    """A workflow that has failed."""
    engine = DirectEngine(*FLOWS)
    engine.start(worker())
    fail_all(engine)
    return engine


# --- retry ------------------------------------------------------------------------------------------------------------


@TOGETHER
@pytest.mark.parametrize("end", [CANCEL, TerminateWorkflow("w", "why")], ids=["cancel", "terminate"])
def test_retry_then_cancel(end: CancelWorkflow | TerminateWorkflow, together: bool) -> None:
    """A retried workflow can be cancelled like any other, and its step is stopped."""
    engine = failed()
    assert engine.two(RETRY, end, together=together) == [None, True]
    assert (engine.status(), engine.activities, engine.record().error) == (CANCELLED, [], None)
    assert refusal(engine.batch(RETRY)[0])[0] is CannotRetry
    engine.restart(*FLOWS)
    assert engine.status() is CANCELLED


@TOGETHER
def test_cancel_then_retry(together: bool) -> None:
    """A failed workflow cannot be cancelled, and the attempt to cancel it leaves nothing behind."""
    engine = failed()
    assert engine.two(CANCEL, RETRY, together=together) == [False, None]
    check_restart(engine, *FLOWS)
    assert (engine.status(), engine.record().cancel_requested) == (RUNNING, False)
    engine.finish(engine.activities[0], 3)
    assert engine.result() == 3


@TOGETHER
def test_retry_twice(together: bool) -> None:
    """The second retry finds the workflow running: one note, one attempt."""
    engine = failed()
    first, second = engine.two(RETRY, RETRY, together=together)
    assert first is None
    assert refusal(second) == (CannotRetry, "w", "only a failed or parked workflow can be, and it is running")
    assert outline(engine) == ["activity 0 error", "retried 0 ok"]
    assert len(engine.activities) == 1


@TOGETHER
@pytest.mark.parametrize("answer_first", [True, False])
def test_retry_against_the_failure_itself(answer_first: bool, together: bool) -> None:
    """Before the failure is recorded there is nothing to retry."""
    engine = DirectEngine(*FLOWS)
    engine.start(worker())
    answer = engine.answer(engine.activities[0], error=Refused("no"))
    if answer_first:
        assert engine.two(answer, RETRY, together=together) == [None, None]
        assert (engine.status(), outline(engine)) == (RUNNING, ["activity 0 error", "retried 0 ok"])
        check_restart(engine, *FLOWS)
    else:
        assert refusal(engine.two(RETRY, answer, together=together)[0])[0] is CannotRetry
        assert (engine.status(), outline(engine)) == (FAILED, ["activity 0 error"])


@TOGETHER
@pytest.mark.parametrize("error", [None, Refused("late")])
def test_retry_against_a_late_answer(error: Exception | None, together: bool) -> None:
    """A step that was stopped when its workflow failed cannot answer for its second attempt after the retry."""
    engine = DirectEngine(*FLOWS)
    engine.start(both())
    first, second = engine.activities
    engine.fail(first, Refused("no"))
    engine.two(RETRY, engine.answer(second, 222, error), together=together)
    assert outline(engine) == ["activity 0.0.0 error", "retried 0.0.0 ok"]
    assert len(engine.activities) == 2
    for effect in engine.activities:
        engine.finish(effect, 1)
    assert engine.result() == [1, 1]


@TOGETHER
def test_retry_against_an_event_for_a_child(together: bool) -> None:
    """A restarted child takes events that are sent after the retry; before the retry it has ended."""
    engine = DirectEngine(*FLOWS)
    engine.start(parent())
    fail_all(engine)
    send = event_of(go, 5, to="w/0.0.0")
    assert refusal(engine.batch(send)[0])[0] is WorkflowTerminated
    engine.two(RETRY, send, together=together)
    engine.settle()
    check_restart(engine, *FLOWS)
    engine.finish(engine.activities[0], 1)
    assert engine.result() == [5, 1]


# --- repair -----------------------------------------------------------------------------------------------------------

REPAIR = RepairWorkflow("w", "0", "10", "why")


def begun() -> tuple[DirectEngine, RunActivity]:
    """The second step runs with the first result."""
    engine = DirectEngine(*FLOWS)
    engine.start(two_steps())
    engine.finish(engine.activities[0], 1)
    (effect,) = engine.activities
    return engine, effect


@TOGETHER
@pytest.mark.parametrize("error", [None, Refused("late"), ValueError("late")])
def test_repair_then_late_answer(error: Exception | None, together: bool) -> None:
    """A step that ran with the old value is stopped, and its answer is ignored."""
    engine, old = begun()
    assert engine.two(REPAIR, engine.answer(old, 111, error), together=together) == [None, None]
    assert StopActivity(old.key, 0, "1") in engine.effects
    assert outline(engine) == ["activity 0 ok", "repaired 0 ok"]
    check_restart(engine, *FLOWS)
    (new,) = engine.activities
    engine.finish(new, 222)
    assert (new.args, engine.result()) == ((10,), [10, 222])


@TOGETHER
def test_answer_then_repair(together: bool) -> None:
    """A result that arrived first is recorded; if it ended the workflow, nothing can be repaired."""
    engine, old = begun()
    answered, refused = engine.two(engine.answer(old, 111), REPAIR, together=together)
    assert (answered, refusal(refused)) == (None, (WorkflowTerminated, "w", "succeeded"))
    assert engine.result() == [1, 111]


@TOGETHER
@pytest.mark.parametrize("repair_first", [True, False])
def test_failed_attempt_against_repair(repair_first: bool, together: bool) -> None:
    """Only an attempt that failed before the repair counts."""
    engine, old = begun()
    answer = engine.answer(old, error=ValueError("no"))
    engine.two(*((REPAIR, answer) if repair_first else (answer, REPAIR)), together=together)
    engine.advance(10)
    (new,) = engine.activities
    assert (new.args, new.attempt) == ((10,), 1 if repair_first else 2)
    check_restart(engine, *FLOWS)
    engine.finish(engine.activities[0], 5)
    assert engine.result() == [10, 5]


@TOGETHER
@pytest.mark.parametrize("repair_first", [True, False])
def test_cancel_against_repair(repair_first: bool, together: bool) -> None:
    """Cancel wins in either order."""
    engine, _ = begun()
    engine.two(*((REPAIR, CANCEL) if repair_first else (CANCEL, REPAIR)), together=together)
    assert (engine.status(), engine.activities) == (CANCELLED, [])
    assert ("repaired 0 ok" in outline(engine)) is repair_first


@TOGETHER
@pytest.mark.parametrize("repair_first", [True, False])
def test_timer_against_repair(repair_first: bool, together: bool) -> None:
    """A timer that is due fires once, with or without the repair before it."""
    engine = DirectEngine(*FLOWS)
    engine.start(patient(60))
    engine.send(go, 1, to="w")
    engine.start(patient(60), "late")
    engine.clock.advance(60)
    wake = WakeWorkflow(engine.record("late").key)
    fix = RepairWorkflow("w", "0.0.0", "5", "why")
    engine.two(*((fix, wake) if repair_first else (wake, fix)), together=together)
    engine.settle()
    for id in ("w", "late"):
        engine.send(go, 2, to=id)
    assert (engine.result(), engine.result("late")) == ([5, 2], [-1, 2])


# --- fork -------------------------------------------------------------------------------------------------------------

FORK = ForkWorkflow("w", "0", "f")


@TOGETHER
@pytest.mark.parametrize("fork_first", [True, False])
def test_fork_against_its_source_going_on(fork_first: bool, together: bool) -> None:
    """Neither affects the other: the source records its step, and the fork has the results before its position."""
    engine, effect = begun()
    answer = engine.answer(effect, 111)
    engine.two(*((FORK, answer) if fork_first else (answer, FORK)), together=together)
    assert engine.result() == [1, 111]
    engine.restart(*FLOWS)
    check_restart(engine, *FLOWS)
    (own,) = engine.activities
    assert (own.workflow_id, own.position, own.args) == ("f", "0", (1,))
    engine.finish(own, 2)
    engine.finish(engine.activities[0], 3)
    assert engine.result("f") == [2, 3]


@TOGETHER
def test_answer_that_makes_the_place(together: bool) -> None:
    """A position that is recorded earlier in the same batch can be forked from."""
    engine, effect = begun()
    assert engine.two(engine.answer(effect, 111), ForkWorkflow("w", "1", "f"), together=together) == [None, None]
    engine.finish(engine.activities[-1], 222)
    assert (engine.result(), engine.result("f")) == ([1, 111], [1, 222])


@TOGETHER
@pytest.mark.parametrize("fork_first", [True, False])
def test_fork_against_a_start_of_its_id(fork_first: bool, together: bool) -> None:
    """An id belongs to the first workflow that takes it."""
    engine, _ = begun()
    start = call_of(waiter(), "f")
    replies = engine.two(*((FORK, start) if fork_first else (start, FORK)), together=together)
    assert refusal(replies[1])[0] is WorkflowAlreadyExists
    assert engine.record("f").name == ("races.two" if fork_first else "engine.waiter")


@TOGETHER
@pytest.mark.parametrize("fork_first", [True, False])
def test_fork_against_repair_and_cancel(fork_first: bool, together: bool) -> None:
    """A fork has the results recorded when it was made, and continues when its source is cancelled."""
    engine, _ = begun()
    engine.finish(engine.activities[0], 2)
    engine.start(two_steps(), "v")
    engine.finish(engine.activities[0], 1)
    fork, fix = ForkWorkflow("v", "0", "f"), RepairWorkflow("v", "0", "10", "why")
    engine.two(*((fork, fix) if fork_first else (fix, fork)), together=together)
    engine.two(CancelWorkflow("v"), ForkWorkflow("v", "0", "g"), together=together)
    assert (engine.status("v"), engine.status("f"), engine.status("g")) == (CANCELLED, RUNNING, RUNNING)


def test_crash_behind_each_step() -> None:
    """An unclean stop after a failure, a repair, a retry and an answer loses none of them."""
    engine, effect = begun()
    engine.fail(effect, Refused("no"))
    engine.restart(*FLOWS, clean=False)
    repair(engine, "0", 10)
    engine.restart(*FLOWS, clean=False)
    retry(engine)
    engine.restart(*FLOWS, clean=False)
    (again,) = engine.activities
    assert (again.args, again.attempt) == ((10,), 1)
    engine.finish(again, 7)
    engine.restart(*FLOWS, clean=False)
    assert engine.result() == [10, 7]


@TOGETHER
@pytest.mark.parametrize("first", ["retry", "child"])
def test_family_that_is_cancelled_as_it_goes_on(first: str, together: bool) -> None:
    """A parent that is cancelled with the retry also cancels the children that were just restarted."""
    engine = DirectEngine(*FLOWS)
    engine.start(parent())
    fail_all(engine)
    if first == "retry":
        assert engine.two(RETRY, CANCEL, together=together) == [None, True]
    else:
        assert engine.two(RETRY, CancelWorkflow("w/0.0.0", "why"), together=together) == [None, True]
    engine.settle()
    assert engine.status("w/0.0.0") is CANCELLED
    assert engine.status() is (CANCELLED if first == "retry" else FAILED)
    assert engine.activities == []

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
from tests.engine.desk import Desk, call_of, event_of, refusal
from tests.engine.flows import EVERY, Refused, go, patient, waiter, work, worker
from tests.engine.mending import check_restart, repair, retry, told
from tests.engine.test_retry import fail_all, once
from tests.races.kit import TOGETHER

FAILED, RUNNING, CANCELLED = WorkflowStatus.FAILED, WorkflowStatus.RUNNING, WorkflowStatus.CANCELLED
CANCEL = CancelWorkflow("w", "why")
RETRY = RetryWorkflow("w")


@workflow(name="races.two")
def two() -> Durable[list[int]]:
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


FLOWS = (*EVERY, two, both, parent)


def failed() -> Desk:
    """A workflow that has failed."""
    desk = Desk(*FLOWS)
    desk.start(worker())
    fail_all(desk)
    return desk


# --- retry ------------------------------------------------------------------------------------------------------------


@TOGETHER
@pytest.mark.parametrize("end", [CANCEL, TerminateWorkflow("w", "why")], ids=["cancel", "terminate"])
def test_retry_then_cancel(end: CancelWorkflow | TerminateWorkflow, together: bool) -> None:
    """A retried workflow can be cancelled like any other, and its step is stopped."""
    desk = failed()
    assert desk.two(RETRY, end, together=together) == [None, True]
    assert (desk.status(), desk.activities, desk.record().error) == (CANCELLED, [], None)
    assert refusal(desk.batch(RETRY)[0])[0] is CannotRetry
    desk.restart(*FLOWS)
    assert desk.status() is CANCELLED


@TOGETHER
def test_cancel_then_retry(together: bool) -> None:
    """A failed workflow cannot be cancelled, and the attempt to cancel it leaves nothing behind."""
    desk = failed()
    assert desk.two(CANCEL, RETRY, together=together) == [False, None]
    check_restart(desk, *FLOWS)
    assert (desk.status(), desk.record().cancel_requested) == (RUNNING, False)
    desk.finish(desk.activities[0], 3)
    assert desk.result() == 3


@TOGETHER
def test_retry_twice(together: bool) -> None:
    """The second retry finds the workflow running: one note, one attempt."""
    desk = failed()
    first, second = desk.two(RETRY, RETRY, together=together)
    assert first is None
    assert refusal(second) == (CannotRetry, "w", "only a failed or parked workflow can be, and it is running")
    assert told(desk) == ["activity 0 error", "retried 0 ok"]
    assert len(desk.activities) == 1


@TOGETHER
@pytest.mark.parametrize("answer_first", [True, False])
def test_retry_against_the_failure_itself(answer_first: bool, together: bool) -> None:
    """Before the failure is recorded there is nothing to retry."""
    desk = Desk(*FLOWS)
    desk.start(worker())
    answer = desk.answer(desk.activities[0], error=Refused("no"))
    if answer_first:
        assert desk.two(answer, RETRY, together=together) == [None, None]
        assert (desk.status(), told(desk)) == (RUNNING, ["activity 0 error", "retried 0 ok"])
        check_restart(desk, *FLOWS)
    else:
        assert refusal(desk.two(RETRY, answer, together=together)[0])[0] is CannotRetry
        assert (desk.status(), told(desk)) == (FAILED, ["activity 0 error"])


@TOGETHER
@pytest.mark.parametrize("error", [None, Refused("late")])
def test_retry_against_a_late_answer(error: Exception | None, together: bool) -> None:
    """A step that was stopped when its workflow failed cannot answer for its second attempt after the retry."""
    desk = Desk(*FLOWS)
    desk.start(both())
    first, second = desk.activities
    desk.fail(first, Refused("no"))
    desk.two(RETRY, desk.answer(second, 222, error), together=together)
    assert told(desk) == ["activity 0.0.0 error", "retried 0.0.0 ok"]
    assert len(desk.activities) == 2
    for effect in desk.activities:
        desk.finish(effect, 1)
    assert desk.result() == [1, 1]


@TOGETHER
def test_retry_against_an_event_for_a_child(together: bool) -> None:
    """A restarted child takes events that are sent after the retry; before the retry it has ended."""
    desk = Desk(*FLOWS)
    desk.start(parent())
    fail_all(desk)
    send = event_of(go, 5, to="w/0.0.0")
    assert refusal(desk.batch(send)[0])[0] is WorkflowTerminated
    desk.two(RETRY, send, together=together)
    desk.settle()
    check_restart(desk, *FLOWS)
    desk.finish(desk.activities[0], 1)
    assert desk.result() == [5, 1]


# --- repair -----------------------------------------------------------------------------------------------------------

REPAIR = RepairWorkflow("w", "0", "10", "why")


def begun() -> tuple[Desk, RunActivity]:
    """The second step runs with the first result."""
    desk = Desk(*FLOWS)
    desk.start(two())
    desk.finish(desk.activities[0], 1)
    (effect,) = desk.activities
    return desk, effect


@TOGETHER
@pytest.mark.parametrize("error", [None, Refused("late"), ValueError("late")])
def test_repair_then_late_answer(error: Exception | None, together: bool) -> None:
    """A step that ran with the old value is stopped, and its answer is ignored."""
    desk, old = begun()
    assert desk.two(REPAIR, desk.answer(old, 111, error), together=together) == [None, None]
    assert StopActivity(old.key, 0, "1") in desk.effects
    assert told(desk) == ["activity 0 ok", "repaired 0 ok"]
    check_restart(desk, *FLOWS)
    (new,) = desk.activities
    desk.finish(new, 222)
    assert (new.args, desk.result()) == ((10,), [10, 222])


@TOGETHER
def test_answer_then_repair(together: bool) -> None:
    """A result that arrived first is recorded; if it ended the workflow, nothing can be repaired any more."""
    desk, old = begun()
    answered, refused = desk.two(desk.answer(old, 111), REPAIR, together=together)
    assert (answered, refusal(refused)) == (None, (WorkflowTerminated, "w", "succeeded"))
    assert desk.result() == [1, 111]


@TOGETHER
@pytest.mark.parametrize("repair_first", [True, False])
def test_failed_attempt_against_repair(repair_first: bool, together: bool) -> None:
    """Only an attempt that failed before the repair counts."""
    desk, old = begun()
    answer = desk.answer(old, error=ValueError("no"))
    desk.two(*((REPAIR, answer) if repair_first else (answer, REPAIR)), together=together)
    desk.advance(10)
    (new,) = desk.activities
    assert (new.args, new.attempt) == ((10,), 1 if repair_first else 2)
    check_restart(desk, *FLOWS)
    desk.finish(desk.activities[0], 5)
    assert desk.result() == [10, 5]


@TOGETHER
@pytest.mark.parametrize("repair_first", [True, False])
def test_cancel_against_repair(repair_first: bool, together: bool) -> None:
    """Cancel wins in either order."""
    desk, _ = begun()
    desk.two(*((REPAIR, CANCEL) if repair_first else (CANCEL, REPAIR)), together=together)
    assert (desk.status(), desk.activities) == (CANCELLED, [])
    assert ("repaired 0 ok" in told(desk)) is repair_first


@TOGETHER
@pytest.mark.parametrize("repair_first", [True, False])
def test_timer_against_repair(repair_first: bool, together: bool) -> None:
    """A timer that is due fires once, with or without the repair before it."""
    desk = Desk(*FLOWS)
    desk.start(patient(60))
    desk.send(go, 1, to="w")
    desk.start(patient(60), "late")
    desk.clock.advance(60)
    wake = WakeWorkflow(desk.record("late").key)
    fix = RepairWorkflow("w", "0.0.0", "5", "why")
    desk.two(*((fix, wake) if repair_first else (wake, fix)), together=together)
    desk.settle()
    for id in ("w", "late"):
        desk.send(go, 2, to=id)
    assert (desk.result(), desk.result("late")) == ([5, 2], [-1, 2])


# --- fork -------------------------------------------------------------------------------------------------------------

FORK = ForkWorkflow("w", "0", "f")


@TOGETHER
@pytest.mark.parametrize("fork_first", [True, False])
def test_fork_against_its_source_going_on(fork_first: bool, together: bool) -> None:
    """Neither affects the other: the source records its step, and the fork has the results before its position."""
    desk, effect = begun()
    answer = desk.answer(effect, 111)
    desk.two(*((FORK, answer) if fork_first else (answer, FORK)), together=together)
    assert desk.result() == [1, 111]
    desk.restart(*FLOWS)
    check_restart(desk, *FLOWS)
    (own,) = desk.activities
    assert (own.workflow_id, own.position, own.args) == ("f", "0", (1,))
    desk.finish(own, 2)
    desk.finish(desk.activities[0], 3)
    assert desk.result("f") == [2, 3]


@TOGETHER
def test_answer_that_makes_the_place(together: bool) -> None:
    """A position that is recorded earlier in the same batch can be forked from."""
    desk, effect = begun()
    assert desk.two(desk.answer(effect, 111), ForkWorkflow("w", "1", "f"), together=together) == [None, None]
    desk.finish(desk.activities[-1], 222)
    assert (desk.result(), desk.result("f")) == ([1, 111], [1, 222])


@TOGETHER
@pytest.mark.parametrize("fork_first", [True, False])
def test_fork_against_a_start_of_its_id(fork_first: bool, together: bool) -> None:
    """An id belongs to the first workflow that takes it."""
    desk, _ = begun()
    start = call_of(waiter(), "f")
    replies = desk.two(*((FORK, start) if fork_first else (start, FORK)), together=together)
    assert refusal(replies[1])[0] is WorkflowAlreadyExists
    assert desk.record("f").name == ("races.two" if fork_first else "desk.waiter")


@TOGETHER
@pytest.mark.parametrize("fork_first", [True, False])
def test_fork_against_repair_and_cancel(fork_first: bool, together: bool) -> None:
    """A fork has the results recorded when it was made, and continues when its source is cancelled."""
    desk, _ = begun()
    desk.finish(desk.activities[0], 2)
    desk.start(two(), "v")
    desk.finish(desk.activities[0], 1)
    fork, fix = ForkWorkflow("v", "0", "f"), RepairWorkflow("v", "0", "10", "why")
    desk.two(*((fork, fix) if fork_first else (fix, fork)), together=together)
    desk.two(CancelWorkflow("v"), ForkWorkflow("v", "0", "g"), together=together)
    assert (desk.status("v"), desk.status("f"), desk.status("g")) == (CANCELLED, RUNNING, RUNNING)


def test_crash_behind_each_step() -> None:
    """An unclean stop after a failure, a repair, a retry and an answer loses none of them."""
    desk, effect = begun()
    desk.fail(effect, Refused("no"))
    desk.restart(*FLOWS, clean=False)
    repair(desk, "0", 10)
    desk.restart(*FLOWS, clean=False)
    retry(desk)
    desk.restart(*FLOWS, clean=False)
    (again,) = desk.activities
    assert (again.args, again.attempt) == ((10,), 1)
    desk.finish(again, 7)
    desk.restart(*FLOWS, clean=False)
    assert desk.result() == [10, 7]


@TOGETHER
@pytest.mark.parametrize("first", ["retry", "child"])
def test_family_that_is_cancelled_as_it_goes_on(first: str, together: bool) -> None:
    """A parent that is cancelled with the retry also cancels the children that were just restarted."""
    desk = Desk(*FLOWS)
    desk.start(parent())
    fail_all(desk)
    if first == "retry":
        assert desk.two(RETRY, CANCEL, together=together) == [None, True]
    else:
        assert desk.two(RETRY, CancelWorkflow("w/0.0.0", "why"), together=together) == [None, True]
    desk.settle()
    assert desk.status("w/0.0.0") is CANCELLED
    assert desk.status() is (CANCELLED if first == "retry" else FAILED)
    assert desk.activities == []

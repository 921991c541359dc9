"""`runs.retry`: a failed workflow goes on from the step that it stumbled over, with its children; or says why not."""

from __future__ import annotations

from typing import Any

import pytest

from durable import (
    CannotRetry,
    Durable,
    EngineConfig,
    Overlap,
    ParkReason,
    Retry,
    WorkflowNotFound,
    WorkflowStatus,
    activity,
    gather,
    saga,
    settle,
    sleep,
    workflow,
)
from durable.engine.decide.queries import Pending
from durable.engine.operations import AwaitEnd, PurgeWorkflows, Queued, ReplayLetter, RetryWorkflow
from durable.runner.definitions import WorkflowDef
from tests.engine.agenda import schedule_of
from tests.engine.desk import Desk, event_of
from tests.engine.flows import EVERY, Refused, clean, go, nothing, waiter, work, worker
from tests.engine.mending import check_restart, refused, retry, told

SUSPENDED, RUNNING, FAILED = WorkflowStatus.SUSPENDED, WorkflowStatus.RUNNING, WorkflowStatus.FAILED


@activity(name="retry.once", retry=Retry.never())
def once(number: int = 0) -> int:
    """Fails for good at its first failure."""
    raise NotImplementedError


def fail_all(desk: Desk) -> None:
    """Whatever runs has failed for good."""
    for effect in desk.activities:
        desk.fail(effect, Refused("no"))


@workflow(name="retry.steps")
def steps() -> Durable[list[int]]:
    """Three activities in a row."""
    first = yield from work(1)
    second = yield from work(2)
    return [first, second, (yield from work(3))]


FLOWS = (*EVERY, steps)


def test_step_begins_anew() -> None:
    """The step that failed has all its attempts again; what was recorded before it is not done a second time."""
    desk = Desk(*FLOWS)
    desk.start(steps())
    desk.finish(desk.activities[0], 10)
    for _ in range(3):
        desk.fail(desk.activities[0], ValueError("not now"))
        desk.advance(100)
    assert (desk.status(), len(desk.history())) == (FAILED, 4)
    retry(desk)
    (effect,) = desk.activities
    assert (effect.position, effect.attempt, desk.status()) == ("1", 1, RUNNING)
    assert desk.record().error is None is desk.record().finished_at
    check_restart(desk, *FLOWS)
    for _ in range(2):
        desk.fail(desk.activities[0], ValueError("not now"))
        check_restart(desk, *FLOWS)
        desk.advance(100)
    desk.finish(desk.activities[0], 20)
    check_restart(desk, *FLOWS)
    desk.finish(desk.activities[0], 30)
    assert desk.result() == [10, 20, 30]
    assert told(desk)[4:] == ["retried 1 ok", "activity 1 retry", "activity 1 retry", "activity 1 ok", "activity 2 ok"]


@pytest.mark.parametrize("clean_stop", [True, False])
def test_again_and_again(clean_stop: bool) -> None:
    """A workflow that fails again can be retried again, as often as it takes, over restarts."""
    desk = Desk(*FLOWS)
    desk.start(worker())
    for _ in range(5):
        fail_all(desk)
        assert desk.status() is FAILED
        desk.restart(*FLOWS, clean=clean_stop)
        retry(desk)
        desk.restart(*FLOWS, clean=clean_stop)
        assert [effect.attempt for effect in desk.activities] == [1]
    desk.finish(desk.activities[0], 7)
    assert desk.result() == 7


def test_who_waits_for_the_end_hears_the_new_one() -> None:
    """While it goes on nobody hears of the old end."""
    desk = Desk(*FLOWS)
    desk.start(worker())
    fail_all(desk)
    assert desk.do(AwaitEnd("w")) == desk.record()
    retry(desk)
    assert isinstance(desk.do(AwaitEnd("w")), Pending)
    desk.finish(desk.activities[0], 1)
    assert desk.do(AwaitEnd("w")) == desk.record()
    assert desk.result() == 1


@pytest.mark.parametrize("state", ["running", "waiting", "succeeded", "cancelled", "nobody"])
def test_only_what_has_failed(state: str) -> None:
    """Whatever goes on, has succeeded or was cancelled is refused, and nothing is written."""
    desk = Desk(*FLOWS)
    if state == "nobody":
        assert isinstance(refused(desk, lambda: retry(desk)), WorkflowNotFound)
        return
    desk.start({"running": worker(), "waiting": waiter()}.get(state, nothing()) if state != "cancelled" else waiter())
    if state == "cancelled":
        desk.cancel()
    error = refused(desk, lambda: retry(desk))
    assert isinstance(error, CannotRetry)
    assert "only a failed or parked workflow" in str(error)


# --- code that is mended --------------------------------------------------------------------------------------------


def numbers(broken: bool) -> WorkflowDef[[], int]:
    """One step, and code behind it that may be broken."""

    @workflow(name="retry.numbers")
    def body() -> Durable[int]:
        number = yield from work(1)
        if broken:
            raise KeyError("a bug")
        return number + (yield from go.wait())

    return body


def test_code_that_fails_again_is_refused() -> None:
    """A failure of the code itself is over only with other code; then it goes on behind what is recorded."""
    desk = Desk(numbers(True), *FLOWS)
    desk.start(numbers(True)())
    desk.finish(desk.activities[0], 5)
    error = refused(desk, lambda: retry(desk))
    assert "ends in builtins.KeyError: 'a bug'; deploy a fix, repair the recorded result" in str(error)
    desk.restart(numbers(False), *FLOWS)
    retry(desk)
    check_restart(desk, numbers(False), *FLOWS)
    desk.send(go, 1, to="w")
    assert desk.result() == 6
    assert told(desk) == ["activity 0 ok", "retried  ok", "event 1 ok"]


def test_code_that_is_gone_or_another() -> None:
    """Without its code, or with code that asks for something else, it stays failed, and the refusal says so."""
    desk = Desk(numbers(True), *FLOWS)
    desk.start(numbers(True)())
    desk.finish(desk.activities[0], 5)
    desk.restart(*FLOWS)
    assert "retry.numbers" in str(refused(desk, lambda: retry(desk)))

    @workflow(name="retry.numbers")
    def other() -> Durable[None]:
        yield from sleep(5)

    desk.restart(other, *FLOWS)
    assert "recorded: activity desk.work" in str(refused(desk, lambda: retry(desk)))


def test_mended_code_that_has_nothing_left_to_do() -> None:
    """It may come to its end at once."""

    @workflow(name="retry.numbers")
    def shorter() -> Durable[int]:
        return 2 * (yield from work(1))

    desk = Desk(numbers(True), *FLOWS)
    desk.start(numbers(True)())
    desk.finish(desk.activities[0], 5)
    desk.restart(shorter, *FLOWS)
    retry(desk)
    assert desk.result() == 10


def test_failed_before_its_first_step() -> None:
    """Nothing is recorded, and with mended code it begins."""

    def early(broken: bool) -> WorkflowDef[[], int]:
        @workflow(name="retry.early")
        def body() -> Durable[int]:
            if broken:
                raise KeyError("a bug")
            return (yield from work(1))

        return body

    desk = Desk(early(True))
    desk.start(early(True)())
    refused(desk, lambda: retry(desk))
    desk.restart(early(False))
    retry(desk)
    check_restart(desk, early(False))
    desk.finish(desk.activities[0], 3)
    assert desk.result() == 3


# --- branches, sagas, loops, rounds ---------------------------------------------------------------------------------


def test_branches_beside_it_go_on() -> None:
    """What other branches have recorded stands, and what they waited for is waited for again."""

    @workflow(name="retry.branches")
    def branches() -> Durable[list[Any]]:
        return list((yield from gather(work(1), once(2), go.wait(), once(3))))

    desk = Desk(branches)
    desk.start(branches())
    one, two, _ = desk.activities
    desk.finish(one, 10)
    desk.fail(two, Refused("no"))
    assert (desk.status(), desk.waits(), desk.activities) == (FAILED, [], [])
    retry(desk)
    check_restart(desk, branches)
    assert [effect.position for effect in desk.activities] == ["0.1.0", "0.3.0"]
    desk.send(go, 30, to="w")
    for effect in desk.activities:
        desk.finish(effect, 20)
    assert desk.result() == [10, 20, 30, 20]


def test_failures_that_are_values_stay_those_that_came_before() -> None:
    """Only the last error is void: one that came before it, and that the code has taken, stands."""

    @workflow(name="retry.settled")
    def settled() -> Durable[list[str]]:
        both = yield from settle(once(1), once(2))
        names = [type(one).__name__ for one in both]
        if names == ["Raised", "Raised"]:
            raise LookupError("both")
        return names

    desk = Desk(settled)
    desk.start(settled())
    fail_all(desk)
    retry(desk)
    check_restart(desk, settled)
    assert [effect.position for effect in desk.activities] == ["0.1.0"]
    desk.finish(desk.activities[0], 1)
    assert desk.result() == ["Raised", "Returned"]


def _saga(step: int) -> Durable[int]:
    done = yield from work(step).undo(lambda _: clean())
    return done + (yield from once(step))


@workflow(name="retry.sagas")
def sagas(scoped: bool) -> Durable[int]:
    """A step that owes an undo and one that fails, in a saga or not."""
    return (yield from (saga(_saga(1)) if scoped else _saga(1)))


@pytest.mark.parametrize("scoped", [True, False])
@pytest.mark.parametrize("undone", ["undone", "undo failed"])
def test_what_was_undone_is_refused(scoped: bool, undone: str) -> None:
    """A workflow that has undone its steps, or tried to, cannot go on as if they were done."""
    desk = Desk(sagas)
    desk.start(sagas(scoped))
    desk.finish(desk.activities[0], 1)
    fail_all(desk)
    if undone == "undone":
        desk.finish(desk.activities[0])
    else:
        fail_all(desk)
    assert desk.status() is FAILED
    error = refused(desk, lambda: retry(desk))
    assert "were undone; start another run, or fork it from" in str(error)


def test_code_that_would_undo_at_once_is_refused() -> None:
    """Code that fails again, and that now owes an undo which it did not before, fails again all the same."""

    def version(owes: bool) -> WorkflowDef[[], int]:
        @workflow(name="retry.owing")
        def body() -> Durable[int]:
            yield from (work(1).undo(lambda _: clean()) if owes else work(1))
            raise KeyError("a bug")

        return body

    desk = Desk(version(False))
    desk.start(version(False)())
    desk.finish(desk.activities[0], 1)
    desk.restart(version(True))
    assert "KeyError" in str(refused(desk, lambda: retry(desk)))


def test_purged_while_it_is_retried() -> None:
    """What goes on is not purged for having ended long ago, also within one batch."""
    desk = Desk(*FLOWS)
    desk.start(worker())
    fail_all(desk)
    desk.clock.advance(1000)
    assert desk.batch(RetryWorkflow("w"), PurgeWorkflows(desk.clock.now())) == [None, 0]
    desk.finish(desk.activities[0], 1)
    assert desk.result() == 1


def test_mail_that_became_dead_letters() -> None:
    """What was buried at its end stays a dead letter, which can be replayed to it."""

    @workflow(name="retry.mail")
    def mail() -> Durable[int]:
        yield from once()
        return (yield from go.wait())

    desk = Desk(mail)
    desk.start(mail())
    desk.send(go, 4, to="w")
    fail_all(desk)
    retry(desk)
    check_restart(desk, mail)
    desk.finish(desk.activities[0], 1)
    assert desk.status() is SUSPENDED
    (letter,) = desk.letters()
    desk.do(ReplayLetter(letter.id, "w"))
    assert desk.result() == 4


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE, Overlap.ALLOW])
def test_run_of_a_schedule(overlap: Overlap) -> None:
    """While the last run goes on again its schedule is busy, and its second end lets the next one start."""
    desk = Desk(*FLOWS)
    desk.do(schedule_of(worker(), every=60, overlap=overlap))
    desk.advance(60)
    (first,) = desk.activities
    desk.fail(first, Refused("no"))
    retry(desk, first.workflow_id)
    check_restart(desk, *FLOWS)
    desk.advance(60)
    desk.advance(60)
    assert len(desk.activities) == (3 if overlap is Overlap.ALLOW else 1)
    desk.finish(next(one for one in desk.activities if one.workflow_id == first.workflow_id), 1)
    desk.settle()
    assert len(desk.activities) == {Overlap.SKIP: 0, Overlap.QUEUE: 1, Overlap.ALLOW: 2}[overlap]
    assert desk.result(first.workflow_id) == 1


@pytest.mark.parametrize("together", [True, False])
def test_retry_after_crashes_takes_the_mail_in_order(together: bool) -> None:
    """What came while it was parked comes before what is sent between the retry and the rebuilding of its body."""
    # Without its checks: between the retry and the rebuilding the mail lies there.
    desk = Desk(*EVERY, config=EngineConfig(max_crashes=1), checks=False)
    desk.start(waiter())
    desk.state.mark[0] = desk.record().key
    desk.restart(*EVERY, clean=False)
    assert desk.record().park_reason is ParkReason.CRASHED
    desk.send(go, 1, to="w")
    assert desk.two(RetryWorkflow("w"), event_of(go, 2, to="w"), together=together) == [None, Queued()]
    desk.settle()
    assert desk.result() == 1

"""`runs.retry`: a failed workflow continues from the step that failed, with its children, or is refused."""

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
from tests.engine.direct import DirectEngine, event_of
from tests.engine.flows import EVERY, Refused, clean, go, nothing, waiter, work, worker
from tests.engine.mending import check_restart, outline, refused, retry

SUSPENDED, RUNNING, FAILED = WorkflowStatus.SUSPENDED, WorkflowStatus.RUNNING, WorkflowStatus.FAILED


@activity(name="retry.once", retry=Retry.never())
def once(number: int = 0) -> int:
    """Fails for good at its first failure."""
    raise NotImplementedError


def fail_all(engine: DirectEngine) -> None:
    """All running activities fail for good."""
    for effect in engine.activities:
        engine.fail(effect, Refused("no"))


@workflow(name="retry.steps")
def steps() -> Durable[list[int]]:
    """Does three activities in a row."""
    first = yield from work(1)
    second = yield from work(2)
    return [first, second, (yield from work(3))]


FLOWS = (*EVERY, steps)


def test_failed_step_starts_over() -> None:
    """A retried step gets all its attempts again, and the steps before it do not run again."""
    engine = DirectEngine(*FLOWS)
    engine.start(steps())
    engine.finish(engine.activities[0], 10)
    for _ in range(3):
        engine.fail(engine.activities[0], ValueError("not now"))
        engine.advance(100)
    assert (engine.status(), len(engine.history())) == (FAILED, 4)
    retry(engine)
    (effect,) = engine.activities
    assert (effect.position, effect.attempt, engine.status()) == ("1", 1, RUNNING)
    assert engine.record().error is None is engine.record().finished_at
    check_restart(engine, *FLOWS)
    for _ in range(2):
        engine.fail(engine.activities[0], ValueError("not now"))
        check_restart(engine, *FLOWS)
        engine.advance(100)
    engine.finish(engine.activities[0], 20)
    check_restart(engine, *FLOWS)
    engine.finish(engine.activities[0], 30)
    assert engine.result() == [10, 20, 30]
    assert outline(engine)[4:] == [
        "retried 1 ok",
        "activity 1 retry",
        "activity 1 retry",
        "activity 1 ok",
        "activity 2 ok",
    ]


@pytest.mark.parametrize("clean_stop", [True, False])
def test_retry_can_be_repeated(clean_stop: bool) -> None:
    """A workflow that fails again can be retried again, as often as needed, across restarts."""
    engine = DirectEngine(*FLOWS)
    engine.start(worker())
    for _ in range(5):
        fail_all(engine)
        assert engine.status() is FAILED
        engine.restart(*FLOWS, clean=clean_stop)
        retry(engine)
        engine.restart(*FLOWS, clean=clean_stop)
        assert [effect.attempt for effect in engine.activities] == [1]
    engine.finish(engine.activities[0], 7)
    assert engine.result() == 7


def test_await_end_after_a_retry_returns_the_new_end() -> None:
    """After a retry, a caller that awaits the end gets the new end, not the old one."""
    engine = DirectEngine(*FLOWS)
    engine.start(worker())
    fail_all(engine)
    assert engine.do(AwaitEnd("w")) == engine.record()
    retry(engine)
    assert isinstance(engine.do(AwaitEnd("w")), Pending)
    engine.finish(engine.activities[0], 1)
    assert engine.do(AwaitEnd("w")) == engine.record()
    assert engine.result() == 1


@pytest.mark.parametrize("state", ["running", "waiting", "succeeded", "cancelled", "nobody"])
def test_only_failed_workflows_can_be_retried(state: str) -> None:
    """A workflow that is running, has succeeded or was cancelled is refused, and nothing is written."""
    engine = DirectEngine(*FLOWS)
    if state == "nobody":
        assert isinstance(refused(engine, lambda: retry(engine)), WorkflowNotFound)
        return
    engine.start({"running": worker(), "waiting": waiter()}.get(state, nothing()) if state != "cancelled" else waiter())
    if state == "cancelled":
        engine.cancel()
    error = refused(engine, lambda: retry(engine))
    assert isinstance(error, CannotRetry)
    assert "only a failed or parked workflow" in str(error)


# --- fixed code ----------------------------------------------------------------------------------------------------


def numbers(broken: bool) -> WorkflowDef[[], int]:
    """Does one step, followed by code that may be broken."""

    @workflow(name="retry.numbers")
    def body() -> Durable[int]:
        number = yield from work(1)
        if broken:
            raise KeyError("a bug")
        return number + (yield from go.wait())

    return body


def test_code_that_fails_again_is_refused() -> None:
    """If the code itself fails, a retry needs other code. Then the workflow continues after the recorded entries."""
    engine = DirectEngine(numbers(True), *FLOWS)
    engine.start(numbers(True)())
    engine.finish(engine.activities[0], 5)
    error = refused(engine, lambda: retry(engine))
    assert "ends in builtins.KeyError: 'a bug'; deploy a fix, repair the recorded result" in str(error)
    engine.restart(numbers(False), *FLOWS)
    retry(engine)
    check_restart(engine, numbers(False), *FLOWS)
    engine.send(go, 1, to="w")
    assert engine.result() == 6
    assert outline(engine) == ["activity 0 ok", "retried  ok", "event 1 ok"]


def test_code_that_is_gone_or_another() -> None:
    """If the code is missing or diverges, the workflow stays failed, and the refusal says why."""
    engine = DirectEngine(numbers(True), *FLOWS)
    engine.start(numbers(True)())
    engine.finish(engine.activities[0], 5)
    engine.restart(*FLOWS)
    assert "retry.numbers" in str(refused(engine, lambda: retry(engine)))

    @workflow(name="retry.numbers")
    def diverging() -> Durable[None]:
        yield from sleep(5)

    engine.restart(diverging, *FLOWS)
    assert "recorded: activity engine.work" in str(refused(engine, lambda: retry(engine)))


def test_fixed_code_that_ends_at_once() -> None:
    """A retried workflow may end at once under fixed code."""

    @workflow(name="retry.numbers")
    def shorter() -> Durable[int]:
        return 2 * (yield from work(1))

    engine = DirectEngine(numbers(True), *FLOWS)
    engine.start(numbers(True)())
    engine.finish(engine.activities[0], 5)
    engine.restart(shorter, *FLOWS)
    retry(engine)
    assert engine.result() == 10


def test_failed_before_its_first_step() -> None:
    """A workflow that failed before its first step begins when its fixed code is retried."""

    def early(broken: bool) -> WorkflowDef[[], int]:
        @workflow(name="retry.early")
        def body() -> Durable[int]:
            if broken:
                raise KeyError("a bug")
            return (yield from work(1))

        return body

    engine = DirectEngine(early(True))
    engine.start(early(True)())
    refused(engine, lambda: retry(engine))
    engine.restart(early(False))
    retry(engine)
    check_restart(engine, early(False))
    engine.finish(engine.activities[0], 3)
    assert engine.result() == 3


# --- branches, sagas, loops, rounds ---------------------------------------------------------------------------------


def test_other_branches_continue() -> None:
    """Other branches keep their entries, and wait again for what they waited for."""

    @workflow(name="retry.branches")
    def branches() -> Durable[list[Any]]:
        return list((yield from gather(work(1), once(2), go.wait(), once(3))))

    engine = DirectEngine(branches)
    engine.start(branches())
    first, second, _ = engine.activities
    engine.finish(first, 10)
    engine.fail(second, Refused("no"))
    assert (engine.status(), engine.waits(), engine.activities) == (FAILED, [], [])
    retry(engine)
    check_restart(engine, branches)
    assert [effect.position for effect in engine.activities] == ["0.1.0", "0.3.0"]
    engine.send(go, 30, to="w")
    for effect in engine.activities:
        engine.finish(effect, 20)
    assert engine.result() == [10, 20, 30, 20]


def test_only_the_last_failure_is_void() -> None:
    """A retry voids only the last error. An earlier one that the body has handled stays."""

    @workflow(name="retry.settled")
    def settled() -> Durable[list[str]]:
        both = yield from settle(once(1), once(2))
        names = [type(outcome).__name__ for outcome in both]
        if names == ["Raised", "Raised"]:
            raise LookupError("both")
        return names

    engine = DirectEngine(settled)
    engine.start(settled())
    fail_all(engine)
    retry(engine)
    check_restart(engine, settled)
    assert [effect.position for effect in engine.activities] == ["0.1.0"]
    engine.finish(engine.activities[0], 1)
    assert engine.result() == ["Raised", "Returned"]


def _saga(step: int) -> Durable[int]:
    done = yield from work(step).undo(lambda _: clean())
    return done + (yield from once(step))


@workflow(name="retry.sagas")
def sagas(scoped: bool) -> Durable[int]:
    """Does a step that owes an undo and one that fails, inside a saga or not."""
    return (yield from (saga(_saga(1)) if scoped else _saga(1)))


@pytest.mark.parametrize("scoped", [True, False])
@pytest.mark.parametrize("undone", ["undone", "undo failed"])
def test_retry_after_undos_is_refused(scoped: bool, undone: str) -> None:
    """A workflow that has undone its steps, or tried to, cannot continue as if they were done."""
    engine = DirectEngine(sagas)
    engine.start(sagas(scoped))
    engine.finish(engine.activities[0], 1)
    fail_all(engine)
    if undone == "undone":
        engine.finish(engine.activities[0])
    else:
        fail_all(engine)
    assert engine.status() is FAILED
    error = refused(engine, lambda: retry(engine))
    assert "were undone; start another run, or fork it from" in str(error)


def test_code_that_would_undo_at_once_is_refused() -> None:
    """Code that fails again is refused, even if it now owes an undo that it did not owe before."""

    def version(owes: bool) -> WorkflowDef[[], int]:
        @workflow(name="retry.owing")
        def body() -> Durable[int]:
            yield from (work(1).undo(lambda _: clean()) if owes else work(1))
            raise KeyError("a bug")

        return body

    engine = DirectEngine(version(False))
    engine.start(version(False)())
    engine.finish(engine.activities[0], 1)
    engine.restart(version(True))
    assert "KeyError" in str(refused(engine, lambda: retry(engine)))


def test_purged_while_it_is_retried() -> None:
    """A retried workflow is not purged for its old end, even in the same batch."""
    engine = DirectEngine(*FLOWS)
    engine.start(worker())
    fail_all(engine)
    engine.clock.advance(1000)
    assert engine.batch(RetryWorkflow("w"), PurgeWorkflows(engine.clock.now())) == [None, 0]
    engine.finish(engine.activities[0], 1)
    assert engine.result() == 1


def test_mail_that_became_dead_letters() -> None:
    """Events that became dead letters when the workflow failed stay dead letters, and can be replayed to it."""

    @workflow(name="retry.mail")
    def mail() -> Durable[int]:
        yield from once()
        return (yield from go.wait())

    engine = DirectEngine(mail)
    engine.start(mail())
    engine.send(go, 4, to="w")
    fail_all(engine)
    retry(engine)
    check_restart(engine, mail)
    engine.finish(engine.activities[0], 1)
    assert engine.status() is SUSPENDED
    (letter,) = engine.letters()
    engine.do(ReplayLetter(letter.id, "w"))
    assert engine.result() == 4


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE, Overlap.ALLOW])
def test_run_of_a_schedule(overlap: Overlap) -> None:
    """While a retried run is running its schedule is busy, and its new end lets the next run start."""
    engine = DirectEngine(*FLOWS)
    engine.do(schedule_of(worker(), every=60, overlap=overlap))
    engine.advance(60)
    (first,) = engine.activities
    engine.fail(first, Refused("no"))
    retry(engine, first.workflow_id)
    check_restart(engine, *FLOWS)
    engine.advance(60)
    engine.advance(60)
    assert len(engine.activities) == (3 if overlap is Overlap.ALLOW else 1)
    engine.finish(next(effect for effect in engine.activities if effect.workflow_id == first.workflow_id), 1)
    engine.settle()
    assert len(engine.activities) == {Overlap.SKIP: 0, Overlap.QUEUE: 1, Overlap.ALLOW: 2}[overlap]
    assert engine.result(first.workflow_id) == 1


@pytest.mark.parametrize("together", [True, False])
def test_retry_after_crashes_takes_the_mail_in_order(together: bool) -> None:
    """Events that arrived while a workflow was parked come before those sent after the retry."""
    # Without checks, because the mail is pending between the retry and the rebuild.
    engine = DirectEngine(*EVERY, config=EngineConfig(max_crashes=1), checks=False)
    engine.start(waiter())
    engine.state.mark[0] = engine.record().key
    engine.restart(*EVERY, clean=False)
    assert engine.record().park_reason is ParkReason.CRASHED
    engine.send(go, 1, to="w")
    assert engine.two(RetryWorkflow("w"), event_of(go, 2, to="w"), together=together) == [None, Queued()]
    engine.settle()
    assert engine.result() == 1

"""Running workflows under new code: `patched`, `removed`, versions, and retries of parked workflows."""

from __future__ import annotations

from typing import Any

import pytest

from durable import (
    CannotRetry,
    Durable,
    ParkReason,
    WorkflowStatus,
    gather,
    patched,
    pause,
    removed,
    sleep,
    workflow,
)
from durable.backends.memory import MemoryBackend, MemoryStore
from durable.engine.operations import ResumePause, ResumeWorkflow
from durable.errors import InvariantViolated
from durable.runner.definitions import WorkflowDef
from durable.runner.session import WorkflowSessionRunner
from tests.engine.asking import ids
from tests.engine.direct import DirectEngine
from tests.engine.flows import EVERY, clean, go, other, waiter, work
from tests.engine.mending import check_restart, fork, outline, refused, repair, retry, stored
from tests.engine.test_fork import finish_all
from tests.engine.test_retry import fail_all

SUSPENDED, RUNNING, PARKED = WorkflowStatus.SUSPENDED, WorkflowStatus.RUNNING, WorkflowStatus.PARKED


# --- patched ----------------------------------------------------------------------------------------------------------


def changing(code: str) -> WorkflowDef[..., Any]:
    """A workflow whose second step is replaced; later the old step disappears from the code."""

    @workflow(name="new.changing")
    def body(rounds: int = 0) -> Durable[list[str]]:
        done = ["first"]
        yield from work(1)
        if code == "cleaned up" or (code != "old" and patched("better")):
            yield from clean()
            done.append("better")
        else:
            yield from work(2)
            done.append("second")
        if code == "new" and patched("behind"):
            done.append("behind")
        if rounds:
            raise body.continue_as(rounds - 1)
        return done

    return body


def test_under_way_and_new() -> None:
    """A run that has begun the step keeps the old code. Other runs take the new code. Restarts change neither."""
    engine = DirectEngine(changing("old"))
    for id in ("at first", "at second"):
        engine.start(changing("old")(), id)
    engine.finish(next(effect for effect in engine.activities if effect.workflow_id == "at second"), 1)
    engine.restart(changing("new"))
    engine.start(changing("new")(), "new")
    check_restart(engine, changing("new"))
    for _ in range(3):
        for effect in list(engine.activities):
            engine.finish(effect, None if effect.definition is clean else 1)
        check_restart(engine, changing("new"))
    assert engine.result("at first") == engine.result("new") == ["first", "better", "behind"]
    assert engine.result("at second") == ["first", "second", "behind"]
    answers = [(entry.name, entry.outcome) for entry in engine.history("at second") if entry.kind.value == "patch"]
    assert answers == [("better", "false"), ("behind", "true")]


@pytest.mark.parametrize("clean_stop", [True, False])
def test_answer_is_the_same_after_every_restart(clean_stop: bool) -> None:
    """`patched` gives its first answer after every restart, even if its step has begun and has no result."""
    engine = DirectEngine(changing("new"))
    engine.start(changing("new")())
    engine.finish(engine.activities[0], 1)
    assert outline(engine) == ["activity 0 ok", "patch  ok"]
    for _ in range(2):
        engine.restart(changing("new"), clean=clean_stop)
        assert [effect.definition.name for effect in engine.activities] == ["engine.clean"]
    assert outline(engine) == ["activity 0 ok", "patch  ok"]
    engine.restart(changing("cleaned up"), clean=True)
    engine.finish(engine.activities[0])
    assert engine.result() == ["first", "better"]


def test_answer_is_recorded_once() -> None:
    """There is one entry per change, however often it is asked."""

    @workflow(name="new.often")
    def often() -> Durable[list[bool]]:
        answers = []
        for _ in range(3):
            answers.append(patched("often"))
            yield from work(1)
        return answers

    engine = DirectEngine(often)
    engine.start(often())
    finish_all(engine)
    assert engine.result() == [True] * 3
    assert outline(engine) == ["patch  ok", "activity 0 ok", "activity 1 ok", "activity 2 ok"]


def test_answer_is_in_the_commit_of_its_step() -> None:
    """The answer is stored in the commit of the step that follows from it."""
    engine = DirectEngine(changing("new"))
    engine.start(changing("new")())
    answer = engine.answer(engine.activities[0], 1)
    engine.batch(answer)
    assert [entry.kind.value for entry in engine.history()] == ["activity", "patch"]
    assert engine.history()[1].at_us == engine.clock.now()


def test_delayed_start_and_next_round_take_the_new_code() -> None:
    """A delayed start and the next round of a workflow take the new code."""
    engine = DirectEngine(changing("old"))
    engine.start(changing("old")(), "later", delay=60)
    engine.start(changing("old")(1), "rounds")
    engine.finish(engine.activities[0], 1)
    engine.restart(changing("new"))
    assert [effect.definition.name for effect in engine.activities] == ["engine.work"]
    engine.finish(engine.activities[0], 1)
    engine.advance(60)
    while engine.activities:
        effect = engine.activities[0]
        engine.finish(effect, None if effect.definition is clean else 1)
        engine.settle()
    assert engine.result("later") == engine.result("rounds") == ["first", "better", "behind"]


def test_asked_first_of_all() -> None:
    """A run that waits at its first step has begun. A delayed start that is not due has not."""

    def version(asks: bool) -> WorkflowDef[[], str]:
        @workflow(name="new.first")
        def body() -> Durable[str]:
            is_new = asks and patched("x")
            yield from go.wait()
            return "new" if is_new else "old"

        return body

    engine = DirectEngine(version(False))
    engine.start(version(False)(), "begun")
    engine.start(version(False)(), "later", delay=60)
    engine.restart(version(True))
    engine.advance(60)
    for id in ("begun", "later"):
        engine.send(go, 1, to=id)
    assert (engine.result("begun"), engine.result("later")) == ("old", "new")


@pytest.mark.parametrize("has_begun", [True, False])
def test_parked_run_counts_as_begun(has_begun: bool) -> None:
    """A delayed start that was parked keeps the old code, because its first activity may have run before."""

    def version(asks: bool) -> WorkflowDef[[], int]:
        @workflow(name="new.delayed")
        def body() -> Durable[int]:
            return (yield from work(2 if asks and patched("x") else 1))

        return body

    engine = DirectEngine(version(False))
    engine.start(version(False)(), delay=60)
    if has_begun:
        engine.advance(60)
        assert engine.activities[0].args == (1,)
    engine.restart()
    engine.advance(60)
    assert engine.status() is PARKED
    engine.restart(version(True))
    assert engine.activities[0].args == (1,)


def test_refused_repairs_leave_no_answer() -> None:
    """Refused repairs and retries run the body, but leave no answer behind."""
    engine = DirectEngine(changing("old"))
    engine.start(changing("old")())
    engine.finish(engine.activities[0], 1)
    engine.restart(changing("new"), recover=False)
    refused(engine, lambda: repair(engine, "0", "no number"))
    refused(engine, lambda: retry(engine))
    engine.recover()
    assert outline(engine) == ["activity 0 ok", "patch  ok"]
    fork(engine, "0")
    assert outline(engine, "f") == ["forked 0 ok"]


# --- removed ----------------------------------------------------------------------------------------------------------


NAMES = {"activity": "engine.work", "event": "go", "timer": "timer", "child": "engine.waiter"}


def shrinking(kind: str, is_old: bool) -> WorkflowDef[[], str]:
    """A step of this kind that the new code removes, and a timer after it."""

    @workflow(name="new.shrinking")
    def body() -> Durable[str]:
        yield from sleep(1)
        if not is_old:
            yield from removed(NAMES.get(kind, kind))
        elif kind == "activity":
            yield from work(1)
        elif kind == "event":
            yield from go.wait()
        elif kind == "timer":
            yield from sleep(10)
        elif kind == "child":
            yield from waiter()
        elif kind == "pause":
            yield from pause(returns=int)
        else:
            yield from gather(work(1), go.wait())
        return (yield from sleep(100)).isoformat()

    return body


KINDS = pytest.mark.parametrize("kind", ["activity", "event", "timer", "child", "pause", "group"])


def at_the_step(kind: str) -> DirectEngine:
    """An engine whose workflow waits at the removed step."""
    engine = DirectEngine(*EVERY, shrinking(kind, is_old=True))
    engine.start(shrinking(kind, is_old=True)())
    engine.advance(1)
    return engine


@KINDS
def test_removed_step_that_was_not_over_is_withdrawn(kind: str) -> None:
    """A removed step is no longer waited for, its activity is stopped, and its child ends with the parent."""
    engine = at_the_step(kind)
    code = (*EVERY, shrinking(kind, is_old=False))
    engine.restart(*code)
    engine.do(ResumeWorkflow(engine.record().key))
    check_restart(engine, *code)
    assert (engine.waits(), ids(engine), engine.status()) == ([], [], SUSPENDED)
    assert [effect for effect in engine.activities if effect.workflow_id == "w"] == []
    assert outline(engine) == ["timer 0 ok"]
    engine.advance(100)
    assert engine.status() is WorkflowStatus.SUCCEEDED
    if kind == "child":
        assert engine.status("w/1") is WorkflowStatus.CANCELLED


def answer_step(engine: DirectEngine, kind: str) -> None:
    """The removed step ends 20 seconds after it began."""
    engine.clock.advance(20)
    if kind in ("activity", "group"):
        engine.fail(engine.activities[0], ValueError("not yet"))
        engine.advance(10)
        engine.finish(engine.activities[0], 1)
    if kind in ("event", "group", "child"):
        engine.send(go, 1, to="w/1" if kind == "child" else "w")
    if kind == "pause":
        engine.do(ResumePause("w", "1", "5"))
    engine.settle()


@KINDS
def test_removed_step_that_was_over_is_skipped(kind: str) -> None:
    """The entries of a removed step stay but are skipped, and the timer after it fires when it would have."""
    engine = at_the_step(kind)
    answer_step(engine, kind)
    due = engine.record().wake_at
    assert due is not None
    before = stored(engine)
    code = (*EVERY, shrinking(kind, is_old=False))
    engine.advance(5)
    engine.restart(*code)
    engine.do(ResumeWorkflow(engine.record().key))
    assert stored(engine) == before
    engine.advance(100)
    assert engine.status() is WorkflowStatus.SUCCEEDED
    assert engine.history()[-1].at_us >= due
    assert engine.record().finished_at == engine.clock.now()


def test_wrong_name_parks_with_the_diff() -> None:
    """A wrong name in `removed` parks the workflow and appends nothing. With the right name it continues."""

    @workflow(name="new.shrinking")
    def wrong() -> Durable[None]:
        yield from sleep(1)
        yield from removed("engine.werk")

    engine = at_the_step("activity")
    engine.finish(engine.activities[0], 1)
    engine.restart(wrong)
    engine.do(ResumeWorkflow(engine.record().key))
    assert (engine.status(), engine.record().park_reason) == (PARKED, ParkReason.DIVERGED)
    assert "recorded: activity engine.work" in (engine.record().park_detail or "")
    assert "asks: removed engine.werk" in (engine.record().park_detail or "")
    error = refused(engine, lambda: retry(engine))
    assert isinstance(error, CannotRetry)
    assert "it is still parked" in str(error)
    engine.restart(shrinking("activity", is_old=False))
    engine.advance(100)
    assert engine.status() is WorkflowStatus.SUCCEEDED


def test_step_that_failed_and_was_retried() -> None:
    """A removed step that was retried is skipped like any other."""
    engine = at_the_step("activity")
    for _ in range(3):
        engine.fail(engine.activities[0], ValueError("no"))
        engine.advance(100)
    retry(engine)
    code = (*EVERY, shrinking("activity", is_old=False))
    engine.restart(*code)
    assert (engine.status(), engine.activities) == (WorkflowStatus.SUCCEEDED, [])


# --- parked -----------------------------------------------------------------------------------------------------------


def test_parked_workflow_goes_on_when_it_is_retried() -> None:
    """A retry continues a parked workflow once its code is registered, without a restart."""
    engine = at_the_step("activity")
    engine.restart(*EVERY)
    assert engine.record().park_reason is ParkReason.UNKNOWN_CODE
    refused(engine, lambda: retry(engine))
    engine.state.registry.add(shrinking("activity", is_old=True))
    retry(engine)
    check_restart(engine, *EVERY, shrinking("activity", is_old=True))
    assert (engine.status(), len(engine.activities), outline(engine)) == (RUNNING, 1, ["timer 0 ok"])


def test_parked_workflow_that_ends_at_once() -> None:
    """A retried workflow ends at once if the new code has nothing left to do."""

    @workflow(name="new.shrinking")
    def short() -> Durable[int]:
        yield from sleep(1)
        return 7

    engine = at_the_step("event")
    engine.restart()
    engine.do(ResumeWorkflow(engine.record().key))
    assert engine.status() is PARKED
    engine.state.registry.add(short)
    retry(engine)
    assert engine.result() == 7


def test_versions_side_by_side() -> None:
    """A run keeps the version that it began with, and so do its forks and retries."""

    def version(number: int) -> WorkflowDef[[], int]:
        @workflow(name="new.versions", version=number)
        def body() -> Durable[int]:
            if number == 2:
                yield from other.wait()
            return number * (yield from work(number))

        return body

    engine = DirectEngine(version(1))
    engine.start(version(1)(), "one")
    engine.restart(version(1), version(2))
    engine.start(version(2)(), "two")
    engine.send(other, 1, to="two")
    check_restart(engine, version(1), version(2))
    fail_all(engine)
    retry(engine, "one")
    retry(engine, "two")
    finish_all(engine, 10)
    fork(engine, "0", id="one", new_id="again")
    finish_all(engine, 10)
    assert [engine.result(id) for id in ("one", "two", "again")] == [10, 20, 10]
    assert [engine.record(id).version for id in ("one", "two", "again")] == [1, 2, 1]


def test_broken_invariant_is_not_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken invariant while a body is tried stops the engine; it is not a reason to refuse."""
    engine = DirectEngine(*EVERY, make=lambda: MemoryBackend(MemoryStore()))
    engine.start(waiter())
    engine.send(go, 1, to="w")

    def broken(_: WorkflowSessionRunner) -> Any:
        raise InvariantViolated("a bug")

    monkeypatch.setattr(WorkflowSessionRunner, "start", broken)
    with pytest.raises(InvariantViolated):
        fork(engine, "0")

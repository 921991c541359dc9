"""Pauses of workflows whose code has changed, or that are parked."""

from __future__ import annotations

from typing import Any

import pytest

from durable import (
    CodecError,
    Durable,
    EngineConfig,
    PauseAlreadyAnswered,
    PauseNotFound,
    PayloadTooLarge,
    WorkflowNotFound,
    WorkflowParked,
    WorkflowStatus,
    WorkflowTerminated,
    pause,
    sleep,
    workflow,
)
from durable.engine.operations import CancelPause, ResumePause, ResumeWorkflow, TerminateWorkflow
from durable.runner.definitions import WorkflowDef
from tests.engine.asking import ids, pauses, reply, resume
from tests.engine.direct import DirectEngine, refusal
from tests.engine.flows import EVERY, go, work


def _changed(code: str) -> WorkflowDef[[], Any]:
    """A workflow that pauses after an activity. Prompt, type and place depend on the version of its code."""

    @workflow(name="pauses.changed")
    def changed() -> Durable[Any]:
        if code == "diverged":
            yield from sleep(60)
        yield from work(1)
        if code == "ended":
            return "early"
        if code == "other wait":
            return (yield from go.wait())
        prompt = "really sure?" if code == "other words" else "sure?"
        return (yield from pause(returns=str if code == "other type" else bool, prompt=prompt))

    return changed


def _twice(code: str) -> WorkflowDef[[], Any]:
    """A workflow that pauses twice; in one version of its code it sleeps first."""

    @workflow(name="pauses.twice")
    def twice() -> Durable[Any]:
        if code == "diverged":
            yield from sleep(60)
        yield from pause(returns=bool)
        yield from pause(returns=bool)

    return twice


def _asked(then: str) -> DirectEngine:
    """A workflow that has paused, and now has other code."""
    engine = DirectEngine(_changed("first"), *EVERY)
    engine.start(_changed("first")())
    engine.finish(engine.activities[0], 1)
    engine.clock.advance(5)
    engine.restart(_changed(then), *EVERY)
    return engine


@pytest.mark.parametrize(
    ("code", "prompt", "expects"), [("other words", "really sure?", "bool"), ("other type", "sure?", "str")]
)
def test_a_pause_may_ask_in_other_words(code: str, prompt: str, expects: str) -> None:
    """New code may change the prompt and the type. The pause keeps its number and opening time."""
    engine = _asked(code)
    before = pauses(engine)[0]
    assert (before.prompt, before.expects) == ("sure?", "bool")
    engine.do(ResumeWorkflow(engine.record().key))
    (after,) = pauses(engine)
    assert (after.prompt, after.expects, after.number, after.since) == (prompt, expects, before.number, before.since)
    answer = "yes" if expects == "str" else True
    assert resume(engine, "1", answer) is None
    assert engine.result() == answer


def test_new_code_without_the_pause() -> None:
    """If new code does not pause there, an answer is refused, and the pause is withdrawn at the next load."""
    engine = _asked("other wait")
    assert resume(engine, "1", True) == (PauseNotFound, "w", "1")
    assert ids(engine) == ["1"]
    assert refusal(reply(engine, CancelPause("w", "1"))) == (PauseNotFound, "w", "1")
    assert (ids(engine), [wait.name for wait in engine.waits()]) == ([], ["go"])
    engine = _asked("ended")
    assert resume(engine, "1", True) == (PauseNotFound, "w", "1")
    assert refusal(reply(engine, CancelPause("w", "1"))) == (WorkflowTerminated, "w", "succeeded")
    assert (ids(engine), engine.result()) == ([], "early")


def test_an_answer_to_a_body_that_no_longer_pauses_is_refused() -> None:
    """If a nondeterministic body pauses when it is checked, but not when it is fed, the answer is refused."""
    runs: list[str] = []

    @workflow(name="pauses.fickle")
    def fickle() -> Durable[bool]:
        runs.append("run")
        return len(runs) == 3 or (yield from pause(returns=bool, prompt="sure?"))

    engine = DirectEngine(fickle)
    engine.start(fickle())
    engine.restart(fickle)
    assert resume(engine, "0", True) == (WorkflowTerminated, "w", "succeeded")
    assert (len(runs), ids(engine)) == (3, [])


def test_a_parked_workflow_keeps_its_pauses() -> None:
    """A parked workflow keeps its pauses in the list. Answers are refused with the reason until the code fits again."""
    engine = _asked("diverged")
    refused = reply(engine, ResumePause("w", "1", "true"))
    assert isinstance(refused, WorkflowParked)
    assert "recorded: activity engine.work" in refused.detail
    assert isinstance(reply(engine, CancelPause("w", "1")), WorkflowParked)
    assert [(listed.pause_id, listed.status) for listed in pauses(engine)] == [("1", WorkflowStatus.PARKED)]
    assert isinstance(reply(engine, ResumePause("w", "1", "true")), WorkflowParked)
    assert resume(engine, "7", 1) == (PauseNotFound, "w", "7")
    engine.restart(_changed("first"), *EVERY)
    assert resume(engine, "1", True) is None
    assert engine.result() is True


def test_the_end_of_a_parked_workflow_withdraws_its_pauses() -> None:
    """Terminating a parked workflow withdraws its pauses."""
    engine = _asked("diverged")
    assert engine.cancel() is True
    assert engine.status() is WorkflowStatus.PARKED
    assert len(ids(engine)) == 1
    assert engine.do(TerminateWorkflow("w")) is True
    assert ids(engine) == []


@pytest.mark.parametrize("bad", ['"yes"', "no json", f'"{"x" * 5000}"'])
def test_refusals_come_in_the_order_of_the_docs(bad: str) -> None:
    """A refusal for being parked or answered comes before one for a bad answer or an ended workflow."""
    engine = DirectEngine(_twice("first"), *EVERY, config=EngineConfig(max_payload_bytes=4096))
    engine.start(_twice("first")())
    assert isinstance(reply(engine, ResumePause("w", "0", bad)), (CodecError, PayloadTooLarge))
    resume(engine, "0", True)
    answered = (PauseAlreadyAnswered, "w", "0")
    assert refusal(reply(engine, ResumePause("w", "0", bad))) == answered
    engine.restart(_twice("diverged"), *EVERY)
    engine.do(ResumeWorkflow(engine.record().key))
    assert engine.status() is WorkflowStatus.PARKED
    assert isinstance(reply(engine, ResumePause("w", "1", bad)), WorkflowParked)
    assert refusal(reply(engine, ResumePause("w", "0", bad))) == answered
    assert refusal(reply(engine, ResumePause("w", "7", bad))) == (PauseNotFound, "w", "7")
    engine.do(TerminateWorkflow("w"))
    assert refusal(reply(engine, ResumePause("w", "0", bad))) == answered
    assert refusal(reply(engine, ResumePause("w", "7", bad))) == (WorkflowTerminated, "w", "cancelled")
    assert refusal(reply(engine, ResumePause("v", "0", bad))) == (WorkflowNotFound, "v")

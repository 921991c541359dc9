"""Published progress: which commit stores it, and that it never goes back."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from durable import (
    CodecError,
    Durable,
    EngineConfig,
    PayloadTooLarge,
    WorkflowNotFound,
    WorkflowStatus,
    gather,
    publish,
    race,
    sleep,
    workflow,
)
from durable.engine.operations import DescribeWorkflow, PurgeWorkflows, ReadProgress, ResumeWorkflow, TerminateWorkflow
from tests.engine.direct import DirectEngine
from tests.engine.flows import EVERY, go, other, waiter, work


@attrs.frozen
class Stage:
    """Progress as a class of the user."""

    name: str
    done: int


@workflow(name="publishing.steps")
def steps(count: int = 3) -> Durable[str]:
    """Publishes at the beginning, after each event, and at the end."""
    publish(0)
    for number in range(1, count + 1):
        yield from go.wait()
        publish(-number)
        publish(number)
    publish("done")
    return "done"


FLOWS = (*EVERY, steps)


def _progress(engine: DirectEngine, id: str = "w") -> Any:
    progress = engine.do(ReadProgress(id))
    return None if progress is None else engine.codec.coder(Any, "progress").unpack(progress.value)


@pytest.mark.parametrize("restart", [None, True, False])
@pytest.mark.parametrize("room", [1, 1000])
def test_last_value_counts(room: int, restart: bool | None) -> None:
    """The last value published in a step is stored with that step, and can be read without loading the workflow."""
    engine = DirectEngine(*FLOWS, config=EngineConfig(max_loaded_workflows=room))
    engine.start(steps())
    seen = [_progress(engine)]
    for number in (1, 2, 3):
        if restart is not None:
            engine.restart(*FLOWS, clean=restart)
            loaded = len(engine.state.loaded)
            assert _progress(engine) == number - 1
            assert len(engine.state.loaded) == loaded
        engine.send(go, number, to="w")
        seen.append(_progress(engine))
    assert seen == [0, 1, 2, "done"]
    assert engine.status() is WorkflowStatus.SUCCEEDED


def test_publishing_needs_no_commit_and_no_entry() -> None:
    """Publishing shares the commit of its step and leaves no entry, and a rebuilt workflow writes nothing."""
    engine = DirectEngine(*FLOWS)
    engine.start(steps())
    assert (engine.commits, engine.history()) == (1, [])
    engine.send(go, 1, to="w")
    assert (engine.commits, len(engine.history())) == (2, 1)
    engine.restart(*FLOWS)
    engine.do(DescribeWorkflow("w"))
    assert engine.commits == 0, "looking at it has committed something"


def test_nothing_published() -> None:
    """A workflow that publishes nothing has no progress, and an unknown workflow is not found."""
    engine = DirectEngine(*FLOWS)
    engine.start(waiter())
    assert _progress(engine) is None
    with pytest.raises(WorkflowNotFound):
        engine.do(ReadProgress("nobody"))


@pytest.mark.parametrize("crash", [True, False])
def test_first_step_after_a_delay(crash: bool) -> None:
    """What a delayed body publishes in its first step is stored with it, even after a crash in between."""
    engine = DirectEngine(*FLOWS)
    engine.start(steps(), delay=60)
    assert _progress(engine) is None
    engine.restart(*FLOWS, clean=not crash)
    engine.advance(60)
    engine.settle()
    assert _progress(engine) == 0


def test_next_round_keeps_the_last_value() -> None:
    """A round begins with the progress of the round before, and replaces it with its own."""

    @workflow(name="publishing.rounds")
    def in_rounds(round: int) -> Durable[None]:
        if round != 1:
            publish([round, "begun"])
        yield from go.wait()
        publish([round, "over"])
        raise in_rounds.continue_as(round + 1)

    engine = DirectEngine(*FLOWS, in_rounds)
    engine.start(in_rounds(0))
    seen = [_progress(engine)]
    for _ in range(2):
        engine.send(go, 1, to="w")
        seen.append(_progress(engine))
        engine.restart(*FLOWS, in_rounds, clean=False)
        seen.append(_progress(engine))
    assert seen == [[0, "begun"], [0, "over"], [0, "over"], [1, "over"], [2, "begun"]]


def test_new_code_that_publishes_other_values() -> None:
    """A rebuilt body does not publish again what it has passed, whatever its new code says."""

    def version(text: str) -> Any:
        @workflow(name="publishing.changed")
        def changed() -> Durable[None]:
            publish(text)
            yield from go.wait()
            yield from other.wait()
            publish(f"{text} end")

        return changed

    engine = DirectEngine(version("old"))
    engine.start(version("old")())
    engine.send(go, 1, to="w")
    engine.restart(version("new"))
    engine.do(ResumeWorkflow(engine.record().key))
    assert _progress(engine) == "old"
    engine.send(other, 1, to="w")
    assert _progress(engine) == "new end"


def test_diverged_body_publishes_nothing() -> None:
    """A body that diverges is parked, and what it published on the way is not stored."""

    @workflow(name="publishing.steps")
    def broken() -> Durable[None]:
        publish("early")
        yield from sleep(5)

    engine = DirectEngine(*FLOWS)
    engine.start(steps())
    engine.send(go, 1, to="w")
    engine.restart(broken)
    engine.do(ResumeWorkflow(engine.record().key))
    assert engine.status() is WorkflowStatus.PARKED
    assert _progress(engine) == 1


@pytest.mark.parametrize("where", ["first step", "later step", "last step"])
def test_value_that_is_too_large(where: str) -> None:
    """A value over `max_payload_bytes` fails the workflow with `PayloadTooLarge`, and the progress before it stays."""

    @workflow(name="publishing.large")
    def large(where: str) -> Durable[str]:
        publish("x" * 1000 if where == "first step" else "fine")
        yield from go.wait()
        publish("x" * 1000)
        if where == "later step":
            yield from race(waiter(), other.wait())
        return "done"

    engine = DirectEngine(*FLOWS, large, config=EngineConfig(max_payload_bytes=500))
    engine.start(large(where))
    if where != "first step":
        engine.send(go, 1, to="w")
    assert engine.error().args == PayloadTooLarge("workflow publishing.large: progress", 1002, 500).args
    assert _progress(engine) == (None if where == "first step" else "fine")


def test_too_large_with_a_child_that_has_just_lost() -> None:
    """A workflow that fails because of its progress still cancels the child that lost in the same step."""

    @workflow(name="publishing.loser")
    def loser() -> Durable[None]:
        yield from race(waiter(), go.wait())
        publish("x" * 1000)
        yield from other.wait()

    engine = DirectEngine(*FLOWS, loser, config=EngineConfig(max_payload_bytes=500))
    engine.start(loser())
    engine.send(go, 1, to="w")
    assert (engine.status(), engine.status("w/0.0.0")) == (WorkflowStatus.FAILED, WorkflowStatus.CANCELLED)


def test_limit_that_is_lower_today() -> None:
    """A workflow that published more than a lowered limit continues; only new values are checked."""
    store = DirectEngine(*FLOWS)

    @workflow(name="publishing.once")
    def once() -> Durable[str]:
        publish("x" * 1000)
        yield from go.wait()
        return "done"

    store.start(once())
    store.config = EngineConfig(max_payload_bytes=500)
    store.restart(once)
    store.send(go, 1, to="w")
    assert store.result() == "done"
    assert len(_progress(store)) == 1000


@pytest.mark.parametrize(
    ("value", "stored"), [(Stage("pay", 3), {"name": "pay", "done": 3}), ((1, 2), [1, 2]), (None, None), ({}, {})]
)
def test_values_are_stored_by_their_class(value: Any, stored: Any) -> None:
    """A published value is stored by its own class, and read as JSON or as the requested class."""

    @workflow(name="publishing.value")
    def of_value() -> Durable[None]:
        publish(value)
        yield from go.wait()

    engine = DirectEngine(of_value)
    engine.start(of_value())
    assert _progress(engine) == stored
    progress = engine.do(ReadProgress("w"))
    assert progress is not None
    assert engine.codec.coder(type(value), "progress").unpack(progress.value) == value


@pytest.mark.parametrize("value", [object(), float("nan"), {"a": Stage("pay", 1)}, [(1, 2)], {1: 2}])
def test_value_that_cannot_be_stored(value: Any) -> None:
    """A value that cannot be stored raises `CodecError` in the body, which may catch it. The last good value stays."""

    @workflow(name="publishing.bad")
    def bad() -> Durable[str]:
        publish("good")
        yield from sleep(0)
        try:
            publish(value)
        except CodecError as error:
            return error.where
        return "stored"

    engine = DirectEngine(bad)
    engine.start(bad())
    assert engine.result() == "workflow publishing.bad: progress"
    assert _progress(engine) == "good"


def test_branches_that_are_closed_publish_nothing() -> None:
    """A `finally` that publishes counts when the body passes it, not when the body is evicted."""

    def branch() -> Durable[None]:
        try:
            yield from go.wait()
        finally:
            publish("cleaned up")

    @workflow(name="publishing.closing")
    def closing() -> Durable[None]:
        publish("begun")
        yield from race(branch(), other.wait())
        yield from gather(work(1))

    engine = DirectEngine(*FLOWS, closing)
    engine.start(closing())
    engine.start(closing(), "v")
    engine.restart(*FLOWS, closing)
    assert _progress(engine) == "begun"
    engine.send(other, 1, to="w")
    assert _progress(engine) == "begun"
    engine.send(go, 1, to="v")
    assert _progress(engine, "v") == "cleaned up"


def test_progress_goes_with_its_workflow() -> None:
    """Progress outlives the end of its workflow, and is deleted when the workflow is purged."""
    engine = DirectEngine(*FLOWS)
    engine.start(steps())
    engine.do(TerminateWorkflow("w"))
    assert _progress(engine) == 0
    key = engine.record().key
    engine.do(PurgeWorkflows(engine.clock.now() + 1))
    assert engine.state.chronicle.progress_of(key) is None

"""Spawned children: how they start, how the parent gets their result, and what happens when it ends."""

from __future__ import annotations

from typing import Any

import pytest

from durable import (
    ChildDepthExceeded,
    ChildWorkflowCancelled,
    ChildWorkflowFailed,
    Durable,
    EngineConfig,
    Event,
    OnParentClose,
    PayloadTooLarge,
    WorkflowAlreadyExists,
    WorkflowNotFound,
    WorkflowStatus,
    gather,
    race,
    sleep,
    spawn,
    workflow,
)
from durable.backends.base import Workflows
from durable.model.records import EntryKind
from tests.engine.direct import DirectEngine, event_of
from tests.engine.flows import EVERY, failing, go, nothing, other, rounds, waiter

KEEP, CANCEL = OnParentClose.KEEP, OnParentClose.CANCEL
ask = Event[int]("ask")


@workflow(name="spawning.later")
def later(id: str | None = None, close: str = "keep") -> Durable[list[Any]]:
    """Spawns a child, waits for an event, then asks for the child's result twice."""
    handle = yield from spawn(waiter(), id, OnParentClose(close))
    yield from ask.wait()
    first = yield from handle.result()
    return [handle.id, first, (yield from handle.result())]


@workflow(name="spawning.forgetful")
def forgetful(close: str = "keep", how: str = "returns") -> Durable[str]:
    """Spawns a child, and ends in the given way."""
    handle = yield from spawn(waiter(), on_parent_close=OnParentClose(close))
    if how == "fails":
        raise LookupError(how)
    if how != "returns":
        yield from ask.wait()
    return handle.id


FLOWS = (*EVERY, later, forgetful)


@pytest.mark.parametrize("restart", [None, True, False])
@pytest.mark.parametrize("child_first", [True, False])
def test_result_read_later(child_first: bool, restart: bool | None) -> None:
    """A spawned child's result can be read at any time, more than once, and across restarts."""
    engine = DirectEngine(*FLOWS)
    engine.start(later())
    child = engine.record("w/0")
    assert (child.parent_key, child.parent_place, child.depth) == (engine.record().key, "0", 1)
    sends = [event_of(go, 5, to="w/0"), event_of(ask, 0, to="w")]
    for send in sends if child_first else reversed(sends):
        if restart is not None:
            engine.restart(*FLOWS, clean=restart)
        engine.do(send)
    assert engine.result() == ["w/0", 5, 5]
    assert engine.record("w/0").key == child.key
    assert [entry.kind.value for entry in engine.history()] == ["spawn", "event", "result", "result"]


def test_start_is_in_the_commit_of_its_parent() -> None:
    """A child is stored with the step that spawns it, and continues if its parent ends at once."""
    engine = DirectEngine(*FLOWS)
    engine.start(forgetful())
    assert engine.result() == "w/0"
    assert engine.status("w/0") is WorkflowStatus.SUSPENDED
    engine.send(go, 5, to="w/0")
    assert engine.result("w/0") == 5


def test_end_and_wake_up_are_one_commit() -> None:
    """A child's end and its parent's wake-up are one commit, even if the parent is not in memory."""
    engine = DirectEngine(*FLOWS, config=EngineConfig(max_loaded_workflows=1))
    engine.start(later())
    engine.send(ask, 0, to="w")
    engine.start(nothing(), "another")
    engine.send(go, 5, to="w/0")
    assert engine.record().finished_at == engine.record("w/0").finished_at


def test_parent_that_does_not_wait_is_left_alone() -> None:
    """The end of a child that nobody awaits does not rebuild its parent."""
    engine = DirectEngine(*FLOWS)
    engine.start(later())
    engine.restart(*FLOWS)
    engine.send(go, 5, to="w/0")
    assert engine.status("w/0") is WorkflowStatus.SUCCEEDED
    assert engine.record().key not in engine.state.loaded


def test_continued_parent_keeps_its_children() -> None:
    """A parent that continues as a new round has not ended: its children end with its last round."""

    @workflow(name="spawning.rounds")
    def in_rounds(left: int) -> Durable[str]:
        yield from spawn(waiter(), on_parent_close=CANCEL)
        yield from ask.wait()
        if left == 0:
            return "done"
        raise in_rounds.continue_as(left - 1)

    engine = DirectEngine(*FLOWS, in_rounds)
    engine.start(in_rounds(1))
    engine.send(ask, 0, to="w")
    engine.settle()
    assert [engine.status(id) for id in ("w", "w/0", "w/1:0")] == [WorkflowStatus.SUSPENDED] * 3
    engine.restart(*FLOWS, in_rounds)
    engine.send(ask, 0, to="w")
    assert engine.result() == "done"
    assert [engine.status(id) for id in ("w/0", "w/1:0")] == [WorkflowStatus.CANCELLED] * 2


def test_how_a_child_was_spawned_is_recorded() -> None:
    """A child is kept or cancelled as its spawn said, whatever the parent's code says now."""

    def version(close: OnParentClose) -> Any:
        @workflow(name="spawning.changed")
        def changed() -> Durable[None]:
            yield from spawn(waiter(), on_parent_close=close)
            yield from ask.wait()

        return changed

    for before, after in ((KEEP, CANCEL), (CANCEL, KEEP)):
        engine = DirectEngine(waiter, version(before))
        engine.start(version(before)())
        engine.restart(waiter, version(after))
        engine.send(ask, 0, to="w")
        assert engine.status() is WorkflowStatus.SUCCEEDED
        assert engine.status("w/0").is_terminal is (before is CANCEL)


def test_failure_and_cancellation_of_a_child() -> None:
    """Reading the result of a child that failed or was cancelled raises what awaiting it would."""

    @workflow(name="spawning.unlucky")
    def unlucky() -> Durable[list[str]]:
        bad = yield from spawn(failing())
        stopped = yield from spawn(waiter())
        errors = []
        for handle in (bad, stopped):
            try:
                yield from handle.result()
            except (ChildWorkflowFailed, ChildWorkflowCancelled) as error:
                errors.append(f"{type(error).__name__} {error.workflow_id} {type(error.__cause__).__name__}")
        return errors

    engine = DirectEngine(*FLOWS, unlucky)
    engine.start(unlucky())
    engine.cancel("w/1")
    assert engine.result() == ["ChildWorkflowFailed w/0 LookupError", "ChildWorkflowCancelled w/1 NoneType"]


@pytest.mark.parametrize("ended", [True, False])
def test_cancel_through_the_handle(ended: bool) -> None:
    """A parent can cancel its child, learns whether the child was still running, and can then await its end."""

    @workflow(name="spawning.strict")
    def strict() -> Durable[list[Any]]:
        handle = yield from spawn(waiter())
        yield from ask.wait()
        was_running = yield from handle.cancel("enough")
        try:
            return [was_running, (yield from handle.result())]
        except ChildWorkflowCancelled as error:
            return [was_running, error.reason]

    engine = DirectEngine(*FLOWS, strict)
    engine.start(strict())
    if ended:
        engine.send(go, 5, to="w/0")
    engine.send(ask, 0, to="w")
    assert engine.result() == ([False, 5] if ended else [True, "enough"])
    assert engine.history()[2].kind is EntryKind.CANCEL_CHILD


@pytest.mark.parametrize("room", [1, 1000])
def test_withdrawn_wait_leaves_the_child_alone(room: int) -> None:
    """A wait for a result that loses a race or times out is withdrawn, and the child continues."""

    @workflow(name="spawning.impatient")
    def impatient() -> Durable[list[Any]]:
        handle = yield from spawn(waiter())
        won = yield from race(child=handle.result(), event=other.wait())
        late = yield from handle.result().within(60).or_default(-1)
        return [won.key, late, (yield from handle.result())]

    engine = DirectEngine(*FLOWS, impatient, config=EngineConfig(max_loaded_workflows=room))
    engine.start(impatient())
    assert len(engine.waits()) == 2
    engine.send(other, 1, to="w")
    engine.advance(60)
    assert len(engine.waits()) == 1
    engine.send(go, 5, to="w/0")
    assert engine.result() == ["event", -1, 5]


def test_many_at_once() -> None:
    """Children may be spawned and awaited in branches, and may end in any order."""

    @workflow(name="spawning.crowd")
    def crowd(count: int) -> Durable[list[int]]:
        handles = yield from gather(*(spawn(waiter()) for _ in range(count)))
        return list((yield from gather(*(handle.result() for handle in handles))))

    engine = DirectEngine(*FLOWS, crowd)
    engine.start(crowd(5))
    for number in (3, 0, 4, 1, 2):
        engine.send(go, number, to=f"w/0.{number}.0")
    assert engine.result() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("taken", [True, False])
def test_explicit_id(taken: bool) -> None:
    """A child may have an explicit id. An id that is taken raises in the body, and its owner is not cancelled."""

    @workflow(name="spawning.named")
    def named() -> Durable[str]:
        try:
            handle = yield from spawn(waiter(), id="mine", on_parent_close=CANCEL)
        except WorkflowAlreadyExists as error:
            return f"refused {error.workflow_id}"
        return handle.id

    engine = DirectEngine(*FLOWS, named)
    if taken:
        engine.start(waiter(), "mine")
    engine.start(named())
    assert engine.result() == ("refused mine" if taken else "mine")
    assert engine.status("mine") is (WorkflowStatus.SUSPENDED if taken else WorkflowStatus.CANCELLED)


def test_refused_in_the_body() -> None:
    """A child that cannot be started raises where it is spawned, whatever the reason."""

    @workflow(name="engine.waiter")
    def impostor() -> Durable[None]:
        yield from sleep(1)

    @workflow(name="spawning.texts")
    def texts(text: str) -> Durable[str]:
        yield from sleep(0)
        return text

    @workflow(name="spawning.bad")
    def bad(which: str) -> Durable[str]:
        try:
            yield from spawn(texts("x" * 1000) if which == "large" else impostor())
        except Exception as error:
            return type(error).__name__
        return "fine"

    engine = DirectEngine(bad, texts, *FLOWS, config=EngineConfig(max_payload_bytes=500))
    engine.start(bad("large"), "a")
    engine.start(bad("impostor"), "b")
    assert (engine.result("a"), engine.result("b")) == (PayloadTooLarge.__name__, "DuplicateWorkflow")
    assert len(engine.backend.find(Workflows(limit=100))) == 2


def test_depth_counts_spawned_children() -> None:
    """A chain of spawned children ends at the limit, without a growing stack."""

    @workflow(name="spawning.deep")
    def deep() -> Durable[str]:
        try:
            handle = yield from spawn(deep())
        except ChildDepthExceeded:
            return "bottom"
        return (yield from handle.result())

    engine = DirectEngine(deep, checks=False)
    engine.start(deep())
    assert engine.result() == "bottom"
    assert len(engine.backend.find(Workflows(limit=1000))) == 101


def test_three_deep_with_and_without_waiting() -> None:
    """In three generations, awaited and not, every id follows from the position, and each child starts once."""

    @workflow(name="spawning.family")
    def family(level: int) -> Durable[int]:
        if level == 0:
            return (yield from go.wait())
        yield from spawn(family(level - 1), on_parent_close=CANCEL if level == 1 else KEEP)
        handle = yield from spawn(family(level - 1))
        return level + (yield from handle.result())

    engine = DirectEngine(family)
    engine.start(family(3))
    for clean in (True, False):
        engine.restart(family, clean=clean)
    assert len(engine.backend.find(Workflows(limit=100))) == 15
    engine.send(go, 10, to="w/1/1/1")
    assert (engine.result("w/1/1"), engine.result()) == (11, 16)
    # One tied to an ended parent, one kept by it, and one elsewhere.
    states = [engine.status(id).value for id in ("w/1/1/0", "w/1/0", "w/0/1/1")]
    assert states == ["cancelled", "suspended", "suspended"]


def test_child_that_continues() -> None:
    """The result of a spawned child is that of its last round."""

    @workflow(name="spawning.of_rounds")
    def of_rounds() -> Durable[int]:
        handle = yield from spawn(rounds(3))
        return (yield from handle.result())

    engine = DirectEngine(*FLOWS, of_rounds)
    engine.start(of_rounds())
    for number in (1, 2, 3):
        assert engine.status() is WorkflowStatus.SUSPENDED
        engine.send(go, number, to="w/0")
        engine.settle()
    assert engine.result() == 6


def test_child_whose_row_is_gone() -> None:
    """A child whose row was deleted cannot be awaited or cancelled: the body gets `WorkflowNotFound`."""

    @workflow(name="spawning.bereft")
    def bereft() -> Durable[list[str]]:
        handle = yield from spawn(nothing())
        yield from ask.wait()
        missing = []
        for op in (handle.result(), handle.cancel()):
            try:
                yield from op
            except WorkflowNotFound as error:
                missing.append(error.workflow_id)
        return missing

    engine = DirectEngine(*FLOWS, bereft)
    engine.start(bereft())
    engine.state.batch.workflows_purged.add(engine.record("w/0").key)
    engine.send(ask, 0, to="w")
    assert engine.result() == ["w/0", "w/0"]


@pytest.mark.parametrize("ends", [True, False])
def test_cancel_that_loses_to_a_pending_event_leaves_the_child_alone(ends: bool) -> None:
    """A pending event is taken before a cancel, even by a later branch. If it decides the race, nobody is cancelled."""

    @workflow(name="spawning.outrun")
    def outrun() -> Durable[str]:
        handle = yield from spawn(waiter(), on_parent_close=KEEP)
        won = yield from race(cancel=handle.cancel(), take=ask.wait())
        if not ends:
            yield from sleep(60)
        return str(won.key)

    engine = DirectEngine(*FLOWS, outrun)
    engine.send(ask, 0)
    engine.start(outrun())
    engine.advance(60)
    assert (engine.result(), engine.status("w/0")) == ("take", WorkflowStatus.SUSPENDED)

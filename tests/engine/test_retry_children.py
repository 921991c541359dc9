"""`runs.retry` with children: failed children continue with their parent, and children that it cancelled start over."""

from __future__ import annotations

from typing import Any

import pytest

from durable import (
    CannotRetry,
    Durable,
    Event,
    OnParentClose,
    WorkflowStatus,
    gather,
    spawn,
    workflow,
)
from durable.model.error_codec import unpack_error
from durable.runner.definitions import WorkflowDef
from tests.engine.direct import DirectEngine
from tests.engine.flows import EVERY, Refused, clean, go, news, reader, tidy, waiter, worker
from tests.engine.mending import check_restart, outline, refused, retry
from tests.engine.test_retry import fail_all, once

SUSPENDED, RUNNING, FAILED = WorkflowStatus.SUSPENDED, WorkflowStatus.RUNNING, WorkflowStatus.FAILED
CANCELLED = WorkflowStatus.CANCELLED
ask = Event[int]("retry-ask")


@workflow(name="retry.family")
def family(levels: int) -> Durable[int]:
    """Nests children; the innermost does an activity."""
    return levels + (yield from (once() if levels == 0 else family(levels - 1)))


@workflow(name="retry.handle")
def by_handle() -> Durable[int]:
    """Spawns a child and waits for its result."""
    handle = yield from spawn(worker())
    return (yield from handle.result())


@workflow(name="retry.forgiving")
def forgiving() -> Durable[int]:
    """Handles the failure of its child, then waits for an event."""
    try:
        return (yield from worker())
    except Exception:
        return (yield from ask.wait())


@workflow(name="retry.pair")
def pair() -> Durable[list[int]]:
    """Runs a child and a step at once."""
    return list((yield from gather(waiter(), once())))


@workflow(name="retry.tidy_pair")
def tidy_pair() -> Durable[list[int]]:
    """Runs a child that cleans up, and a step."""
    return list((yield from gather(tidy(), once())))


@workflow(name="retry.tied")
def tied() -> Durable[int]:
    """Spawns a tied child and a kept one, does a step, then waits for both results."""
    handle = yield from spawn(waiter(), on_parent_close=OnParentClose.CANCEL)
    kept = yield from spawn(waiter())
    step = yield from once()
    return step + (yield from handle.result()) + (yield from kept.result())


FLOWS: tuple[WorkflowDef[Any, Any], ...] = (*EVERY, family, by_handle, forgiving, pair, tidy_pair, tied)


def test_children_continue_with_their_parent() -> None:
    """The whole chain of children that made a workflow fail continues, and its result reaches the top."""
    engine = DirectEngine(*FLOWS)
    engine.start(family(3))
    fail_all(engine)
    ids = ["w", "w/0", "w/0/0", "w/0/0/0"]
    assert [engine.status(id) for id in ids] == [FAILED] * 4
    keys = [engine.record(id).key for id in ids]
    retry(engine)
    check_restart(engine, *FLOWS)
    assert [engine.status(id) for id in ids] == [SUSPENDED] * 3 + [RUNNING]
    engine.finish(engine.activities[0], 1)
    assert engine.result() == 7
    assert [engine.record(id).key for id in ids] == keys
    assert outline(engine) == ["child 0 error", "retried 0 ok", "child 0 ok"]


@pytest.mark.parametrize("child_first", [True, False])
def test_spawned_child_continues_with_its_parent_or_before(child_first: bool) -> None:
    """A spawned child whose result was awaited continues with its parent, or is retried on its own before."""
    engine = DirectEngine(*FLOWS)
    engine.start(by_handle())
    fail_all(engine)
    assert (engine.status(), engine.status("w/0")) == (FAILED, FAILED)
    if child_first:
        retry(engine, "w/0")
        assert engine.status() is FAILED
        engine.finish(engine.activities[0], 3)
    retry(engine)
    check_restart(engine, *FLOWS)
    if not child_first:
        engine.finish(engine.activities[0], 3)
    assert engine.result() == 3


def test_awaited_child_of_a_parent_that_has_ended_is_refused() -> None:
    """An awaited child of an ended parent cannot be retried on its own: the refusal names the parent."""
    engine = DirectEngine(*FLOWS)
    engine.start(family(1))
    fail_all(engine)
    error = refused(engine, lambda: retry(engine, "w/0"))
    assert isinstance(error, CannotRetry)
    assert "its parent 'w' has ended; retry the parent, or fork this workflow" in str(error)


@pytest.mark.parametrize("restart", [True, False])
def test_child_that_its_parent_has_given_up(restart: bool) -> None:
    """A child whose failure its parent has handled may be retried, and ends with its parent like any other."""
    engine = DirectEngine(*FLOWS)
    engine.start(forgiving())
    fail_all(engine)
    retry(engine, "w/0")
    if restart:
        check_restart(engine, *FLOWS)
    assert (engine.status(), engine.status("w/0")) == (SUSPENDED, RUNNING)
    engine.send(ask, 5, to="w")
    assert (engine.result(), engine.status("w/0")) == (5, CANCELLED)


def test_child_that_was_cancelled_with_its_parent_starts_over() -> None:
    """A child that was cancelled because its parent failed starts over, under its id and with an empty mailbox."""
    engine = DirectEngine(*FLOWS)
    engine.start(pair())
    child = engine.record("w/0.0.0")
    engine.fail(engine.activities[0], Refused("no"))
    assert engine.status("w/0.0.0") is CANCELLED
    retry(engine)
    check_restart(engine, *FLOWS)
    again = engine.record("w/0.0.0")
    assert (again.key, again.round, again.status, again.cancel_requested) == (child.key, 1, SUSPENDED, False)
    assert engine.history("w/0.0.0") == []
    engine.send(go, 4, to="w/0.0.0")
    engine.finish(engine.activities[0], 5)
    assert engine.result() == [4, 5]


def test_child_that_still_cleans_up_is_waited_for() -> None:
    """A parent cannot be retried while a child still cleans up, and the refusal says so."""
    engine = DirectEngine(*FLOWS)
    engine.start(tidy_pair())
    step = next(effect for effect in engine.activities if effect.position == "0.1.0")
    engine.fail(step, Refused("no"))
    assert (engine.status(), engine.status("w/0.0.0")) == (FAILED, RUNNING)
    assert "child 'w/0.0.0' is being cancelled; retry when it has ended" in str(refused(engine, lambda: retry(engine)))
    engine.finish(engine.activities[0])
    assert engine.status("w/0.0.0") is CANCELLED
    retry(engine)
    assert len(engine.activities) == 2


def test_broadcast_reaches_a_child_that_starts_over() -> None:
    """A child that starts over has read nothing, so it takes again the broadcasts of its void run."""

    @workflow(name="retry.listening")
    def listening() -> Durable[Any]:
        return list((yield from gather(reader(2), once())))

    engine = DirectEngine(*FLOWS, listening)
    engine.start(listening())
    engine.send(news, 1)
    assert len(engine.history("w/0.0.0")) == 1
    fail_all(engine)
    retry(engine)
    check_restart(engine, *FLOWS, listening)
    assert [entry.outcome for entry in engine.history("w/0.0.0")] == ["1"]
    engine.send(news, 2)
    engine.finish(engine.activities[0], 0)
    assert engine.result() == [[1, 2], 0]


def test_child_that_was_cancelled_by_hand_is_refused() -> None:
    """A parent whose child was cancelled by hand is refused, and the error says how to get another child."""
    engine = DirectEngine(*FLOWS)
    engine.start(family(1))
    engine.cancel("w/0", "not wanted")
    assert engine.status() is FAILED
    error = refused(engine, lambda: retry(engine))
    assert "child 'w/0' was cancelled; fork it from position 0, which starts another child" in str(error)


def test_spawned_child_that_was_cancelled_by_hand_is_refused() -> None:
    """For a spawned child, the refusal says to fork from the step that spawned it."""
    engine = DirectEngine(*FLOWS)
    engine.start(by_handle())
    engine.cancel("w/0", "not wanted")
    assert engine.status() is FAILED
    error = refused(engine, lambda: retry(engine))
    assert "child 'w/0' was cancelled; fork it from position 0, which starts another child" in str(error)


def test_child_that_cannot_be_retried_refuses_its_parent() -> None:
    """If a child cannot be retried, nothing changes, and the refusal says which child and why."""

    @workflow(name="retry.undoing")
    def undoing() -> Durable[int]:
        yield from once(1).undo(lambda _: clean())
        return (yield from once(2))

    @workflow(name="retry.above")
    def above() -> Durable[Any]:
        return (yield from undoing())

    engine = DirectEngine(undoing, above)
    engine.start(above())
    engine.finish(engine.activities[0], 1)
    fail_all(engine)
    engine.finish(engine.activities[0])
    assert engine.status() is FAILED
    assert "'w/0' cannot be retried: its steps were undone" in str(refused(engine, lambda: retry(engine)))


@pytest.mark.parametrize("restart", [True, False])
def test_tied_children_start_over(restart: bool) -> None:
    """Tied children start over with their parent, even if nobody awaits them. Kept children were never stopped."""
    engine = DirectEngine(*FLOWS)
    engine.start(tied())
    fail_all(engine)
    assert [engine.status(id) for id in ("w", "w/0", "w/1")] == [FAILED, CANCELLED, SUSPENDED]
    retry(engine)
    if restart:
        check_restart(engine, *FLOWS)
    assert [engine.status(id) for id in ("w", "w/0", "w/1")] == [RUNNING, SUSPENDED, SUSPENDED]
    engine.finish(engine.activities[0], 1)
    engine.send(go, 20, to="w/0")
    engine.send(go, 300, to="w/1")
    assert engine.result() == 321


def test_unrelated_workflow_with_the_id_of_a_child_is_not_retried() -> None:
    """A failed workflow that merely has the id of the requested child is not retried with the parent."""

    @workflow(name="retry.named")
    def named() -> Durable[int]:
        return (yield from worker().with_id("stranger"))

    engine = DirectEngine(*FLOWS, named)
    engine.start(worker(), "stranger")
    fail_all(engine)
    engine.start(named())
    assert engine.status() is FAILED
    retry(engine)
    assert (engine.status(), engine.status("stranger")) == (FAILED, FAILED)
    assert type(unpack_error(engine.record().error or "")).__name__ == "WorkflowAlreadyExists"


def test_child_starts_over_with_the_current_call() -> None:
    """A child that starts over takes name, version and arguments from the current code of its parent."""

    def version(number: int) -> WorkflowDef[[], list[int]]:
        @workflow(name="retry.part", version=number)
        def part(step: int) -> Durable[int]:
            return number * (yield from go.wait()) + step

        @workflow(name="retry.whole")
        def whole() -> Durable[list[int]]:
            return list((yield from gather(part(number), once())))

        return whole

    engine = DirectEngine(version(1))
    engine.start(version(1)())
    fail_all(engine)
    engine.restart(version(2))
    retry(engine)
    assert (engine.record("w/0.0.0").version, engine.record("w/0.0.0").input) == (2, '{"step":2}')
    engine.send(go, 10, to="w/0.0.0")
    engine.finish(engine.activities[0], 0)
    assert engine.result() == [22, 0]


def test_child_whose_name_is_taken_is_refused() -> None:
    """If another function has the name of the child, the retry is refused and nothing changes."""

    @workflow(name="retry.twofold")
    def twofold() -> Durable[list[int]]:
        return list((yield from gather(waiter(), once())))

    @workflow(name="engine.waiter")
    def impostor() -> Durable[int]:
        return (yield from ask.wait())

    engine = DirectEngine(twofold)
    engine.start(twofold())
    fail_all(engine)
    engine.restart(twofold, impostor)
    assert "engine.waiter" in str(refused(engine, lambda: retry(engine)))


@pytest.mark.parametrize("state", ["cleans up", "purged"])
def test_spawned_child_that_cannot_start_over(state: str) -> None:
    """A child that still cleans up refuses the retry. A purged child is not missed until its result is awaited."""

    @workflow(name="retry.tied_tidy")
    def tied_tidy() -> Durable[int]:
        yield from spawn(tidy(), on_parent_close=OnParentClose.CANCEL)
        return (yield from once())

    engine = DirectEngine(*FLOWS, tied_tidy)
    engine.start(tied_tidy())
    engine.fail(next(effect for effect in engine.activities if effect.position == "1"), Refused("no"))
    if state == "cleans up":
        assert "child 'w/0' is being cancelled" in str(refused(engine, lambda: retry(engine)))
        return
    engine.finish(engine.activities[0])
    engine.state.batch.workflows_purged.add(engine.record("w/0").key)
    retry(engine)
    engine.finish(engine.activities[0], 4)
    assert engine.result() == 4


def test_awaited_tied_child_starts_over_once() -> None:
    """A tied child whose result is awaited starts over once, and its parent waits for it as before."""

    @workflow(name="retry.asking")
    def asking() -> Durable[list[int]]:
        handle = yield from spawn(waiter(), on_parent_close=OnParentClose.CANCEL)
        return list((yield from gather(handle.result(), once())))

    engine = DirectEngine(*FLOWS, asking)
    engine.start(asking())
    fail_all(engine)
    assert engine.status("w/0") is CANCELLED
    retry(engine)
    check_restart(engine, *FLOWS, asking)
    assert (engine.record("w/0").round, engine.status("w/0")) == (1, SUSPENDED)
    engine.send(go, 4, to="w/0")
    engine.finish(engine.activities[0], 5)
    assert engine.result() == [4, 5]


def test_text_of_a_cancel_reason_has_no_effect() -> None:
    """A child that was cancelled by hand stays cancelled, even if the reason reads like that of an ended parent."""
    engine = DirectEngine(pair, *EVERY)
    engine.start(pair())
    engine.cancel("w/0.0.0", reason="parent 'w' has ended")
    assert engine.status() is FAILED
    assert "child 'w/0.0.0' was cancelled; fork it" in str(refused(engine, lambda: retry(engine)))

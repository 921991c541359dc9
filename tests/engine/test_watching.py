"""A watcher is told of changes after their commit, sees the latest state, and never misses the end."""

from __future__ import annotations

from typing import Any

import pytest

from durable import Durable, EngineClosed, StorageUnavailable, WorkflowNotFound, WorkflowStatus, publish, workflow
from durable.backends.memory import MemoryBackend
from durable.engine.operations import (
    AwaitChange,
    FindWorkflow,
    PurgeWorkflows,
    SendEvent,
    Sight,
    SweepEvents,
    TerminateWorkflow,
)
from durable.errors import CodecError
from durable.model.records import WorkflowRecord
from durable.testing.faults import Fault, SimCrash
from tests.engine.direct import call_of, event_of
from tests.engine.flows import go, other, waiter, work
from tests.engine.stepped import SteppedEngine

RUNNING, SUSPENDED = WorkflowStatus.RUNNING, WorkflowStatus.SUSPENDED


@workflow(name="watching.steps")
def steps() -> Durable[str]:
    """Publishes two events, then does an activity."""
    for _ in range(2):
        publish((yield from go.wait()))
    yield from work(1)
    return "done"


def _sight(status: WorkflowStatus, progress: str | None = None) -> Sight:
    return Sight(status, progress, 0)


def _stepped() -> SteppedEngine:
    stepped = SteppedEngine()
    stepped.ask(call_of(steps(), "w"))
    stepped.log.clear()
    return stepped


def _send(number: int) -> SendEvent:
    return event_of(go, number, to="w")


def _look(stepped: SteppedEngine, seen: Sight | None = None) -> Any:
    (envelope,) = stepped.ask(AwaitChange("w", seen))
    return envelope.reply


def test_first_answer_is_the_current_state() -> None:
    """A watcher that has seen nothing gets the current state at once, without a commit."""
    stepped = _stepped()
    assert _look(stepped) == _sight(SUSPENDED)
    assert stepped.log == ["release", "wake caller"]


def test_change_is_told_after_its_commit() -> None:
    """A watcher that has seen the current state is told of the next change, after its commit."""
    stepped = _stepped()
    seen = _look(stepped)
    (watcher,) = stepped.ask(AwaitChange("w", seen))
    stepped.log.clear()
    assert "wake caller" not in stepped.log
    stepped.ask(_send(5))
    assert watcher.reply == _sight(SUSPENDED, "5")
    assert stepped.log == ["commit 2", "release", "wake caller", "wake caller"]


@pytest.mark.parametrize("watch_first", [True, False])
def test_change_in_the_batch_of_the_question(watch_first: bool) -> None:
    """A watcher is told of a change in its own batch, whichever comes first."""
    stepped = _stepped()
    question, change = AwaitChange("w", _sight(SUSPENDED)), _send(5)
    envelopes = stepped.ask(*((question, change) if watch_first else (change, question)))
    watcher = envelopes[0 if watch_first else 1]
    assert watcher.reply == _sight(SUSPENDED, "5")


def test_what_was_never_stored_is_never_told() -> None:
    """A query in the middle of a batch is answered with the state after the whole batch."""
    stepped = _stepped()
    _, watcher, _ = stepped.ask(_send(1), AwaitChange("w"), _send(2))
    assert watcher.reply == _sight(RUNNING, "2")
    stepped.log.clear()
    (again,) = stepped.ask(AwaitChange("w", watcher.reply))
    stepped.ask()
    assert again.reply == watcher.reply
    assert stepped.log == []


def test_watchers_of_one_batch_are_answered_once() -> None:
    """Two watchers in one batch are both answered, and neither waits any longer."""
    stepped = _stepped()
    stepped.ask(AwaitChange("w"), AwaitChange("w"))
    assert stepped.log.count("wake caller") == 2
    assert not stepped.coordinator._observers


def test_start_and_change_in_one_batch() -> None:
    """A workflow that starts in the same batch is watched from its first commit."""
    stepped = SteppedEngine()
    start = call_of(steps(), "w")
    _, watcher, _ = stepped.ask(start, AwaitChange("w", _sight(SUSPENDED)), _send(5))
    assert watcher.reply == _sight(SUSPENDED, "5")


def test_slow_consumer_sees_the_latest() -> None:
    """A watcher that returns late is told of the latest state at once, and of nothing in between."""
    stepped = _stepped()
    seen = _look(stepped)
    stepped.ask(_send(1))
    stepped.ask(_send(2))
    assert _look(stepped, seen) == _sight(RUNNING, "2")


def test_other_changes_wake_no_watcher() -> None:
    """A commit that changes nothing visible of this workflow does not wake its watcher."""
    stepped = _stepped()
    (watcher,) = stepped.ask(AwaitChange("w", _sight(SUSPENDED)))
    stepped.ask(call_of(waiter(), "v"), event_of(other, 1, to="w"))
    stepped.ask(event_of(go, 1, to="v"))
    assert list(stepped.coordinator._observers) == [watcher]
    stepped.ask(_send(7))
    assert watcher.reply == _sight(SUSPENDED, "7")


def test_same_value_again_is_no_change() -> None:
    """Publishing the same value again is not a change."""
    stepped = _stepped()
    stepped.ask(_send(7))
    (watcher,) = stepped.ask(AwaitChange("w", _sight(SUSPENDED, "7")))
    stepped.ask(_send(7))
    assert watcher.reply == _sight(RUNNING, "7"), "the status has changed"
    (again,) = stepped.ask(AwaitChange("w", watcher.reply))
    assert list(stepped.coordinator._observers) == [again]


@pytest.mark.parametrize("asked_before", [True, False])
def test_end_is_never_missed(asked_before: bool) -> None:
    """A watcher is told of the end, whether it waits for it, asks later, or has seen it already."""
    stepped = _stepped()
    (watcher,) = stepped.ask(AwaitChange("w", _sight(SUSPENDED))) if asked_before else [None]
    stepped.ask(TerminateWorkflow("w"))
    end = _sight(WorkflowStatus.CANCELLED)
    if watcher is not None:
        assert watcher.reply == end
    assert _look(stepped, _sight(SUSPENDED)) == end
    assert _look(stepped, end) == end


def test_several_watchers() -> None:
    """Every watcher is told once, and one that has left is forgotten."""
    stepped = _stepped()
    first, gone, third = stepped.ask(*[AwaitChange("w", _sight(SUSPENDED))] * 3)
    gone.is_abandoned = True
    (fourth,) = stepped.ask(AwaitChange("w", _sight(SUSPENDED)))
    assert list(stepped.coordinator._observers) == [first, third, fourth]
    third.is_abandoned = True
    stepped.coordinator._observers.forget_abandoned()
    assert list(stepped.coordinator._observers) == [first, fourth]
    stepped.ask(_send(5))
    assert [first.reply, fourth.reply] == [_sight(SUSPENDED, "5")] * 2
    assert stepped.log.count("wake caller") == 3
    assert not list(stepped.coordinator._observers)


def test_watch_of_an_unknown_workflow_is_refused() -> None:
    """Watching an unknown workflow is refused."""
    stepped = SteppedEngine()
    (envelope,) = stepped.ask(AwaitChange("w"))
    assert isinstance(envelope.error, WorkflowNotFound)


def test_failed_commit_tells_nothing() -> None:
    """A change whose commit fails is not told. The watcher learns that the engine has stopped."""
    stepped = _stepped()
    (watcher,) = stepped.ask(AwaitChange("w", _sight(SUSPENDED)))
    stepped.backend.plan[stepped.backend.commits + 1] = Fault.CRASH_BEFORE
    with pytest.raises(SimCrash):
        stepped.ask(_send(5))
    assert list(stepped.coordinator._observers) == [watcher]
    assert "wake caller" not in stepped.log[2:]
    stepped.coordinator._leave(StorageUnavailable("gone"))
    assert isinstance(watcher.error, StorageUnavailable)


def test_clean_stop_tells_watchers() -> None:
    """A watcher is told when the engine shuts down."""
    stepped = _stepped()
    watcher = stepped.letter(AwaitChange("w", _sight(SUSPENDED)))
    stepped.run(watcher)
    assert isinstance(watcher.error, EngineClosed)


class Spoilt(MemoryBackend):
    """A store in which rows can become unreadable."""

    error: Exception | None = None

    def workflow(self, id: str) -> WorkflowRecord | None:
        if self.error is not None and id == "w":
            raise self.error
        return super().workflow(id)


@pytest.mark.parametrize("error", [CodecError("workflow 'w'", "damaged"), StorageUnavailable("busy")])
def test_row_that_cannot_be_read(error: Exception) -> None:
    """A watcher is told of a damaged row. A store that cannot be read stops the engine."""
    stepped = _stepped()
    spoilt = Spoilt(stepped.store)
    stepped.backend.inner = spoilt
    stepped.coordinator.open("again")
    (watcher,) = stepped.ask(AwaitChange("w", _sight(SUSPENDED)))
    key = stepped.ask(FindWorkflow("w"))[0].reply.key
    stepped.coordinator.state.unload(key)
    stepped.coordinator.state.workflows.ids.clear()
    state = stepped.coordinator.state
    record = state.by_key(key)
    assert record is not None
    stepped.coordinator._batch_number = 0
    spoilt.error = error
    state.batch.workflows_changed[key] = record.with_status(RUNNING)
    if isinstance(error, StorageUnavailable):
        with pytest.raises(StorageUnavailable):
            stepped.coordinator.process([SweepEvents()])
    else:
        stepped.coordinator.process([PurgeWorkflows(0)])
        assert watcher.error is error

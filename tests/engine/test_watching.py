"""Who watches a workflow is told of changes after their commit, sees the latest, and never misses the end."""

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
from tests.engine.desk import call_of, event_of
from tests.engine.flows import go, other, waiter, work
from tests.engine.office import Office

RUNNING, SUSPENDED = WorkflowStatus.RUNNING, WorkflowStatus.SUSPENDED


@workflow(name="watching.steps")
def steps() -> Durable[str]:
    """Publishes what it gets, twice; then works."""
    for _ in range(2):
        publish((yield from go.wait()))
    yield from work(1)
    return "done"


def _sight(status: WorkflowStatus, progress: str | None = None) -> Sight:
    return Sight(status, progress, 0)


def _office() -> Office:
    office = Office()
    office.ask(call_of(steps(), "w"))
    office.log.clear()
    return office


def _send(number: int) -> SendEvent:
    return event_of(go, number, to="w")


def _look(office: Office, seen: Sight | None = None) -> Any:
    (envelope,) = office.ask(AwaitChange("w", seen))
    return envelope.reply


def test_first_the_present() -> None:
    """Who has seen nothing yet is told at once how the workflow stands, without a commit."""
    office = _office()
    assert _look(office) == _sight(SUSPENDED)
    assert office.log == ["release", "wake caller"]


def test_change_is_told_after_its_commit() -> None:
    """Who has seen how it stands waits, and is told of the next change after its commit."""
    office = _office()
    seen = _look(office)
    (watcher,) = office.ask(AwaitChange("w", seen))
    office.log.clear()
    assert "wake caller" not in office.log
    office.ask(_send(5))
    assert watcher.reply == _sight(SUSPENDED, "5")
    assert office.log == ["commit 2", "release", "wake caller", "wake caller"]


@pytest.mark.parametrize("watch_first", [True, False])
def test_change_in_the_batch_of_the_question(watch_first: bool) -> None:
    """A change in the batch in which a watcher asks is told with that batch, whichever comes first in it."""
    office = _office()
    question, change = AwaitChange("w", _sight(SUSPENDED)), _send(5)
    envelopes = office.ask(*((question, change) if watch_first else (change, question)))
    watcher = envelopes[0 if watch_first else 1]
    assert watcher.reply == _sight(SUSPENDED, "5")


def test_what_was_never_stored_is_never_told() -> None:
    """A question in the middle of a batch is answered with what the whole batch has made of the workflow."""
    office = _office()
    _, watcher, _ = office.ask(_send(1), AwaitChange("w"), _send(2))
    assert watcher.reply == _sight(RUNNING, "2")
    office.log.clear()
    (again,) = office.ask(AwaitChange("w", watcher.reply))
    office.ask()
    assert again.reply == watcher.reply
    assert office.log == []


def test_question_is_answered_once() -> None:
    """Two who ask in one batch are both answered, and neither waits any more."""
    office = _office()
    office.ask(AwaitChange("w"), AwaitChange("w"))
    assert office.log.count("wake caller") == 2
    assert not office.coordinator._observers


def test_start_and_change_in_one_batch() -> None:
    """Also a workflow that is started in the same batch is watched from its first commit on."""
    office = Office()
    start = call_of(steps(), "w")
    _, watcher, _ = office.ask(start, AwaitChange("w", _sight(SUSPENDED)), _send(5))
    assert watcher.reply == _sight(SUSPENDED, "5")


def test_slow_consumer_sees_the_latest() -> None:
    """Who does not ask for a while is told at once of the latest, and of nothing in between."""
    office = _office()
    seen = _look(office)
    office.ask(_send(1))
    office.ask(_send(2))
    assert _look(office, seen) == _sight(RUNNING, "2")


def test_change_of_others_tells_nothing() -> None:
    """A commit that changes other workflows, or nothing that can be seen of this one, does not wake its watcher."""
    office = _office()
    (watcher,) = office.ask(AwaitChange("w", _sight(SUSPENDED)))
    office.ask(call_of(waiter(), "v"), event_of(other, 1, to="w"))
    office.ask(event_of(go, 1, to="v"))
    assert list(office.coordinator._observers) == [watcher]
    office.ask(_send(7))
    assert watcher.reply == _sight(SUSPENDED, "7")


def test_same_value_again_is_no_change() -> None:
    """A value that is published again tells nothing new."""
    office = _office()
    office.ask(_send(7))
    (watcher,) = office.ask(AwaitChange("w", _sight(SUSPENDED, "7")))
    office.ask(_send(7))
    assert watcher.reply == _sight(RUNNING, "7"), "the status has changed"
    (again,) = office.ask(AwaitChange("w", watcher.reply))
    assert list(office.coordinator._observers) == [again]


@pytest.mark.parametrize("asked_before", [True, False])
def test_end_is_never_missed(asked_before: bool) -> None:
    """The end is told to who waits for it and to who asks later, also to who has seen it already."""
    office = _office()
    (watcher,) = office.ask(AwaitChange("w", _sight(SUSPENDED))) if asked_before else [None]
    office.ask(TerminateWorkflow("w"))
    end = _sight(WorkflowStatus.CANCELLED)
    if watcher is not None:
        assert watcher.reply == end
    assert _look(office, _sight(SUSPENDED)) == end
    assert _look(office, end) == end


def test_several_watchers() -> None:
    """Everybody who watches is told, each once; who has left is forgotten."""
    office = _office()
    first, gone, third = office.ask(*[AwaitChange("w", _sight(SUSPENDED))] * 3)
    gone.is_abandoned = True
    (fourth,) = office.ask(AwaitChange("w", _sight(SUSPENDED)))
    assert list(office.coordinator._observers) == [first, third, fourth]
    third.is_abandoned = True
    office.coordinator._observers.forget_abandoned()
    assert list(office.coordinator._observers) == [first, fourth]
    office.ask(_send(5))
    assert [first.reply, fourth.reply] == [_sight(SUSPENDED, "5")] * 2
    assert office.log.count("wake caller") == 3
    assert not list(office.coordinator._observers)


def test_nobody_there() -> None:
    """Watching a workflow that does not exist is refused."""
    office = Office()
    (envelope,) = office.ask(AwaitChange("w"))
    assert isinstance(envelope.error, WorkflowNotFound)


def test_failed_commit_tells_nothing() -> None:
    """A change whose commit does not happen is not told; who waits learns that the engine has stopped."""
    office = _office()
    (watcher,) = office.ask(AwaitChange("w", _sight(SUSPENDED)))
    office.backend.plan[office.backend.commits + 1] = Fault.CRASH_BEFORE
    with pytest.raises(SimCrash):
        office.ask(_send(5))
    assert list(office.coordinator._observers) == [watcher]
    assert "wake caller" not in office.log[2:]
    office.coordinator._leave(StorageUnavailable("gone"))
    assert isinstance(watcher.error, StorageUnavailable)


def test_orderly_stop_tells_who_watches() -> None:
    """Who watches when the engine is shut down is told so."""
    office = _office()
    watcher = office.letter(AwaitChange("w", _sight(SUSPENDED)))
    office.run(watcher)
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
    """A watcher of a row that is damaged is told; a store that cannot be read stops the engine, as for everybody."""
    office = _office()
    spoilt = Spoilt(office.store)
    office.backend.inner = spoilt
    office.coordinator.open("again")
    (watcher,) = office.ask(AwaitChange("w", _sight(SUSPENDED)))
    key = office.ask(FindWorkflow("w"))[0].reply.key
    office.coordinator.state.unload(key)
    office.coordinator.state.workflows.ids.clear()
    state = office.coordinator.state
    record = state.by_key(key)
    assert record is not None
    office.coordinator._batch_number = 0
    spoilt.error = error
    state.batch.workflows_changed[key] = record.with_status(RUNNING)
    if isinstance(error, StorageUnavailable):
        with pytest.raises(StorageUnavailable):
            office.coordinator.process([SweepEvents()])
    else:
        office.coordinator.process([PurgeWorkflows(0)])
        assert watcher.error is error

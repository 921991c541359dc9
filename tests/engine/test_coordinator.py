"""The coordinator decides, commits, then releases; and what it does when the store fails."""

from __future__ import annotations

import pytest

from durable import Delivered, WorkflowNotFound, WorkflowStatus
from durable.backends.base import Workflows
from durable.backends.memory import MemoryBackend
from durable.engine.config import EngineConfig
from durable.engine.coordinator.inbox import Envelope
from durable.engine.operations import (
    AwaitEnd,
    CountWorkflows,
    DescribeWorkflow,
    FindWorkflow,
    ListWorkflows,
    RecordActivity,
    RecoverWorkflows,
    RemoveLetter,
    ResumeWorkflow,
    RunActivity,
    StopActivity,
    TerminateWorkflow,
)
from durable.errors import InvariantViolated, StorageUnavailable, StoreFenced
from durable.testing.faults import Fault, SimCrash
from tests.engine.direct import call_of, event_of
from tests.engine.flows import go, sleeper, spinner, waiter, worker
from tests.engine.stepped import SteppedEngine

EVERY = Workflows(limit=9)


def test_nothing_leaves_before_the_commit() -> None:
    """The reply of a start and its activity leave in one release, after the commit."""
    stepped = SteppedEngine()
    stepped.ask(call_of(worker(), "a"), call_of(worker(), "b"))
    assert stepped.log == ["commit 1", "release", "wake caller", "wake caller"]
    assert [type(effect) for effect in stepped.released[0].activities] == [RunActivity, RunActivity]


def test_stop_of_an_activity_leaves_after_the_commit() -> None:
    """An activity is stopped only after the end of its workflow is committed."""
    stepped = SteppedEngine()
    stepped.ask(call_of(worker(), "w"))
    stepped.log.clear()
    stepped.ask(TerminateWorkflow("w"))
    assert stepped.log == ["commit 2", "release", "wake caller"]
    assert [type(effect) for effect in stepped.released[-1].activities] == [StopActivity]


def test_question_commits_nothing() -> None:
    """A batch that changes nothing is answered without a commit, and the batch number stays."""
    stepped = SteppedEngine()
    (envelope,) = stepped.ask(FindWorkflow("nobody"))
    assert envelope.reply is None
    assert stepped.log == ["release", "wake caller"]
    stepped.ask(call_of(waiter(), "w"))
    assert stepped.log[2] == "commit 1"


def test_empty_batch_releases_nothing() -> None:
    """A batch without operations neither commits nor releases."""
    stepped = SteppedEngine()
    stepped.ask()
    assert stepped.log == []


def test_starts_of_one_batch_ask_the_store_once() -> None:
    """The store is asked once which ids of a batch are taken. Of two equal starts, the first creates the workflow."""
    stepped = SteppedEngine()
    stepped.ask(call_of(waiter(), "old"))
    before = stepped.backend.calls
    fresh, again, stored, different = stepped.ask(
        call_of(waiter(), "new"), call_of(waiter(), "new"), call_of(waiter(), "old"), call_of(worker(), "new")
    )
    assert stepped.backend.calls - before == 2, "the ids and the commit"
    assert fresh.reply.key == again.reply.key
    assert stored.reply.id == "old"
    assert type(different.error).__name__ == "WorkflowAlreadyExists"


def test_refused_operation_does_not_affect_its_batch() -> None:
    """A refused operation does not affect the others in its batch."""
    stepped = SteppedEngine()
    refused, done = stepped.ask(RemoveLetter(1), call_of(waiter(), "w"))
    assert type(refused.error).__name__ == "DeadLetterNotFound"
    assert done.error is None
    assert stepped.backend.workflow("w") is not None


@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.FAIL_AFTER])
def test_failed_commit_is_repeated_before_the_release(fault: Fault) -> None:
    """A commit that fails once, whether it happened or not, ends in one commit and one release."""
    stepped = SteppedEngine()
    stepped.backend.plan = {1: fault}
    stepped.ask(call_of(worker(), "w"))
    assert [line for line in stepped.log if line == "release"] == ["release"]
    assert stepped.backend.last_batch() == 1
    assert len(stepped.released[0].activities) == 1
    stepped.ask(event_of(go, 1))
    assert stepped.backend.last_batch() == 2


def test_unknown_outcome_is_resolved_before_the_next_try() -> None:
    """While the batch number cannot be read, nothing is committed a second time."""
    stepped = SteppedEngine()
    stepped.backend.plan = {1: Fault.FAIL_AFTER}
    calls = stepped.backend.calls
    # The look-up of the id, the count of unstarted mail, the commit itself, then the read of the batch number.
    stepped.backend.fail_calls = set(range(calls + 4, calls + 7))
    stepped.ask(call_of(worker(), "w"))
    assert stepped.backend.commits == 1
    assert stepped.backend.last_batch() == 1


def test_patience_ends() -> None:
    """A store that stays broken stops the engine. Callers of the batch, watchers and queued callers get the error."""
    stepped = SteppedEngine(EngineConfig(commit_patience=2.0))
    stepped.ask(call_of(waiter(), "w"))
    watcher, caller = stepped.letter(AwaitEnd("w")), stepped.letter(event_of(go, 1))
    stepped.coordinator.process([watcher])
    stepped.backend.plan = dict.fromkeys(range(2, 1000), Fault.FAIL_BEFORE)
    behind = stepped.letter(FindWorkflow("w"))
    stepped.run(caller, behind=(behind,))
    assert [type(envelope.error) for envelope in (watcher, caller, behind)] == [StorageUnavailable] * 3
    assert caller.reply == Delivered(("w",))
    assert isinstance(stepped.released[-1].end, StorageUnavailable)
    assert not stepped.store.clean
    assert stepped.store.workflows[1].status is WorkflowStatus.SUSPENDED


def test_superseded_engine_stops() -> None:
    """An engine whose store was taken over commits nothing more, and says why it stopped."""
    stepped = SteppedEngine()
    MemoryBackend(stepped.store).open("another")
    caller = stepped.letter(call_of(waiter(), "w"))
    stepped.run(caller)
    assert isinstance(caller.error, StoreFenced)
    assert not stepped.store.workflows


def test_bug_of_ours_stops_the_engine(caplog: pytest.LogCaptureFixture) -> None:
    """A broken invariant stops the engine, and nothing of the batch is stored."""
    stepped = SteppedEngine()
    stepped.ask(call_of(waiter(), "w"))
    stepped.coordinator.state.batch.workflows_new[1] = stepped.store.workflows[1]
    caller = stepped.letter(call_of(waiter(), "x"))
    stepped.run(caller)
    assert isinstance(caller.error, StorageUnavailable)
    assert "InvariantViolated" in str(caller.error)
    assert stepped.backend.inner is not None
    assert len(stepped.store.workflows) == 1
    assert "the engine has stopped" in caplog.text


def test_invariant_in_a_decision_is_not_an_answer() -> None:
    """A broken invariant inside a decision leaves `process`; it is not the answer to one caller."""
    stepped = SteppedEngine()
    (started,) = stepped.ask(call_of(worker(), "w"))
    ended = started.reply.with_status(WorkflowStatus.CANCELLED)
    stepped.coordinator.state.loaded[ended.key].record = ended
    with pytest.raises(InvariantViolated):
        stepped.ask(RecordActivity(key=ended.key, round=0, position="0", attempt=1, outcome="1", value=1))


def test_failed_read_stops_the_engine() -> None:
    """A failed read in the middle of a decision is not the answer to one caller: it stops the engine."""
    stepped = SteppedEngine()
    stepped.backend.fail_calls = {stepped.backend.calls + 1}
    with pytest.raises(StorageUnavailable):
        stepped.ask(FindWorkflow("w"))


def test_crash_releases_nothing() -> None:
    """A process that ends before its commit has released nothing."""
    stepped = SteppedEngine()
    stepped.backend.plan = {1: Fault.CRASH_BEFORE}
    with pytest.raises(SimCrash):
        stepped.ask(call_of(worker(), "w"))
    assert stepped.log == []


def test_watcher_is_answered_with_the_end() -> None:
    """Callers that wait for an end get the record when it is committed, even if both are in one batch."""
    stepped = SteppedEngine()
    stepped.ask(call_of(waiter(), "w"))
    first, second, _, third = stepped.ask(AwaitEnd("w"), AwaitEnd("w"), event_of(go, 5), AwaitEnd("w"))
    assert {envelope.reply.status for envelope in (first, second, third)} == {WorkflowStatus.SUCCEEDED}
    (late,) = stepped.ask(AwaitEnd("w"))
    assert late.reply.result == "5"


def test_wait_for_the_end_of_an_unknown_workflow_is_refused() -> None:
    """Waiting for the end of an unknown workflow is an error, not an endless wait."""
    stepped = SteppedEngine()
    (watcher,) = stepped.ask(AwaitEnd("w"))
    assert isinstance(watcher.error, WorkflowNotFound)


def test_watcher_that_gave_up_is_forgotten() -> None:
    """A caller that gave up is not woken once another caller waits for the same end."""
    stepped = SteppedEngine()
    stepped.ask(call_of(waiter(), "w"))
    (gone,) = stepped.ask(AwaitEnd("w"))
    gone.is_abandoned = True
    (stays,) = stepped.ask(AwaitEnd("w"))
    stepped.ask(event_of(go, 5))
    assert gone.reply is None
    assert stays.reply.status is WorkflowStatus.SUCCEEDED


def test_rounds_are_a_commit_each() -> None:
    """A workflow that continues again and again holds up nobody: each round is its own batch."""
    stepped = SteppedEngine()
    stepped.run(stepped.letter(call_of(spinner(5), "a")), stepped.letter(call_of(waiter(), "b")))
    assert stepped.log[:2] == ["commit 1", "release"]
    assert {record.id for record in stepped.store.workflows.values()} == {"a", "b"}
    assert stepped.store.workflows[1].round == 1


def test_due_timers_come_with_the_next_batch() -> None:
    """A due timer fires with the next batch, before the queued calls."""
    stepped = SteppedEngine()
    stepped.ask(call_of(sleeper(60), "w"))
    stepped.clock.advance(60)
    lookup = stepped.letter(FindWorkflow("w"))
    stepped.run(lookup)
    assert lookup.reply.status is WorkflowStatus.SUCCEEDED


def test_due_timers_do_not_hold_up_the_operations_of_the_engine() -> None:
    """The engine's own operations run even if more timers are due than fit into a batch."""
    stepped = SteppedEngine(EngineConfig(max_batch=1))
    stepped.settle()
    for number in range(9):
        stepped.ask(call_of(sleeper(60), f"sleeper-{number}"))
    stepped.clock.advance(60)
    stepped.ask(call_of(spinner(2), "w"))
    for _ in range(4):
        stepped.coordinator.work_off()
    statuses = {record.id: record.status for record in stepped.store.workflows.values()}
    assert (statuses["w"], statuses["sleeper-8"]) == (WorkflowStatus.SUCCEEDED, WorkflowStatus.SUSPENDED)


def test_operations_nobody_waits_for_are_not_answered() -> None:
    """The engine's own operations release no answer."""
    stepped = SteppedEngine()
    stepped.ask(call_of(sleeper(60), "w"))
    stepped.released.clear()
    stepped.coordinator.process([ResumeWorkflow(1), DescribeWorkflow("w")])
    assert stepped.released == []


def test_rounds_go_on_without_a_call() -> None:
    """The follow-up of a commit is decided in the next batch, without any call."""
    stepped = SteppedEngine()
    stepped.coordinator.submit(stepped.letter(call_of(spinner(5), "w")))
    stepped.coordinator.submit(Envelope(AwaitEnd("w"), stepped.coordinator.stop))
    stepped.coordinator.run()
    assert stepped.store.workflows[1].result == "99"
    assert stepped.store.clean


def test_suspects_are_tried_by_the_coordinator() -> None:
    """After a crash, a workflow that runs an activity is on trial. A second crash at once is counted."""
    stepped = SteppedEngine()
    stepped.ask(call_of(worker(), "w"))
    for crashes in (1, 2):
        stepped = SteppedEngine(store=stepped.store)
        stepped.ask(RecoverWorkflows())
        assert stepped.store.suspects == {1: crashes}


def test_recovery_comes_before_timers_and_calls() -> None:
    """Until every running workflow has been recovered, no timer fires and no call is decided."""
    stepped = SteppedEngine()
    stepped.ask(call_of(sleeper(3), "s"), *(call_of(worker(), f"w{number}") for number in range(60)))
    stepped = SteppedEngine(store=stepped.store)
    stepped.clock.advance(3600)
    asked = stepped.letter(FindWorkflow("s"))
    stepped.coordinator.submit(asked)
    pages = 0
    while stepped.coordinator.is_recovering:
        pages += stepped.coordinator.work_off()
        assert asked.reply is None
        assert stepped.store.workflows[1].status is WorkflowStatus.SUSPENDED
    assert pages == 2
    stepped.settle()
    assert asked.reply.status is WorkflowStatus.SUCCEEDED


def test_stop_does_not_wait_for_the_recovery() -> None:
    """An engine that is stopped while it recovers leaves the rest to the next one."""
    stepped = SteppedEngine()
    stepped.ask(*(call_of(worker(), f"w{number}") for number in range(120)))
    stepped = SteppedEngine(store=stepped.store)
    stepped.coordinator.work_off()
    stepped.coordinator.stop()
    stepped.coordinator.run()
    assert stepped.coordinator.state.recovery.resumed == 100


def test_store_that_cannot_be_closed(caplog: pytest.LogCaptureFixture) -> None:
    """An error while the store closes is logged, and all callers are still answered."""
    stepped = SteppedEngine()

    class Sticky(MemoryBackend):
        def close(self) -> None:
            raise StorageUnavailable("sticky")

    sticky = Sticky(stepped.store)
    sticky.open("stepped")
    stepped.backend.inner = sticky
    stepped.run()
    assert "could not be closed" in caplog.text
    assert stepped.released[-1].is_last


def test_work_off_processes_the_queue_and_does_not_wait() -> None:
    """Without a thread, `work_off` processes one batch of queued operations, then their follow-ups, then nothing."""
    stepped = SteppedEngine()
    stepped.settle()
    assert not stepped.coordinator.has_work()
    stepped.coordinator.submit(stepped.letter(call_of(sleeper(10), "s")))
    stepped.coordinator.submit(stepped.letter(FindWorkflow("s")))
    assert stepped.coordinator.has_work()
    assert stepped.coordinator.work_off() == 2
    assert stepped.coordinator.work_off() == 0
    assert not stepped.coordinator.has_work()


def test_list_shows_what_was_decided_before_it() -> None:
    """A list that shares a batch with a due timer or a start shows their effect."""
    stepped = SteppedEngine()
    stepped.settle()
    ended = CountWorkflows(Workflows(statuses=(WorkflowStatus.SUCCEEDED,), limit=9))
    all = CountWorkflows(EVERY)
    stepped.ask(call_of(sleeper(3), "s"))
    stepped.clock.advance(3)
    letters = [stepped.letter(operation) for operation in (ended, call_of(sleeper(3), "t"), all)]
    for letter in letters:
        stepped.coordinator.submit(letter)
    assert stepped.coordinator.work_off() == 4
    assert (letters[0].reply, letters[2].reply) == (1, 2)


def test_list_that_is_refused_does_not_affect_its_batch() -> None:
    """A list that starts after an unknown workflow is refused, and the other list in its batch is answered."""
    refused, count = SteppedEngine().ask(ListWorkflows(EVERY, after="nobody"), CountWorkflows(EVERY))
    assert isinstance(refused.error, WorkflowNotFound)
    assert count.reply == 0


def test_due_timer_is_work() -> None:
    """The coordinator may nap until the next timer, and a due timer is work."""
    stepped = SteppedEngine()
    stepped.settle()
    assert stepped.coordinator.nap() == 5.0
    stepped.ask(call_of(sleeper(3), "s"))
    assert (stepped.coordinator.nap(), stepped.coordinator.has_work()) == (3.0, False)
    stepped.clock.advance(3)
    assert (stepped.coordinator.nap(), stepped.coordinator.has_work()) == (0.0, True)
    assert stepped.coordinator.work_off() == 1

"""The coordinator's order: decide, commit, release; and what it does when the store fails."""

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
    """An activity is stopped only when the end of its workflow is committed."""
    stepped = SteppedEngine()
    stepped.ask(call_of(worker(), "w"))
    stepped.log.clear()
    stepped.ask(TerminateWorkflow("w"))
    assert stepped.log == ["commit 2", "release", "wake caller"]
    assert [type(effect) for effect in stepped.released[-1].activities] == [StopActivity]


def test_question_commits_nothing() -> None:
    """A batch that changes nothing is answered without a commit, and keeps the batch number."""
    stepped = SteppedEngine()
    (found,) = stepped.ask(FindWorkflow("nobody"))
    assert found.reply is None
    assert stepped.log == ["release", "wake caller"]
    stepped.ask(call_of(waiter(), "w"))
    assert stepped.log[2] == "commit 1"


def test_batch_without_anything_releases_nothing() -> None:
    """A batch without operations neither commits nor releases."""
    stepped = SteppedEngine()
    stepped.ask()
    assert stepped.log == []


def test_starts_of_one_batch_ask_the_store_once() -> None:
    """Whether ids are taken is asked for all starts of a batch at once; the first of two equal ones begins it."""
    stepped = SteppedEngine()
    stepped.ask(call_of(waiter(), "old"))
    before = stepped.backend.calls
    fresh, again, known, other = stepped.ask(
        call_of(waiter(), "new"), call_of(waiter(), "new"), call_of(waiter(), "old"), call_of(worker(), "new")
    )
    assert stepped.backend.calls - before == 2, "the ids and the commit"
    assert fresh.reply.key == again.reply.key
    assert known.reply.id == "old"
    assert type(other.error).__name__ == "WorkflowAlreadyExists"


def test_refusal_is_the_callers_alone() -> None:
    """An operation that is refused does not keep the others of its batch from being done."""
    stepped = SteppedEngine()
    refused, done = stepped.ask(RemoveLetter(1), call_of(waiter(), "w"))
    assert type(refused.error).__name__ == "DeadLetterNotFound"
    assert done.error is None
    assert stepped.backend.workflow("w") is not None


@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.FAIL_AFTER])
def test_failed_commit_is_tried_again_unreleased(fault: Fault) -> None:
    """A commit that fails once, whether it happened or not, ends in one commit and one release."""
    stepped = SteppedEngine()
    stepped.backend.plan = {1: fault}
    stepped.ask(call_of(worker(), "w"))
    assert [line for line in stepped.log if line == "release"] == ["release"]
    assert stepped.backend.last_batch() == 1
    assert len(stepped.released[0].activities) == 1
    stepped.ask(event_of(go, 1))
    assert stepped.backend.last_batch() == 2


def test_unknown_outcome_is_asked_for_again() -> None:
    """While even the batch number cannot be read nothing is committed a second time."""
    stepped = SteppedEngine()
    stepped.backend.plan = {1: Fault.FAIL_AFTER}
    calls = stepped.backend.calls
    # The look-up of the id, the count of unstarted mail, the commit itself, then the question for the number.
    stepped.backend.fail_calls = set(range(calls + 4, calls + 7))
    stepped.ask(call_of(worker(), "w"))
    assert stepped.backend.commits == 1
    assert stepped.backend.last_batch() == 1


def test_patience_ends() -> None:
    """A store that stays broken stops the engine: callers of the batch, watchers and those queued are told."""
    stepped = SteppedEngine(EngineConfig(commit_patience=2.0))
    stepped.ask(call_of(waiter(), "w"))
    watcher, caller = stepped.letter(AwaitEnd("w")), stepped.letter(event_of(go, 1))
    stepped.coordinator.process([watcher])
    stepped.backend.plan = dict.fromkeys(range(2, 1000), Fault.FAIL_BEFORE)
    behind = stepped.letter(FindWorkflow("w"))
    stepped.run(caller, behind=(behind,))
    assert [type(one.error) for one in (watcher, caller, behind)] == [StorageUnavailable] * 3
    assert caller.reply == Delivered(("w",))
    assert isinstance(stepped.released[-1].end, StorageUnavailable)
    assert not stepped.store.clean
    assert stepped.store.workflows[1].status is WorkflowStatus.SUSPENDED


def test_superseded_engine_stops() -> None:
    """An engine whose store was taken over commits nothing more and says why it stopped."""
    stepped = SteppedEngine()
    MemoryBackend(stepped.store).open("another")
    caller = stepped.letter(call_of(waiter(), "w"))
    stepped.run(caller)
    assert isinstance(caller.error, StoreFenced)
    assert not stepped.store.workflows


def test_bug_of_ours_stops_the_engine(caplog: pytest.LogCaptureFixture) -> None:
    """A broken invariant is no answer to anybody: the engine stops, and nothing of the batch is stored."""
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
    """A broken invariant inside a decision leaves `process`, although it happened for one caller only."""
    stepped = SteppedEngine()
    (started,) = stepped.ask(call_of(worker(), "w"))
    ended = started.reply.with_status(WorkflowStatus.CANCELLED)
    stepped.coordinator.state.loaded[ended.key].record = ended
    with pytest.raises(InvariantViolated):
        stepped.ask(RecordActivity(key=ended.key, round=0, position="0", attempt=1, outcome="1", value=1))


def test_failed_read_stops_the_engine() -> None:
    """A read that fails in the middle of a decision is not answered to one caller: memory is thrown away."""
    stepped = SteppedEngine()
    stepped.backend.fail_calls = {stepped.backend.calls + 1}
    with pytest.raises(StorageUnavailable):
        stepped.ask(FindWorkflow("w"))


def test_crash_releases_nothing() -> None:
    """A process that ends before its commit has told nobody anything."""
    stepped = SteppedEngine()
    stepped.backend.plan = {1: Fault.CRASH_BEFORE}
    with pytest.raises(SimCrash):
        stepped.ask(call_of(worker(), "w"))
    assert stepped.log == []


def test_watcher_is_answered_with_the_end() -> None:
    """Those who wait for an end get the record when it is committed, also when both are in one batch."""
    stepped = SteppedEngine()
    stepped.ask(call_of(waiter(), "w"))
    first, second, _, third = stepped.ask(AwaitEnd("w"), AwaitEnd("w"), event_of(go, 5), AwaitEnd("w"))
    assert {one.reply.status for one in (first, second, third)} == {WorkflowStatus.SUCCEEDED}
    (late,) = stepped.ask(AwaitEnd("w"))
    assert late.reply.result == "5"


def test_watcher_of_nobody_is_refused() -> None:
    """Waiting for the end of a workflow that does not exist is an error and not an endless wait."""
    stepped = SteppedEngine()
    (watcher,) = stepped.ask(AwaitEnd("w"))
    assert isinstance(watcher.error, WorkflowNotFound)


def test_watcher_that_gave_up_is_forgotten() -> None:
    """A caller that no longer waits is not woken once somebody else has asked for the same end."""
    stepped = SteppedEngine()
    stepped.ask(call_of(waiter(), "w"))
    (gone,) = stepped.ask(AwaitEnd("w"))
    gone.is_abandoned = True
    (stays,) = stepped.ask(AwaitEnd("w"))
    stepped.ask(event_of(go, 5))
    assert gone.reply is None
    assert stays.reply.status is WorkflowStatus.SUCCEEDED


def test_rounds_are_a_commit_each() -> None:
    """A workflow that continues at once again and again holds up nobody: each round is a batch of its own."""
    stepped = SteppedEngine()
    stepped.run(stepped.letter(call_of(spinner(5), "a")), stepped.letter(call_of(waiter(), "b")))
    assert stepped.log[:2] == ["commit 1", "release"]
    assert {record.id for record in stepped.store.workflows.values()} == {"a", "b"}
    assert stepped.store.workflows[1].round == 1


def test_due_timers_come_with_the_next_batch() -> None:
    """A timer that is due fires with the next batch, before the calls that are queued."""
    stepped = SteppedEngine()
    stepped.ask(call_of(sleeper(60), "w"))
    stepped.clock.advance(60)
    found = stepped.letter(FindWorkflow("w"))
    stepped.run(found)
    assert found.reply.status is WorkflowStatus.SUCCEEDED


def test_due_timers_do_not_hold_up_the_operations_of_the_engine() -> None:
    """However many are due, and however small a batch is: what they wait for may be one of these operations."""
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
    """What follows from a commit is done in the next batch, without anybody having to call."""
    stepped = SteppedEngine()
    stepped.coordinator.submit(stepped.letter(call_of(spinner(5), "w")))
    stepped.coordinator.submit(Envelope(AwaitEnd("w"), stepped.coordinator.stop))
    stepped.coordinator.run()
    assert stepped.store.workflows[1].result == "99"
    assert stepped.store.clean


def test_suspects_are_tried_by_the_coordinator() -> None:
    """After an unclean stop whoever runs an activity is on trial; a second stop at once is counted."""
    stepped = SteppedEngine()
    stepped.ask(call_of(worker(), "w"))
    for crashes in (1, 2):
        stepped = SteppedEngine(store=stepped.store)
        stepped.ask(RecoverWorkflows())
        assert stepped.store.suspects == {1: crashes}


def test_recovery_comes_before_timers_and_calls() -> None:
    """Until every running workflow was looked over no timer fires and no call is taken."""
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
    """An engine that is told to stop while it recovers leaves the rest to the next one."""
    stepped = SteppedEngine()
    stepped.ask(*(call_of(worker(), f"w{number}") for number in range(120)))
    stepped = SteppedEngine(store=stepped.store)
    stepped.coordinator.work_off()
    stepped.coordinator.stop()
    stepped.coordinator.run()
    assert stepped.coordinator.state.recovery.resumed == 100


def test_store_that_cannot_be_closed(caplog: pytest.LogCaptureFixture) -> None:
    """A store that fails even to close is logged, and everybody is told all the same."""
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


def test_work_off_takes_what_is_there_and_does_not_wait() -> None:
    """Without a thread: one batch of what is queued, then of what follows from it, then nothing."""
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
    """A list that comes in one batch with a timer that is due, or with a start, shows what came of it."""
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


def test_list_that_is_refused_hurts_nobody_else() -> None:
    """A list after a workflow that does not exist is refused by itself."""
    refused, found = SteppedEngine().ask(ListWorkflows(EVERY, after="nobody"), CountWorkflows(EVERY))
    assert isinstance(refused.error, WorkflowNotFound)
    assert found.reply == 0


def test_timer_that_is_due_is_work() -> None:
    """How long the coordinator may nap follows from the next timer, which is work when its time has come."""
    stepped = SteppedEngine()
    stepped.settle()
    assert stepped.coordinator.nap() == 5.0
    stepped.ask(call_of(sleeper(3), "s"))
    assert (stepped.coordinator.nap(), stepped.coordinator.has_work()) == (3.0, False)
    stepped.clock.advance(3)
    assert (stepped.coordinator.nap(), stepped.coordinator.has_work()) == (0.0, True)
    assert stepped.coordinator.work_off() == 1

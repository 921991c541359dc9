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
from tests.engine.desk import call_of, event_of
from tests.engine.flows import go, sleeper, spinner, waiter, worker
from tests.engine.office import Office

EVERY = Workflows(limit=9)


def test_nothing_leaves_before_the_commit() -> None:
    """The reply of a start and its activity leave in one release, after the commit."""
    office = Office()
    office.ask(call_of(worker(), "a"), call_of(worker(), "b"))
    assert office.log == ["commit 1", "release", "wake caller", "wake caller"]
    assert [type(effect) for effect in office.released[0].activities] == [RunActivity, RunActivity]


def test_stop_of_an_activity_leaves_after_the_commit() -> None:
    """An activity is stopped only when the end of its workflow is committed."""
    office = Office()
    office.ask(call_of(worker(), "w"))
    office.log.clear()
    office.ask(TerminateWorkflow("w"))
    assert office.log == ["commit 2", "release", "wake caller"]
    assert [type(effect) for effect in office.released[-1].activities] == [StopActivity]


def test_question_commits_nothing() -> None:
    """A batch that changes nothing is answered without a commit, and keeps the batch number."""
    office = Office()
    (found,) = office.ask(FindWorkflow("nobody"))
    assert found.reply is None
    assert office.log == ["release", "wake caller"]
    office.ask(call_of(waiter(), "w"))
    assert office.log[2] == "commit 1"


def test_batch_without_anything_releases_nothing() -> None:
    """A batch without operations neither commits nor releases."""
    office = Office()
    office.ask()
    assert office.log == []


def test_starts_of_one_batch_ask_the_store_once() -> None:
    """Whether ids are taken is asked for all starts of a batch at once; the first of two equal ones begins it."""
    office = Office()
    office.ask(call_of(waiter(), "old"))
    before = office.backend.calls
    fresh, again, known, other = office.ask(
        call_of(waiter(), "new"), call_of(waiter(), "new"), call_of(waiter(), "old"), call_of(worker(), "new")
    )
    assert office.backend.calls - before == 2, "the ids and the commit"
    assert fresh.reply.key == again.reply.key
    assert known.reply.id == "old"
    assert type(other.error).__name__ == "WorkflowAlreadyExists"


def test_refusal_is_the_callers_alone() -> None:
    """An operation that is refused does not keep the others of its batch from being done."""
    office = Office()
    refused, done = office.ask(RemoveLetter(1), call_of(waiter(), "w"))
    assert type(refused.error).__name__ == "DeadLetterNotFound"
    assert done.error is None
    assert office.backend.workflow("w") is not None


@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.FAIL_AFTER])
def test_failed_commit_is_tried_again_unreleased(fault: Fault) -> None:
    """A commit that fails once, whether it happened or not, ends in one commit and one release."""
    office = Office()
    office.backend.plan = {1: fault}
    office.ask(call_of(worker(), "w"))
    assert [line for line in office.log if line == "release"] == ["release"]
    assert office.backend.last_batch() == 1
    assert len(office.released[0].activities) == 1
    office.ask(event_of(go, 1))
    assert office.backend.last_batch() == 2


def test_unknown_outcome_is_asked_for_again() -> None:
    """While even the batch number cannot be read nothing is committed a second time."""
    office = Office()
    office.backend.plan = {1: Fault.FAIL_AFTER}
    calls = office.backend.calls
    # The look-up of the id, the count of unstarted mail, the commit itself, then the question for the number.
    office.backend.fail_calls = set(range(calls + 4, calls + 7))
    office.ask(call_of(worker(), "w"))
    assert office.backend.commits == 1
    assert office.backend.last_batch() == 1


def test_patience_ends() -> None:
    """A store that stays broken stops the engine: callers of the batch, watchers and those queued are told."""
    office = Office(EngineConfig(commit_patience=2.0))
    office.ask(call_of(waiter(), "w"))
    watcher, caller = office.letter(AwaitEnd("w")), office.letter(event_of(go, 1))
    office.coordinator.process([watcher])
    office.backend.plan = dict.fromkeys(range(2, 1000), Fault.FAIL_BEFORE)
    behind = office.letter(FindWorkflow("w"))
    office.run(caller, behind=(behind,))
    assert [type(one.error) for one in (watcher, caller, behind)] == [StorageUnavailable] * 3
    assert caller.reply == Delivered(("w",))
    assert isinstance(office.released[-1].end, StorageUnavailable)
    assert not office.store.clean
    assert office.store.workflows[1].status is WorkflowStatus.SUSPENDED


def test_superseded_engine_stops() -> None:
    """An engine whose store was taken over commits nothing more and says why it stopped."""
    office = Office()
    MemoryBackend(office.store).open("another")
    caller = office.letter(call_of(waiter(), "w"))
    office.run(caller)
    assert isinstance(caller.error, StoreFenced)
    assert not office.store.workflows


def test_bug_of_ours_stops_the_engine(caplog: pytest.LogCaptureFixture) -> None:
    """A broken invariant is no answer to anybody: the engine stops, and nothing of the batch is stored."""
    office = Office()
    office.ask(call_of(waiter(), "w"))
    office.coordinator.state.batch.workflows_new[1] = office.store.workflows[1]
    caller = office.letter(call_of(waiter(), "x"))
    office.run(caller)
    assert isinstance(caller.error, StorageUnavailable)
    assert "InvariantViolated" in str(caller.error)
    assert office.backend.inner is not None
    assert len(office.store.workflows) == 1
    assert "the engine has stopped" in caplog.text


def test_invariant_in_a_decision_is_not_an_answer() -> None:
    """A broken invariant inside a decision leaves `process`, although it happened for one caller only."""
    office = Office()
    (started,) = office.ask(call_of(worker(), "w"))
    ended = started.reply.with_status(WorkflowStatus.CANCELLED)
    office.coordinator.state.loaded[ended.key].record = ended
    with pytest.raises(InvariantViolated):
        office.ask(RecordActivity(key=ended.key, round=0, position="0", attempt=1, outcome="1", value=1))


def test_failed_read_stops_the_engine() -> None:
    """A read that fails in the middle of a decision is not answered to one caller: memory is thrown away."""
    office = Office()
    office.backend.fail_calls = {office.backend.calls + 1}
    with pytest.raises(StorageUnavailable):
        office.ask(FindWorkflow("w"))


def test_crash_releases_nothing() -> None:
    """A process that ends before its commit has told nobody anything."""
    office = Office()
    office.backend.plan = {1: Fault.CRASH_BEFORE}
    with pytest.raises(SimCrash):
        office.ask(call_of(worker(), "w"))
    assert office.log == []


def test_watcher_is_answered_with_the_end() -> None:
    """Those who wait for an end get the record when it is committed, also when both are in one batch."""
    office = Office()
    office.ask(call_of(waiter(), "w"))
    first, second, _, third = office.ask(AwaitEnd("w"), AwaitEnd("w"), event_of(go, 5), AwaitEnd("w"))
    assert {one.reply.status for one in (first, second, third)} == {WorkflowStatus.SUCCEEDED}
    (late,) = office.ask(AwaitEnd("w"))
    assert late.reply.result == "5"


def test_watcher_of_nobody_is_refused() -> None:
    """Waiting for the end of a workflow that does not exist is an error and not an endless wait."""
    office = Office()
    (watcher,) = office.ask(AwaitEnd("w"))
    assert isinstance(watcher.error, WorkflowNotFound)


def test_watcher_that_gave_up_is_forgotten() -> None:
    """A caller that no longer waits is not woken once somebody else has asked for the same end."""
    office = Office()
    office.ask(call_of(waiter(), "w"))
    (gone,) = office.ask(AwaitEnd("w"))
    gone.is_abandoned = True
    (stays,) = office.ask(AwaitEnd("w"))
    office.ask(event_of(go, 5))
    assert gone.reply is None
    assert stays.reply.status is WorkflowStatus.SUCCEEDED


def test_rounds_are_a_commit_each() -> None:
    """A workflow that continues at once again and again holds up nobody: each round is a batch of its own."""
    office = Office()
    office.run(office.letter(call_of(spinner(5), "a")), office.letter(call_of(waiter(), "b")))
    assert office.log[:2] == ["commit 1", "release"]
    assert {record.id for record in office.store.workflows.values()} == {"a", "b"}
    assert office.store.workflows[1].round == 1


def test_due_timers_come_with_the_next_batch() -> None:
    """A timer that is due fires with the next batch, before the calls that are queued."""
    office = Office()
    office.ask(call_of(sleeper(60), "w"))
    office.clock.advance(60)
    found = office.letter(FindWorkflow("w"))
    office.run(found)
    assert found.reply.status is WorkflowStatus.SUCCEEDED


def test_due_timers_do_not_hold_up_the_operations_of_the_engine() -> None:
    """However many are due, and however small a batch is: what they wait for may be one of these operations."""
    office = Office(EngineConfig(max_batch=1))
    office.settle()
    for number in range(9):
        office.ask(call_of(sleeper(60), f"sleeper-{number}"))
    office.clock.advance(60)
    office.ask(call_of(spinner(2), "w"))
    for _ in range(4):
        office.coordinator.work_off()
    statuses = {record.id: record.status for record in office.store.workflows.values()}
    assert (statuses["w"], statuses["sleeper-8"]) == (WorkflowStatus.SUCCEEDED, WorkflowStatus.SUSPENDED)


def test_operations_nobody_waits_for_are_not_answered() -> None:
    """The engine's own operations release no answer."""
    office = Office()
    office.ask(call_of(sleeper(60), "w"))
    office.released.clear()
    office.coordinator.process([ResumeWorkflow(1), DescribeWorkflow("w")])
    assert office.released == []


def test_rounds_go_on_without_a_call() -> None:
    """What follows from a commit is done in the next batch, without anybody having to call."""
    office = Office()
    office.coordinator.submit(office.letter(call_of(spinner(5), "w")))
    office.coordinator.submit(Envelope(AwaitEnd("w"), office.coordinator.stop))
    office.coordinator.run()
    assert office.store.workflows[1].result == "99"
    assert office.store.clean


def test_suspects_are_tried_by_the_coordinator() -> None:
    """After an unclean stop whoever runs an activity is on trial; a second stop at once is counted."""
    office = Office()
    office.ask(call_of(worker(), "w"))
    for crashes in (1, 2):
        office = Office(store=office.store)
        office.ask(RecoverWorkflows())
        assert office.store.suspects == {1: crashes}


def test_recovery_comes_before_timers_and_calls() -> None:
    """Until every running workflow was looked over no timer fires and no call is taken."""
    office = Office()
    office.ask(call_of(sleeper(3), "s"), *(call_of(worker(), f"w{number}") for number in range(60)))
    office = Office(store=office.store)
    office.clock.advance(3600)
    asked = office.letter(FindWorkflow("s"))
    office.coordinator.submit(asked)
    pages = 0
    while office.coordinator.is_recovering:
        pages += office.coordinator.work_off()
        assert asked.reply is None
        assert office.store.workflows[1].status is WorkflowStatus.SUSPENDED
    assert pages == 2
    office.settle()
    assert asked.reply.status is WorkflowStatus.SUCCEEDED


def test_stop_does_not_wait_for_the_recovery() -> None:
    """An engine that is told to stop while it recovers leaves the rest to the next one."""
    office = Office()
    office.ask(*(call_of(worker(), f"w{number}") for number in range(120)))
    office = Office(store=office.store)
    office.coordinator.work_off()
    office.coordinator.stop()
    office.coordinator.run()
    assert office.coordinator.state.recovery.resumed == 100


def test_store_that_cannot_be_closed(caplog: pytest.LogCaptureFixture) -> None:
    """A store that fails even to close is logged, and everybody is told all the same."""
    office = Office()

    class Sticky(MemoryBackend):
        def close(self) -> None:
            raise StorageUnavailable("sticky")

    sticky = Sticky(office.store)
    sticky.open("office")
    office.backend.inner = sticky
    office.run()
    assert "could not be closed" in caplog.text
    assert office.released[-1].is_last


def test_work_off_takes_what_is_there_and_does_not_wait() -> None:
    """Without a thread: one batch of what is queued, then of what follows from it, then nothing."""
    office = Office()
    office.settle()
    assert not office.coordinator.has_work()
    office.coordinator.submit(office.letter(call_of(sleeper(10), "s")))
    office.coordinator.submit(office.letter(FindWorkflow("s")))
    assert office.coordinator.has_work()
    assert office.coordinator.work_off() == 2
    assert office.coordinator.work_off() == 0
    assert not office.coordinator.has_work()


def test_list_shows_what_was_decided_before_it() -> None:
    """A list that comes in one batch with a timer that is due, or with a start, shows what came of it."""
    office = Office()
    office.settle()
    ended = CountWorkflows(Workflows(statuses=(WorkflowStatus.SUCCEEDED,), limit=9))
    all = CountWorkflows(EVERY)
    office.ask(call_of(sleeper(3), "s"))
    office.clock.advance(3)
    letters = [office.letter(operation) for operation in (ended, call_of(sleeper(3), "t"), all)]
    for letter in letters:
        office.coordinator.submit(letter)
    assert office.coordinator.work_off() == 4
    assert (letters[0].reply, letters[2].reply) == (1, 2)


def test_list_that_is_refused_hurts_nobody_else() -> None:
    """A list after a workflow that does not exist is refused by itself."""
    refused, found = Office().ask(ListWorkflows(EVERY, after="nobody"), CountWorkflows(EVERY))
    assert isinstance(refused.error, WorkflowNotFound)
    assert found.reply == 0


def test_timer_that_is_due_is_work() -> None:
    """How long the coordinator may nap follows from the next timer, which is work when its time has come."""
    office = Office()
    office.settle()
    assert office.coordinator.nap() == 5.0
    office.ask(call_of(sleeper(3), "s"))
    assert (office.coordinator.nap(), office.coordinator.has_work()) == (3.0, False)
    office.clock.advance(3)
    assert (office.coordinator.nap(), office.coordinator.has_work()) == (0.0, True)
    assert office.coordinator.work_off() == 1

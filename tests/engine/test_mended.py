"""What the decisions once got wrong: each test is a fault that was mended."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from durable import DeadLetterPolicy, Durable, EngineConfig, Event, gather, race, sleep, workflow
from durable.backends.memory import MemoryBackend, MemoryStore
from durable.engine import operations as ops
from durable.errors import CodecError, StorageUnavailable
from durable.model.records import WorkflowRecord, WorkflowStatus
from durable.testing.faults import FaultyBackend
from tests.engine.desk import Desk, call_of
from tests.engine.flows import (
    EVERY,
    collector,
    go,
    other,
    parent_of_waiter,
    racer,
    sleeper,
    waiter,
    work,
    worker,
)


@workflow(name="mended.takes_foreign_id")
def takes_foreign_id() -> Durable[Any]:
    yield from work(1)
    won = yield from race(event=other.wait(), child=waiter().with_id("stranger"))
    yield from sleep(100)
    return won.key


def test_stranger_is_not_cancelled() -> None:
    """A child call that is withdrawn before it was started cancels nobody who happens to have the child's id."""
    desk = Desk(*EVERY, takes_foreign_id)
    desk.start(waiter(), "stranger")
    desk.start(takes_foreign_id())
    desk.send(other, 1)
    desk.finish(desk.activities[0], 1)
    assert desk.status("stranger") is WorkflowStatus.SUSPENDED


def _waits_for(event: Event[Any]) -> Any:
    @workflow(name="mended.changing")
    def changing() -> Durable[Any]:
        return (yield from event.wait())

    return changing


def test_event_of_another_name_is_not_delivered() -> None:
    """A wait whose code now asks for another event does not get the one that it was registered for."""
    desk = Desk(_waits_for(go), checks=False)
    desk.start(_waits_for(go)())
    desk.restart(_waits_for(other))
    desk.send(go, 1)
    assert desk.status() is WorkflowStatus.SUSPENDED
    assert desk.pending("go") == 1


@workflow(name="mended.changing")
def now_works() -> Durable[Any]:
    return (yield from work(1))


def test_event_is_not_recorded_as_the_result_of_an_activity() -> None:
    """A wait that has become an activity is not answered by the event it was registered for."""
    desk = Desk(_waits_for(go), checks=False)
    desk.start(_waits_for(go)())
    desk.restart(now_works)
    desk.send(go, 1)
    assert desk.status() is WorkflowStatus.RUNNING
    assert desk.history() == []


def test_failed_read_does_not_park() -> None:
    """A read that fails while a workflow is loaded stops the engine; it does not park a healthy workflow."""
    store = MemoryStore()
    faulty = FaultyBackend(MemoryBackend(store))
    desk = Desk(*EVERY, make=lambda: faulty, checks=False)
    desk.start(worker())
    desk.restart(*EVERY, recover=False)
    key = desk.record().key
    faulty.fail_calls = {faulty.calls + 2}
    with pytest.raises(StorageUnavailable):
        desk.do(ops.ResumeWorkflow(key))


def test_broadcast_that_one_cannot_read_is_not_lost() -> None:
    """A broadcast that a waiter cannot read is a dead letter for it, and stays for those who can read it."""
    texts = Event[str]("news", consume_on_read=False)
    numbers = Event[int]("news", consume_on_read=False)
    desk = Desk(_waits_for(numbers))
    desk.start(_waits_for(numbers)())
    desk.send(texts, "text")
    assert desk.status() is WorkflowStatus.SUSPENDED
    assert [letter.is_broadcast for letter in desk.letters()] == [True]
    desk.restart(_waits_for(texts))
    desk.start(_waits_for(texts)(), "other")
    assert desk.result("other") == "text"


@workflow(name="mended.two_types")
def two_types() -> Durable[Any]:
    yield from gather(Event[int]("e").wait(), Event[str]("e").wait())


def test_event_goes_to_the_wait_that_can_read_it() -> None:
    """An event that one wait of a workflow cannot read is taken by another wait that can."""
    desk = Desk(two_types)
    desk.start(two_types())
    desk.do(ops.SendEvent(name="e", payload='"text"', to="w"))
    assert [entry.position for entry in desk.history()] == ["0.1.0"]
    assert desk.letters() == []


def test_terminate_of_an_evicted_parent_cancels_its_child() -> None:
    """Terminating a workflow cancels the child it waits for, whether its body is in memory or not."""
    for room in (1000, 1):
        desk = Desk(*EVERY, config=EngineConfig(max_loaded_workflows=room))
        desk.start(racer())
        desk.start(sleeper(), "elsewhere")
        desk.do(ops.TerminateWorkflow("w"))
        assert desk.status("w/0.child.0") is WorkflowStatus.CANCELLED, room


def test_mailbox_with_several_names_is_buried_whole() -> None:
    """A mailbox with several names loses nothing when its workflow ends."""
    desk = Desk(*EVERY, config=EngineConfig(max_pending_events=2))
    desk.start(sleeper())
    desk.send(go, 1, to="w")
    desk.send(other, 1, to="w")
    desk.advance(60)
    assert {letter.name for letter in desk.letters()} == {"go", "other"}


def test_lower_limit_loses_no_mail() -> None:
    """Mail that becomes untargeted is never refused for lack of room: it was accepted before."""
    policy = DeadLetterPolicy.MOVE_TO_BROADCAST
    desk = Desk(*EVERY, config=EngineConfig(dead_letter_policy=policy))
    desk.start(sleeper())
    for number in range(3):
        desk.send(go, number, to="w")
    desk.config = EngineConfig(dead_letter_policy=policy, max_pending_events=1)
    desk.restart(*EVERY)
    desk.advance(60)
    assert desk.pending("go") == 3


def test_recover_blames_no_workflow_that_began_later() -> None:
    """A workflow that was started after an unclean stop did not cause it."""
    desk = Desk(*EVERY, config=EngineConfig(max_loaded_workflows=1))
    desk.restart(*EVERY, clean=False)
    desk.start(worker(), "a")
    desk.start(worker(), "b")
    desk.recover()
    assert desk.suspects() == []


def test_sweep_leaves_adopted_mail_alone() -> None:
    """A sweep in the batch in which old mail is adopted neither takes it away nor miscounts what is pending."""
    desk = Desk(*EVERY)
    desk.send(go, 1, to="w", allow_unstarted=True)
    desk.send(go, 2, to="later", allow_unstarted=True)
    desk.clock.advance(8 * 86400)
    desk.send(go, 3, to="fresh", allow_unstarted=True)
    desk.batch(call_of(sleeper(), "w"), ops.SweepEvents())
    desk.start(collector(1), "fresh")
    assert desk.result("fresh") == [3]


def test_newline_in_an_id_is_part_of_the_first_answer() -> None:
    """The first answer of an event id comes back the same, also for an id with a line break."""
    desk = Desk(*EVERY)
    desk.start(waiter(), "a\nb")
    first = desk.send(go, 1, to="a\nb", event_id="x")
    assert desk.send(go, 1, to="a\nb", event_id="x") == first


def test_unreadable_child_error_parks_the_parent() -> None:
    """A child whose stored error cannot be read parks its parent, which would otherwise hang without a reason."""
    store = MemoryStore()
    desk = Desk(*EVERY, make=lambda: MemoryBackend(store), checks=False)
    desk.start(racer())
    desk.start(waiter(), "z")
    child = desk.record("w/0.child.0")
    spoilt = attrs.evolve(child, status=WorkflowStatus.FAILED, error="{", finished_at=1)
    store.workflows[child.key] = spoilt
    desk.restart(*EVERY)
    desk.batch(ops.ResumeWorkflow(desk.record().key))
    assert desk.status() is WorkflowStatus.PARKED


def test_terminate_of_one_that_ends_under_new_code() -> None:
    """A terminate runs nothing, so it ends a workflow that the new code would have brought to its end."""

    @workflow(name="desk.waiter")
    def ended() -> Durable[int]:
        return 3
        yield from sleep(1)

    desk = Desk(*EVERY)
    desk.start(waiter())
    desk.restart(ended)
    assert desk.do(ops.TerminateWorkflow("w")) is True
    assert desk.status() is WorkflowStatus.CANCELLED


def test_start_after_the_purge_of_its_id_in_one_batch() -> None:
    """A workflow that begins in the batch that purges its namesake is a new one, and stays."""
    desk = Desk(*EVERY)
    desk.start(waiter())
    desk.cancel()
    desk.advance(60)
    _, begun = desk.two(ops.PurgeWorkflows(desk.clock.now()), call_of(waiter(), "w"), together=True)
    assert begun.status is WorkflowStatus.RUNNING
    assert desk.status() is WorkflowStatus.SUSPENDED


class Damaged(MemoryBackend):
    """A store in which one row cannot be read."""

    bad_key = 0

    def workflow_by_key(self, key: int) -> WorkflowRecord | None:
        if key == self.bad_key:
            raise CodecError(f"workflow key {key}", "it is damaged")
        return super().workflow_by_key(key)


def test_child_ends_although_its_parents_row_is_damaged() -> None:
    """A parent that cannot be read is not woken, and its child ends all the same."""
    backend = Damaged()
    desk = Desk(*EVERY, make=lambda: backend, checks=False)
    parent = desk.start(parent_of_waiter())
    desk.state.unload(parent.key)
    backend.bad_key = parent.key
    desk.send(go, 7, to="w/0")
    assert desk.status("w/0") is WorkflowStatus.SUCCEEDED


def test_taken_event_behind_one_that_waits_is_passed_over() -> None:
    """What this batch has taken is not given out again, also where an older event of the queue stays."""
    desk = Desk(*EVERY)
    for payload in (1, 2):
        desk.send(go, payload)
    first, second = desk.state.post.events_for(go.name, "", None)
    desk.state.post.drop_event(second)
    assert list(desk.state.post.events_for(go.name, "", None)) == [first]

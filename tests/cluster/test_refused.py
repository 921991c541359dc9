"""What does not work across shards yet, and operations sent to the wrong shard: refused with a clear error."""

from __future__ import annotations

import json

import pytest

from durable import WorkflowEngine
from durable.backends.base import Inbox, StoredLetter
from durable.backends.memory import MemoryBackend, MemoryStore
from durable.engine import operations as ops
from durable.engine.coordinator.inbox import Envelope
from durable.engine.operations.messages import ParentEnded
from durable.errors import NotAcrossShards, WrongShard
from durable.model.schedule import Job, Plan
from tests.cluster.flows import EVERY, child
from tests.cluster.kit import Cluster, id_at, key_at, schedule_at
from tests.engine.direct import call_of

HERE, ELSEWHERE = id_at(0, 2), id_at(1, 2)
SCHEDULE = schedule_at(1, 2)
JOB = Job(plan=Plan.of(None, 60), workflow="cluster.child", input="{}")


@pytest.mark.parametrize(
    "operation",
    [
        call_of(child(), ELSEWHERE),
        ops.CancelWorkflow(ELSEWHERE),
        ops.FindWorkflow(ELSEWHERE),
        ops.ResumePause(ELSEWHERE, "0", "1"),
        ops.SendEvent(name="go", payload="1", to=ELSEWHERE),
        ops.SendEvent(name="go", event_key=key_at("go", 1, 2), payload="1"),
        ops.ForkWorkflow(HERE, "0", ELSEWHERE),
        ops.RemoveEvent(7),
        ops.RemoveLetter(7),
        ops.PauseSchedule(SCHEDULE),
    ],
    ids=lambda operation: type(operation).__name__,
)
def test_operation_for_another_shard(operation: ops.Operation[object]) -> None:
    """An operation for a workflow of another shard is refused, and the error names that shard."""
    cluster = Cluster(*EVERY)
    answered: list[Envelope] = []
    envelope = Envelope(operation, lambda: answered.append(envelope))
    cluster.coordinators[0].submit(envelope)
    cluster.work(0)
    assert isinstance(envelope.error, WrongShard)
    assert (envelope.error.home, envelope.error.shard) == (1, 0)


def test_schedule() -> None:
    """A schedule is refused, because its runs would live in other shards."""
    cluster = Cluster(*EVERY)
    with pytest.raises(NotAcrossShards):
        cluster.ask(ops.CreateSchedule(name=schedule_at(0, 2), job=JOB, definition=child))


@pytest.mark.parametrize("is_here", [True, False])
def test_fork_of_a_workflow_elsewhere(is_here: bool) -> None:
    """A fork into another shard is refused, because it needs everything that its source has."""
    cluster = Cluster(*EVERY)
    cluster.start(child(), HERE)
    cluster.finish(HERE, 5)
    fork = ops.ForkWorkflow(HERE, "0", id_at(0 if is_here else 1, 2, "fork"))
    if is_here:
        assert cluster.ask(fork) is None
    else:
        with pytest.raises(NotAcrossShards):
            cluster.ask(fork)


@pytest.mark.anyio
async def test_engine_on_one_shard_of_several() -> None:
    """An engine refuses a store with several shards, and releases it."""
    store = MemoryStore.sharded(2)[0]
    with pytest.raises(NotAcrossShards):
        async with WorkflowEngine(MemoryBackend(store), workflows=[]):
            raise AssertionError("it was opened")


def test_letter_that_nobody_can_read_is_set_aside() -> None:
    """An unreadable letter is set aside, and those after it are handled."""
    cluster = Cluster(*EVERY)
    backend = cluster.coordinators[0].state.backend
    cluster.deliver_text(0, json.dumps({"message": "newer", "fields": {}}))
    cluster.deliver(0, ParentEnded(3, "p"))
    assert cluster.inbox(0) == []
    aside = backend.find(Inbox(set_aside=True, limit=9))
    assert [type(letter) for letter in aside] == [StoredLetter]

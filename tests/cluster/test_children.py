"""A child in another shard than its parent, with letters in every order and crashes in between."""

from __future__ import annotations

import attrs
import pytest

from durable import WorkflowStatus
from durable.engine.operations import RetryWorkflow
from durable.engine.operations.messages import CancelChild, ChildEnded, RetryChild, StartChild, WaitId
from durable.errors import CannotRetry
from durable.model.error_codec import error_summary
from durable.model.records import CancelCause, EntryStatus
from tests.cluster.flows import EVERY, broken, caller, hasty, impatient, shy, spawner, stopper
from tests.cluster.kit import Cluster, id_at

PARENT, CHILD = id_at(0, 2, "parent"), id_at(1, 2, "child")


@pytest.mark.parametrize("restart", [(), (0,), (1,), (0, 1)], ids=str)
def test_call_elsewhere(restart: tuple[int, ...]) -> None:
    """The child runs in its own shard, and its parent gets its result, whichever shards restart in between."""
    cluster = Cluster(*EVERY)
    cluster.start(caller(CHILD), PARENT)
    assert [type(letter) for letter in cluster.letters(1)] == [StartChild]
    for shard in restart:
        cluster.open(shard)
    cluster.settle()
    for shard in restart:
        cluster.open(shard)
    cluster.finish(CHILD, 5)
    assert [type(letter) for letter in cluster.letters(0)] == [ChildEnded]
    for shard in restart:
        cluster.open(shard)
    cluster.settle()
    assert cluster.result(PARENT) == 5
    assert cluster.guests(1) == 0


def test_child_that_fails_elsewhere() -> None:
    """A parent fails with ChildWorkflowFailed if its child in another shard fails."""
    cluster = Cluster(*EVERY)
    cluster.start(caller(CHILD, "failing"), PARENT)
    cluster.settle()
    assert cluster.status(PARENT) is WorkflowStatus.FAILED
    assert error_summary(cluster.record(PARENT).error or "")[0] == "durable.ChildWorkflowFailed"


def test_body_runs_after_the_commit_of_its_row() -> None:
    """A child is stored before its first step, so it can be blamed if that step kills the process."""
    cluster = Cluster(*EVERY)
    cluster.start(caller(CHILD), PARENT)
    cluster.work(1)
    assert cluster.status(CHILD) is WorkflowStatus.RUNNING
    assert not cluster.running


def test_call_that_is_withdrawn() -> None:
    """A withdrawn child is cancelled in its own shard, and an end that crosses the cancel is ignored."""
    cluster = Cluster(*EVERY)
    cluster.start(impatient(CHILD), PARENT)
    cluster.settle(1)
    cluster.advance(11, 0)
    assert cluster.result(PARENT) == -1
    assert CancelChild in {type(letter) for letter in cluster.letters(1)}
    cluster.settle()
    assert cluster.status(CHILD) is WorkflowStatus.CANCELLED


@pytest.mark.parametrize("child_first", [True, False])
def test_spawned_child_that_ends_before_it_is_awaited(child_first: bool) -> None:
    """The parent gets the child's result whether it asks before or after the end."""
    cluster = Cluster(*EVERY)
    cluster.start(spawner(CHILD), PARENT)
    cluster.settle()
    if child_first:
        cluster.finish(CHILD, 5)
    cluster.advance(6)
    if not child_first:
        cluster.finish(CHILD, 5)
    cluster.settle()
    assert cluster.result(PARENT) == 5


@pytest.mark.parametrize(("closes", "status"), [("keep", WorkflowStatus.RUNNING), ("cancel", WorkflowStatus.CANCELLED)])
@pytest.mark.parametrize("is_started", [True, False])
def test_parent_that_ends_while_its_child_starts(closes: str, status: WorkflowStatus, is_started: bool) -> None:
    """The end of a parent arrives after the start of its child, and cancels a tied child."""
    cluster = Cluster(*EVERY)
    cluster.start(spawner(CHILD, closes), PARENT)
    if is_started:
        cluster.settle()
    cluster.cancel(PARENT)
    cluster.settle()
    assert cluster.status(PARENT) is WorkflowStatus.CANCELLED
    # A child whose start was not confirmed is withdrawn, because nobody has its handle.
    assert cluster.status(CHILD) is (status if is_started else WorkflowStatus.CANCELLED)


@pytest.mark.parametrize("has_ended", [True, False])
def test_spawned_child_that_is_cancelled(has_ended: bool) -> None:
    """The body is told whether the child was still running."""
    cluster = Cluster(*EVERY)
    cluster.start(stopper(CHILD), PARENT)
    cluster.settle()
    if has_ended:
        cluster.finish(CHILD, 5)
    cluster.advance(6, 0)
    cluster.settle()
    assert cluster.result(PARENT) is not has_ended


def test_id_that_is_taken() -> None:
    """A child whose id is taken is refused, and its parent fails."""
    cluster = Cluster(*EVERY)
    cluster.start(caller(CHILD, "instant"), PARENT)
    second_parent = id_at(0, 2, "other")
    cluster.start(caller(CHILD, "instant"), second_parent)
    cluster.settle()
    assert sorted([cluster.status(PARENT).value, cluster.status(second_parent).value]) == ["failed", "succeeded"]


def test_end_for_a_parked_parent_is_kept() -> None:
    """A child's end that arrives while the parent's code is missing is fed when the code is back."""
    cluster = Cluster(*EVERY)
    cluster.start(caller(CHILD), PARENT)
    cluster.settle()
    cluster.finish(CHILD, 5)
    cluster.open(0, workflows=())
    cluster.settle()
    assert cluster.status(PARENT) is WorkflowStatus.PARKED
    assert cluster.letters(0) == []
    cluster.open(0)
    cluster.settle()
    assert cluster.result(PARENT) == 5


# --- retried parents --------------------------------------------------------------------------------------------------


def _failed(cluster: Cluster) -> None:
    """A parent that failed because its child in another shard failed."""
    cluster.start(caller(CHILD), PARENT)
    cluster.settle()
    cluster.fail(CHILD)
    cluster.settle()
    assert cluster.status(PARENT) is cluster.status(CHILD) is WorkflowStatus.FAILED


@pytest.mark.parametrize("restart", [(), (0, 1)], ids=str)
def test_retry_takes_a_failed_child_along(restart: tuple[int, ...]) -> None:
    """The child continues where it failed, and the parent gets its new end, not the old one."""
    cluster = Cluster(*EVERY)
    _failed(cluster)
    assert cluster.ask(RetryWorkflow(PARENT)) is None
    for shard in restart:
        cluster.open(shard)
    cluster.settle()
    assert cluster.status(CHILD) is WorkflowStatus.RUNNING
    cluster.finish(CHILD, 5)
    cluster.settle()
    assert cluster.result(PARENT) == 5


def test_retry_while_a_cancel_travels_is_refused() -> None:
    """A retry is refused while a cancel travels to the child, because how the child ends is not known yet."""
    cluster = Cluster(*EVERY)
    cluster.start(broken(CHILD), PARENT)
    cluster.settle()
    cluster.fail(PARENT)
    assert cluster.status(PARENT) is WorkflowStatus.FAILED
    assert isinstance(cluster.ask(RetryWorkflow(PARENT)), CannotRetry)
    cluster.settle()
    assert cluster.status(CHILD) is WorkflowStatus.CANCELLED
    assert cluster.ask(RetryWorkflow(PARENT)) is None
    cluster.settle()
    assert cluster.status(CHILD) is WorkflowStatus.RUNNING


def test_end_for_an_old_wait_is_ignored() -> None:
    """A child's end for a wait that is over changes nothing."""
    cluster = Cluster(*EVERY)
    _failed(cluster)
    old = cluster.record(PARENT).key
    cluster.ask(RetryWorkflow(PARENT))
    cluster.settle()
    (row,) = cluster.stores[0].waits[old].values()
    late = ChildEnded(WaitId(old, row.position, row.serial - 2), EntryStatus.OK, "6")
    cluster.deliver(0, late)
    assert cluster.status(PARENT) is WorkflowStatus.SUSPENDED
    cluster.finish(CHILD, 5)
    cluster.settle()
    assert cluster.result(PARENT) == 5


def test_retry_takes_a_failed_spawned_child_along() -> None:
    """A spawned child that the parent awaits is retried with it, like a called one."""
    cluster = Cluster(*EVERY)
    cluster.start(spawner(CHILD), PARENT)
    cluster.settle()
    cluster.advance(6)
    cluster.fail(CHILD)
    cluster.settle()
    assert cluster.status(PARENT) is WorkflowStatus.FAILED
    assert cluster.ask(RetryWorkflow(PARENT)) is None
    cluster.settle()
    cluster.finish(CHILD, 5)
    cluster.settle()
    assert cluster.result(PARENT) == 5


def test_retry_starts_tied_children_again() -> None:
    """A tied child starts again with its parent, once it is known to have ended."""
    cluster = Cluster(*EVERY)
    cluster.start(hasty(CHILD, "cancel"), PARENT)
    cluster.settle()
    cluster.advance(11)
    cluster.fail(PARENT)
    assert isinstance(cluster.ask(RetryWorkflow(PARENT)), CannotRetry)
    cluster.settle()
    assert cluster.status(CHILD) is WorkflowStatus.CANCELLED
    assert cluster.ask(RetryWorkflow(PARENT)) is None
    cluster.settle()
    assert cluster.status(CHILD) is WorkflowStatus.RUNNING


@pytest.mark.parametrize("is_damaged", [True, False])
def test_retry_of_a_child_that_is_gone(is_damaged: bool) -> None:
    """A retried parent whose child is gone gets WorkflowNotFound, and a retry that nobody awaits is ignored."""
    cluster = Cluster(*EVERY)
    _failed(cluster)
    store = cluster.stores[1]
    key = store.keys[CHILD]
    assert cluster.ask(RetryWorkflow(PARENT)) is None
    changes = {"is_damaged": True} if is_damaged else {"parent_key": 77}
    store.workflows[key] = attrs.evolve(store.workflows[key], **changes)
    cluster.open(1)
    cluster.deliver(1, RetryChild(None, CHILD, cluster.record(PARENT).key, None))
    cluster.settle()
    assert cluster.status(PARENT) is WorkflowStatus.FAILED
    assert error_summary(cluster.record(PARENT).error or "")[0] == "durable.WorkflowNotFound"


def test_retry_of_a_child_that_cannot_continue() -> None:
    """A child that cannot continue stays failed, and its parent is told of its end again."""
    cluster = Cluster(*EVERY)
    _failed(cluster)
    assert cluster.ask(RetryWorkflow(PARENT)) is None
    cluster.open(1, workflows=())
    cluster.settle()
    assert cluster.status(CHILD) is cluster.status(PARENT) is WorkflowStatus.FAILED


def test_retry_of_a_child_that_was_retried_before() -> None:
    """If an operator retried the child first, its parent waits for it."""
    cluster = Cluster(*EVERY)
    _failed(cluster)
    cluster.ask(RetryWorkflow(PARENT))
    cluster.ask(RetryWorkflow(CHILD))
    cluster.settle()
    cluster.finish(CHILD, 5)
    cluster.settle()
    assert cluster.result(PARENT) == 5


# --- waits that are withdrawn -----------------------------------------------------------------------------------------


def test_withdrawn_child_in_the_same_shard() -> None:
    """A withdrawn child in the parent's shard is cancelled in the same decision, without a letter."""
    cluster = Cluster(*EVERY)
    here = id_at(0, 2, "here")
    cluster.start(impatient(here), PARENT)
    cluster.advance(11, 0)
    assert cluster.result(PARENT) == -1
    assert cluster.status(here) is WorkflowStatus.CANCELLED
    assert cluster.letters(1) == []


def test_withdrawn_wait_for_the_end() -> None:
    """If a wait for the end of a spawned child is withdrawn, the child continues and its shard forgets the wait."""
    cluster = Cluster(*EVERY)
    cluster.start(hasty(CHILD), PARENT)
    cluster.settle()
    assert cluster.guests(1) == 1
    cluster.advance(11)
    assert cluster.guests(1) == 0
    assert cluster.status(CHILD) is WorkflowStatus.RUNNING


def test_withdrawn_spawn() -> None:
    """A child is cancelled if its spawn is withdrawn, because nobody has its handle."""
    cluster = Cluster(*EVERY)
    cluster.start(shy(CHILD), PARENT)
    cluster.advance(2, 0)
    assert cluster.result(PARENT) == 1
    cluster.settle()
    assert cluster.status(CHILD) is WorkflowStatus.CANCELLED


def test_cancel_and_retry_without_effect() -> None:
    """A cancelled child is not cancelled again, and a running one is not retried."""
    cluster = Cluster(*EVERY)
    cluster.start(caller(CHILD), PARENT)
    cluster.settle()
    key = cluster.record(PARENT).key
    cluster.deliver(1, RetryChild(None, CHILD, key, None))
    assert cluster.status(CHILD) is WorkflowStatus.RUNNING
    cancel = CancelChild(CHILD, key, PARENT, "0", CancelCause.NOT_AWAITED)
    cluster.deliver(1, cancel)
    cluster.deliver(1, cancel)
    assert cluster.status(CHILD) is WorkflowStatus.CANCELLED


def test_wait_that_was_dropped_in_the_same_batch() -> None:
    """A wait that the open batch dropped is not read from the store."""
    cluster = Cluster(*EVERY)
    cluster.start(caller(CHILD), PARENT)
    cluster.settle()
    waits, key = cluster.coordinators[1].state.waits, cluster.record(PARENT).key
    assert waits.at(key, "0") is not None
    waits.drop(key, "0")
    assert waits.at(key, "0") is None

"""Untargeted events whose home is another shard than the waiter's, and events that bodies send."""

from __future__ import annotations

import pytest

from durable import Delivered, Queued, WorkflowStatus
from durable.backends.base import Letters
from durable.engine.operations import ReplayLetter, SendEvent, TerminateWorkflow
from durable.engine.operations.messages import EventOffered, EventReturned, WaitRegistered, WaitWithdrawn
from durable.errors import WorkflowNotFound
from tests.cluster.flows import EVERY, brief, fickle, fresh, go, news, patient, sender, timid, twice, waiter
from tests.cluster.kit import Cluster, id_at, key_at

# The workflow lives in shard 0, the event in shard 1.
W, OTHER = id_at(0, 2), id_at(0, 2, "other")
HERE = id_at(1, 2, "here")
KEY = key_at("go", 1, 2)


def kinds(cluster: Cluster, shard: int) -> list[type]:
    """The types of the letters in an inbox."""
    return [type(letter) for letter in cluster.letters(shard)]


@pytest.mark.parametrize("restart", [(), (0,), (1,), (0, 1)], ids=str)
@pytest.mark.parametrize("is_sent_first", [True, False])
def test_event_reaches_a_wait_elsewhere(restart: tuple[int, ...], is_sent_first: bool) -> None:
    """An event meets a wait of another shard, whichever comes first and whichever shards restart in between."""
    cluster = Cluster(*EVERY)
    if is_sent_first:
        assert cluster.send(go, 5, key=KEY) == Queued()
    cluster.start(waiter(KEY), W)
    for shard in restart:
        cluster.open(shard)
    if not is_sent_first:
        cluster.settle()
        assert cluster.send(go, 5, key=KEY) == Queued()
    for shard in restart:
        cluster.open(shard)
    cluster.settle()
    assert cluster.result(W) == 5
    assert cluster.pending() == cluster.guests(1) == 0


def test_home_reads_its_letters_before_it_decides_an_event() -> None:
    """A wait that was registered before the event was sent gets it, even if its letter was not read yet."""
    cluster = Cluster(*EVERY)
    cluster.start(waiter(KEY), W)
    assert kinds(cluster, 1) == [WaitRegistered]
    cluster.send(go, 5, key=KEY)
    assert kinds(cluster, 0) == [EventOffered]


def test_longest_wait_is_served() -> None:
    """Waits of this shard and of others queue in the order in which they were registered."""
    cluster = Cluster(*EVERY)
    cluster.start(waiter(KEY), W)
    cluster.settle()
    cluster.start(waiter(KEY), HERE)
    cluster.start(waiter(KEY), OTHER)
    cluster.settle()
    assert cluster.send(go, 1, key=KEY) == Queued()
    assert cluster.send(go, 2, key=KEY) == Delivered((HERE,))
    assert cluster.send(go, 3, key=KEY) == Queued()
    cluster.settle()
    assert [cluster.result(id) for id in (W, HERE, OTHER)] == [1, 2, 3]


def test_offer_to_a_workflow_that_has_ended_returns() -> None:
    """An offer to an ended workflow returns, and the event is pending again."""
    cluster = Cluster(*EVERY)
    cluster.start(waiter(KEY), W)
    cluster.settle()
    cluster.send(go, 5, key=KEY)
    offer = cluster.stores[0].letterbox.inbox(0).popitem()
    cluster.cancel(W)
    cluster.stores[0].letterbox.inbox(0)[offer[0]] = offer[1]
    cluster.work(0)
    assert kinds(cluster, 1) == [WaitWithdrawn, EventReturned]
    cluster.settle()
    assert cluster.pending() == 1
    cluster.start(waiter(KEY), OTHER)
    cluster.settle()
    assert cluster.result(OTHER) == 5


def test_terminated_workflow_withdraws_its_wait() -> None:
    """When a workflow is terminated, the home of its event forgets the wait, and the next event stays pending."""
    cluster = Cluster(*EVERY)
    cluster.start(waiter(KEY), W)
    cluster.settle()
    assert cluster.guests(1) == 1
    cluster.ask(TerminateWorkflow(W))
    assert kinds(cluster, 1) == [WaitWithdrawn]
    cluster.settle()
    cluster.send(go, 5, key=KEY)
    assert (cluster.guests(1), cluster.pending()) == (0, 1)


def test_wait_that_is_opened_again_takes_the_event_once() -> None:
    """If a wait is withdrawn and opened again while an offer travels, the event returns and is offered again."""
    cluster = Cluster(*EVERY)
    cluster.start(fickle(KEY), W)
    cluster.settle()
    cluster.send(go, 5, key=KEY)
    cluster.advance(11)
    cluster.advance(11)
    cluster.advance(11)
    assert sorted(cluster.result(W), key=str) == [5, None, None]
    assert cluster.pending() == 0


def test_offer_that_expires_on_the_way() -> None:
    """An offer that expires on its way is gone, and the wait is registered again for the next event."""
    cluster = Cluster(*EVERY)
    key = key_at("brief", 1, 2)
    cluster.start(waiter(key, "brief"), W)
    cluster.settle()
    cluster.send(brief, 5, key=key)
    cluster.clock.advance(61)
    cluster.settle()
    assert cluster.status(W) is WorkflowStatus.SUSPENDED
    assert cluster.guests(1) == 1
    cluster.send(brief, 6, key=key)
    cluster.settle()
    assert cluster.result(W) == 6


def test_offer_to_a_parked_workflow() -> None:
    """An offer to a parked workflow returns once, and the wait registers again when the workflow runs."""
    cluster = Cluster(*EVERY)
    cluster.start(waiter(KEY), W)
    cluster.settle()
    cluster.kill(0)
    cluster.send(go, 5, key=KEY)
    cluster.open(0, workflows=())
    cluster.settle()
    assert cluster.status(W) is WorkflowStatus.PARKED
    assert cluster.pending() == 1
    assert cluster.guests(1) == 0
    cluster.open(0)
    cluster.settle()
    assert cluster.result(W) == 5


@pytest.mark.parametrize("second_late", [True, False])
def test_broadcast_is_taken_once(second_late: bool) -> None:
    """A workflow that waits twice for a broadcast gets each one once."""
    cluster = Cluster(*EVERY)
    key = key_at("news", 1, 2)
    cluster.send(news, 1, key=key)
    if not second_late:
        cluster.send(news, 2, key=key)
    cluster.start(twice(key), W)
    cluster.start(twice(key), HERE)
    cluster.settle()
    if second_late:
        assert cluster.status(W) is WorkflowStatus.SUSPENDED
        cluster.send(news, 2, key=key)
        cluster.settle()
    assert cluster.result(W) == cluster.result(HERE) == [1, 2]


def test_broadcast_to_two_waits_of_one_workflow() -> None:
    """A broadcast is offered to both waits of a workflow: if one is withdrawn meanwhile, the other still gets it."""
    cluster = Cluster(*EVERY)
    key = key_at("news", 1, 2)
    cluster.start(patient(key), W)
    cluster.settle()
    assert cluster.guests(1) == 2
    cluster.kill(0)
    cluster.send(news, 1, key=key)
    assert cluster.guests(1) == 0
    assert kinds(cluster, 0) == [EventOffered, EventOffered]
    cluster.open(0)
    cluster.settle()
    assert cluster.guests(1) == 1
    cluster.send(news, 2, key=key)
    cluster.settle()
    assert cluster.result(W) == [1, 2]


def test_event_sent_after_the_start_is_newer() -> None:
    """A wait for events sent after its workflow's creation gets the right ones across shards."""
    cluster = Cluster(*EVERY)
    key = key_at("fresh", 1, 2)
    cluster.send(fresh, 1, key=key)
    cluster.start(waiter(key, "fresh"), W)
    cluster.send(fresh, 2, key=key)
    cluster.settle()
    assert cluster.result(W) == 2


@pytest.mark.parametrize("is_there", [True, False])
def test_timeout_of_zero_sees_pending_events_elsewhere(is_there: bool) -> None:
    """`within(0)` fires only after the home of the event has answered."""
    cluster = Cluster(*EVERY)
    if is_there:
        cluster.send(go, 5, key=KEY)
    cluster.start(timid(KEY), W)
    cluster.work(0)
    assert cluster.status(W) is WorkflowStatus.SUSPENDED
    cluster.settle()
    cluster.advance(1)
    assert cluster.result(W) == (5 if is_there else -1)


def test_timeout_fires_in_the_end_without_an_answer() -> None:
    """A home without an owner delays a timeout for a while, but not forever."""
    cluster = Cluster(*EVERY)
    cluster.kill(1)
    cluster.start(timid(KEY), W)
    cluster.advance(5)
    assert cluster.status(W) is WorkflowStatus.SUSPENDED
    for _ in range(100):
        cluster.advance(1)
    assert cluster.result(W) == -1


def test_timeout_on_an_event_whose_home_is_here() -> None:
    """A timeout fires on time if the home of the event is the workflow's own shard."""
    cluster = Cluster(*EVERY)
    cluster.kill(1)
    cluster.start(timid(key_at("go", 0, 2), 10), W)
    cluster.advance(11)
    assert cluster.result(W) == -1


def test_waits_that_come_and_go_while_their_home_is_down() -> None:
    """Three registrations of one position and their withdrawals are handled in one batch."""
    cluster = Cluster(*EVERY)
    cluster.kill(1)
    cluster.start(fickle(KEY), W)
    for _ in range(300):
        cluster.advance(1)
    assert cluster.result(W) == [None, None, None]
    cluster.open(1)
    cluster.settle()
    assert cluster.guests(1) == 0


def test_unreadable_event_becomes_a_dead_letter_at_home() -> None:
    """An unreadable event becomes a dead letter at home, and the workflow keeps waiting for the next one."""
    cluster = Cluster(*EVERY)
    cluster.start(waiter(KEY), W)
    cluster.settle()
    cluster.ask(SendEvent(name="go", event_key=KEY, payload='"five"'))
    cluster.settle()
    assert [letter.workflow_id for letter in cluster.coordinators[1].state.backend.find(Letters(limit=9))] == [W]
    cluster.send(go, 5, key=KEY)
    cluster.settle()
    assert cluster.result(W) == 5


# --- events that bodies send ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_there", [True, False])
def test_body_sends_to_a_workflow_elsewhere(is_there: bool) -> None:
    """A body that sends to another shard continues when that shard has answered, and is told of a refusal."""
    cluster = Cluster(*EVERY)
    target = id_at(1, 2, "target")
    if is_there:
        cluster.start(waiter("k"), target)
    cluster.start(sender("k", target), W)
    assert cluster.status(W) is WorkflowStatus.SUSPENDED
    cluster.settle()
    assert cluster.result(W) == ("sent" if is_there else "nobody")
    if is_there:
        assert cluster.result(target) == 7


def test_body_sends_to_any_waiter() -> None:
    """An untargeted event goes to its home, and from there to a waiter elsewhere."""
    cluster = Cluster(*EVERY)
    cluster.start(waiter(KEY), OTHER)
    cluster.start(sender(KEY), W)
    cluster.settle()
    assert (cluster.result(W), cluster.result(OTHER)) == ("sent", 7)


# --- dead letters -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shard", [0, 1])
@pytest.mark.parametrize("is_there", [True, False])
def test_dead_letter_that_is_sent_again(shard: int, is_there: bool) -> None:
    """A replayed letter reaches a workflow in another shard, and stays a dead letter if that shard refuses it."""
    cluster = Cluster(*EVERY)
    target = id_at(shard, 2, "target")
    if is_there:
        cluster.start(waiter("k"), target)
    cluster.start(waiter("other"), W)
    cluster.ask(SendEvent(name="go", event_key="k", payload="7", to=W))
    cluster.cancel(W)
    backend = cluster.coordinators[0].state.backend
    (letter,) = backend.find(Letters(limit=9))
    if is_there or shard:
        cluster.ask(ReplayLetter(letter.id, target))
    else:
        with pytest.raises(WorkflowNotFound):
            cluster.ask(ReplayLetter(letter.id, target))
    assert bool(backend.find(Letters(limit=9))) is (not is_there and not shard)
    cluster.settle()
    assert list(backend.find(Letters(limit=9))) == ([] if is_there else [letter])
    if is_there:
        assert cluster.result(target) == 7

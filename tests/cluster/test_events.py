"""Untargeted events whose home is another shard than that of the workflow that waits, and events that bodies send."""

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
    """What lies in an inbox, by kind."""
    return [type(letter) for letter in cluster.letters(shard)]


@pytest.mark.parametrize("restart", [(), (0,), (1,), (0, 1)], ids=str)
@pytest.mark.parametrize("is_sent_first", [True, False])
def test_event_reaches_a_wait_elsewhere(restart: tuple[int, ...], is_sent_first: bool) -> None:
    """An event meets a wait of another shard, whichever comes first and whoever is restarted in between."""
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
    """A wait that was registered before the event was sent is seen, though its letter was not read yet."""
    cluster = Cluster(*EVERY)
    cluster.start(waiter(KEY), W)
    assert kinds(cluster, 1) == [WaitRegistered]
    cluster.send(go, 5, key=KEY)
    assert kinds(cluster, 0) == [EventOffered]


def test_who_has_waited_longest_is_served() -> None:
    """The line holds those who live here and those who do not, in the order in which they came."""
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
    """Nobody waits there any more, so the event is pending again."""
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


def test_workflow_that_is_terminated_withdraws_its_wait() -> None:
    """The home of the event forgets the wait, and the next event stays pending there."""
    cluster = Cluster(*EVERY)
    cluster.start(waiter(KEY), W)
    cluster.settle()
    assert cluster.guests(1) == 1
    cluster.ask(TerminateWorkflow(W))
    assert kinds(cluster, 1) == [WaitWithdrawn]
    cluster.settle()
    cluster.send(go, 5, key=KEY)
    assert (cluster.guests(1), cluster.pending()) == (0, 1)


def test_wait_that_is_opened_again_takes_no_old_offer_twice() -> None:
    """A wait is given up and opened again while an offer travels: the event comes back and is offered once more."""
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
    """The event is gone, and the wait is registered again, so the next one arrives."""
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
    """The event goes home and does not bounce; the wait registers again when the workflow runs again."""
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
    """A workflow that waits twice for the same broadcast gets it once, and then the next one."""
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
    """It is offered to both: the one that is given up meanwhile must not keep it from the other."""
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
    """Marks compare what two shards have stored: before the workflow was created, or after."""
    cluster = Cluster(*EVERY)
    key = key_at("fresh", 1, 2)
    cluster.send(fresh, 1, key=key)
    cluster.start(waiter(key, "fresh"), W)
    cluster.send(fresh, 2, key=key)
    cluster.settle()
    assert cluster.result(W) == 2


@pytest.mark.parametrize("is_there", [True, False])
def test_limit_of_nothing_sees_what_is_pending_elsewhere(is_there: bool) -> None:
    """`within(0)` fires only when the home of the event has been asked."""
    cluster = Cluster(*EVERY)
    if is_there:
        cluster.send(go, 5, key=KEY)
    cluster.start(timid(KEY), W)
    cluster.work(0)
    assert cluster.status(W) is WorkflowStatus.SUSPENDED
    cluster.settle()
    cluster.advance(1)
    assert cluster.result(W) == (5 if is_there else -1)


def test_limit_fires_at_last_though_nobody_answers() -> None:
    """A home without an owner holds a limit up for a while, and not for ever."""
    cluster = Cluster(*EVERY)
    cluster.kill(1)
    cluster.start(timid(KEY), W)
    cluster.advance(5)
    assert cluster.status(W) is WorkflowStatus.SUSPENDED
    for _ in range(100):
        cluster.advance(1)
    assert cluster.result(W) == -1


def test_limit_on_an_event_whose_home_is_here() -> None:
    """Nobody else needs to be asked, so it fires in its time."""
    cluster = Cluster(*EVERY)
    cluster.kill(1)
    cluster.start(timid(key_at("go", 0, 2), 10), W)
    cluster.advance(11)
    assert cluster.result(W) == -1


def test_waits_that_come_and_go_while_nobody_reads() -> None:
    """Three registrations of one place in the body, and their withdrawals, are handled in one batch."""
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
    """The workflow keeps waiting, and takes the next one."""
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
    """The body goes on when the shard of the target has answered, and hears of a refusal."""
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


def test_body_sends_to_whoever_waits() -> None:
    """An untargeted event goes to the home of its name and key, and from there to who waits elsewhere."""
    cluster = Cluster(*EVERY)
    cluster.start(waiter(KEY), OTHER)
    cluster.start(sender(KEY), W)
    cluster.settle()
    assert (cluster.result(W), cluster.result(OTHER)) == ("sent", 7)


# --- dead letters -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shard", [0, 1])
@pytest.mark.parametrize("is_there", [True, False])
def test_dead_letter_that_is_sent_again(shard: int, is_there: bool) -> None:
    """It reaches a workflow in another shard, and is a dead letter as before if that refuses it."""
    cluster = Cluster(*EVERY)
    target = id_at(shard, 2, "target")
    if is_there:
        cluster.start(waiter("k"), target)
    cluster.start(waiter("other"), W)
    cluster.ask(SendEvent(name="go", event_key="k", payload="7", to=W))
    cluster.cancel(W)
    found = cluster.coordinators[0].state.backend
    (letter,) = found.find(Letters(limit=9))
    if is_there or shard:
        cluster.ask(ReplayLetter(letter.id, target))
    else:
        with pytest.raises(WorkflowNotFound):
            cluster.ask(ReplayLetter(letter.id, target))
    assert bool(found.find(Letters(limit=9))) is (not is_there and not shard)
    cluster.settle()
    assert list(found.find(Letters(limit=9))) == ([] if is_there else [letter])
    if is_there:
        assert cluster.result(target) == 7

"""What a store keeps about events: waits, pending events and their targets, dead letters, senders' ids.

Names and keys are compared exactly, case and trailing spaces included. Events and waits come by serial, the order in
which they were accepted: it makes queues first in, first out, and decides which waiter gets an untargeted event.
"""

from __future__ import annotations

import attrs

from durable.backends.base import (
    EventsFor,
    Letters,
    Mailbox,
    PendingCount,
    PendingEvents,
    Sent,
    StaleEvents,
    Taken,
    WaitsFor,
    WaitsOf,
)
from durable.model.dead_letters import DeadLetter, DeadLetterReason
from durable.model.records import DeliveryMode, EventWait, PendingEvent, SentEvent, TakenBroadcast, WorkflowStatus
from durable.testing.conformance.kit import (
    ALL,
    BackendFactory,
    Check,
    Store,
    by_place,
    by_serial,
    event,
    same,
    serials,
    wait,
)


def check_wait_round_trip(make: BackendFactory) -> None:
    """A wait comes back with every field, in each delivery mode."""
    with Store(make) as store:
        waits = [
            EventWait(
                workflow_key=1, position=f"4.{n}.0", name="p☃", event_key=f"k{n}", mode=mode, serial=9 - n, since=n
            )
            for n, mode in enumerate(DeliveryMode)
        ]
        store.save(waits_put=by_place(*waits))
        same(store.backend.find(WaitsOf(workflow_key=1)), waits)


def check_waits_are_put_and_dropped(make: BackendFactory) -> None:
    """A wait replaces the one at its position. Dropping it leaves waits at other positions and of other workflows."""
    with Store(make) as store:
        store.save(waits_put=by_place(wait(1, 1), wait(1, 2, "1"), wait(2, 3)))
        replaced = wait(1, 4, name="shipped")
        store.save(waits_put=by_place(replaced), waits_dropped={(1, "1"), (7, "0")})
        same(store.backend.find(WaitsOf(workflow_key=1)), [replaced])
        same(store.backend.find(WaitsOf(workflow_key=2)), [wait(2, 3)])
        same(serials(store.backend.find(WaitsFor(name="paid", event_key="", limit=ALL))), [3])
        same(serials(store.backend.find(WaitsFor(name="shipped", event_key="", limit=ALL))), [4])


def check_waits_for_an_event(make: BackendFactory) -> None:
    """Waits for a name and key come by serial, so the longest first, page by page, and never those of another key."""
    with Store(make) as store:
        waits = [wait(key, serial, str(key)) for key, serial in ((1, 30), (2, 10), (3, 20), (4, 40))]
        unrelated = [wait(5, 5, event_key="k"), wait(6, 6, name="Paid"), wait(7, 7, name="paid ")]
        store.save(waits_put=by_place(*waits, *unrelated))
        query = WaitsFor(name="paid", event_key="", limit=ALL)
        same(serials(store.backend.find(query)), [10, 20, 30, 40])
        same(serials(store.backend.find(attrs.evolve(query, limit=2))), [10, 20])
        same(serials(store.backend.find(attrs.evolve(query, limit=2, after_serial=20))), [30, 40])
        same(serials(store.backend.find(attrs.evolve(query, event_key="k"))), [5])
        same(serials(store.backend.find(attrs.evolve(query, event_key="none"))), [])


def check_event_round_trip(make: BackendFactory) -> None:
    """A pending event comes back with every field, a broadcast as a broadcast."""
    with Store(make) as store:
        full = PendingEvent(
            serial=2**62,
            name="p☃",
            event_key="k☃",
            target=3,
            payload='{"☃": 1}',
            sent_at=5,
            expires_at=6,
            since=7,
            trace="00-0a-0b-01",
        )
        news = event(9, consume=False, taken=True)
        waiting = event(7, unstarted="later", expires_at=0)
        plain = event(8)
        store.save(events_put=by_serial(full, waiting, plain, news))
        same(store.backend.find(Mailbox(target=3, limit=ALL)), [full])
        same(store.backend.find(Mailbox(unstarted="later", limit=ALL)), [waiting])
        same(store.backend.find(EventsFor(name="paid", event_key="", target=None, limit=ALL)), [plain])
        same(store.backend.find(EventsFor(name="paid", event_key="", target=None, consume=False, limit=ALL)), [news])


def check_queues_are_fifo(make: BackendFactory) -> None:
    """Events come by serial per name, key and target, page by page. Events for unstarted ids are never untargeted."""
    with Store(make) as store:
        store.commit(events_put=by_serial(event(9), event(3), event(4, event_key="k"), event(5, name="shipped")))
        store.save(
            events_put=by_serial(
                *(event(6), event(2, unstarted="later"), event(7, target=1), event(1, target=1), event(8, target=2)),
                *(event(10, target=1, event_key="k"), event(11, target=1, name="shipped")),
            )
        )
        query = EventsFor(name="paid", event_key="", target=None, limit=ALL)
        same(serials(store.backend.find(query)), [3, 6, 9])
        same(serials(store.backend.find(attrs.evolve(query, limit=2))), [3, 6])
        same(serials(store.backend.find(attrs.evolve(query, limit=2, after_serial=6))), [9])
        same(serials(store.backend.find(attrs.evolve(query, event_key="k"))), [4])
        same(serials(store.backend.find(attrs.evolve(query, name="shipped"))), [5])
        same(serials(store.backend.find(attrs.evolve(query, target=1))), [1, 7])
        same(serials(store.backend.find(attrs.evolve(query, target=1, after_serial=1))), [7])
        same(serials(store.backend.find(attrs.evolve(query, target=3))), [])


def check_mailboxes(make: BackendFactory) -> None:
    """A mailbox holds all names and keys in order. Those of workflow keys and of unstarted ids are separate."""
    with Store(make) as store:
        store.save(
            events_put=by_serial(
                *(event(5, target=1), event(2, target=1, name="shipped"), event(3, target=2), event(6)),
                *(event(4, unstarted="1"), event(1, unstarted="1", event_key="k"), event(7, unstarted="2")),
            )
        )
        same(serials(store.backend.find(Mailbox(target=1, limit=ALL))), [2, 5])
        same(serials(store.backend.find(Mailbox(target=1, limit=1))), [2])
        same(serials(store.backend.find(Mailbox(unstarted="1", limit=ALL))), [1, 4])
        same(serials(store.backend.find(Mailbox(unstarted="none", limit=ALL))), [])


def check_events_are_put_and_dropped(make: BackendFactory) -> None:
    """A put replaces the event with that serial, whatever its target was. A drop removes only that event."""
    with Store(make) as store:
        store.save(events_put=by_serial(event(1, unstarted="later"), event(2), event(3)))
        store.save(events_put=by_serial(event(1, target=5)), events_dropped={2, 99})
        same(store.backend.find(Mailbox(unstarted="later", limit=ALL)), [])
        same(store.backend.find(Mailbox(target=5, limit=ALL)), [event(1, target=5)])
        same(serials(store.backend.find(EventsFor(name="paid", event_key="", target=None, limit=ALL))), [3])


def check_stale_events(make: BackendFactory) -> None:
    """Stale events are the expired ones anywhere, and old ones outside mailboxes. Each is found once."""
    with Store(make) as store:
        store.save(
            events_put=by_serial(
                event(1, sent_at=10, expires_at=100),
                event(2, sent_at=10, expires_at=101),
                event(3, sent_at=10, target=1, expires_at=100),
                event(4, sent_at=10, target=1),
                event(5, sent_at=9),
                event(6, sent_at=9, unstarted="later"),
                event(7, sent_at=9, expires_at=50),
                event(8, sent_at=9, target=1),
                event(9, sent_at=9, since=10),
            )
        )
        query = StaleEvents(expired_at=100, since_before=10, limit=ALL)
        same(serials(store.backend.find(query)), [1, 3, 5, 6, 7])
        same(len(store.backend.find(attrs.evolve(query, limit=2))), 2)
        store.save(events_dropped={1, 3, 5, 6, 7})
        same(serials(store.backend.find(query)), [])


def check_pending_counts(make: BackendFactory) -> None:
    """Pending events are counted per untargeted name, per taken broadcast, per mailbox, and per unstarted id."""
    with Store(make) as store:
        store.save(
            events_put=by_serial(
                *(event(1), event(2, target=1, event_key="k"), event(3, unstarted="a"), event(4, consume=False)),
                *(
                    event(5, name="shipped"),
                    event(6, name="shipped", unstarted="b"),
                    event(7, target=1, name="shipped"),
                ),
                event(8, consume=False, taken=True),
            )
        )
        count = store.backend.count
        same([count(PendingCount(name=name)) for name in ("paid", "shipped", "none")], [2, 1, 0])
        same([count(PendingCount(name=name, taken=True)) for name in ("paid", "shipped")], [1, 0])
        same([count(PendingCount(target=target)) for target in (1, 2)], [2, 0])
        same([count(PendingCount(unstarted=id)) for id in ("a", "b", "c")], [1, 1, 0])
        same(count(PendingCount()), 2)


def check_pending_events(make: BackendFactory) -> None:
    """Pending events come by serial, page by page: all, by name, by mailbox, unexpired only, or a single one."""
    with Store(make) as store:
        kept = [event(1, unstarted="a"), event(2, target=4), event(3, name="shipped"), event(4, consume=False)]
        store.save(events_put=by_serial(*kept, event(5, target=4, name="shipped")))
        find = store.backend.find
        same(serials(find(PendingEvents(limit=ALL))), [1, 2, 3, 4, 5])
        same(serials(find(PendingEvents(after=1, limit=2))), [2, 3])
        same(serials(find(PendingEvents(name="paid", limit=ALL))), [1, 2, 4])
        same(serials(find(PendingEvents(target=4, limit=ALL))), [2, 5])
        same(serials(find(PendingEvents(target=4, name="shipped", limit=ALL))), [5])
        same(serials(find(PendingEvents(unstarted="a", limit=ALL))), [1])
        same(find(PendingEvents(serial=3)), [kept[2]])
        same(find(PendingEvents(serial=6)), [])
        store.save(events_put=by_serial(event(6, expires_at=5000)))
        find = store.backend.find
        same([len(find(PendingEvents(valid_at=now, limit=ALL))) for now in (4999, 5000)], [6, 5])
        same(serials(find(PendingEvents(after=4, valid_at=4999, limit=1))), [5])


def check_taken_broadcasts(make: BackendFactory) -> None:
    """A taken broadcast is found by name and key, replaced, swept up to a serial, and purged with its workflow."""

    def taken(key: int, serial: int, event_key: str = "") -> TakenBroadcast:
        return TakenBroadcast(workflow_key=key, name="p☃", event_key=event_key, serial=serial)

    def put(*rows: TakenBroadcast) -> dict[tuple[int, str, str], TakenBroadcast]:
        return {(row.workflow_key, row.name, row.event_key): row for row in rows}

    with Store(make) as store:
        store.save(taken_put=put(taken(1, 5), taken(1, 6, "k"), taken(2, 9), taken(3, 1)))
        store.save(taken_put=put(taken(1, 7)))
        same(store.backend.find(Taken(workflow_key=1, name="p☃", event_key="")), [taken(1, 7)])
        same(store.backend.find(Taken(workflow_key=1, name="paid", event_key="")), [])
        same({row.serial for row in store.backend.find(Taken(workflow_key=1))}, {6, 7})
        store.save(taken_swept={("p☃", ""): 9})
        same([row.serial for key in (1, 2, 3) for row in store.backend.find(Taken(workflow_key=key))], [6, 9])
        store.save(taken_cleared={1}, workflows_purged={2})
        same([row for key in (1, 2, 3) for row in store.backend.find(Taken(workflow_key=key))], [])


def check_letters(make: BackendFactory) -> None:
    """Dead letters come by id with every field, page by page or singly, and can be replaced and dropped."""
    with Store(make) as store:
        letters = {
            id: DeadLetter(
                id=id, name="p☃", event_key="k", workflow_id="w☃", payload_json='"☃"', sent_at_us=id, died_at_us=id
            )
            for id in (30, 10, 20)
        }
        letters[30] = attrs.evolve(
            letters[30], workflow_id=None, reason=DeadLetterReason.UNREADABLE, detail="d☃", is_broadcast=True
        )
        letters[20] = attrs.evolve(letters[20], status=WorkflowStatus.CANCELLED)
        store.save(letters_put=letters)
        same(store.backend.find(Letters(limit=ALL)), [letters[10], letters[20], letters[30]])
        same(store.backend.find(Letters(after=10, limit=1)), [letters[20]])
        same(store.backend.find(Letters(id=30)), [letters[30]])
        same(store.backend.find(Letters(id=31)), [])
        same(store.backend.find(Letters(died_before=30, limit=1)), [letters[10]])
        same(store.backend.find(Letters(died_before=30, limit=ALL)), [letters[10], letters[20]])
        replaced = attrs.evolve(letters[20], payload_json="2")
        store.save(letters_put={20: replaced}, letters_dropped={10, 99})
        same(store.backend.find(Letters(limit=ALL)), [replaced, letters[30]])


def check_sent_ids(make: BackendFactory) -> None:
    """A sender's id is found by exact match or by age, oldest first, and can be dropped."""
    with Store(make) as store:
        sent = {
            id: SentEvent(event_id=id, digest=f"d{id}", reply="r☃", at=at) for id, at in (("b", 2), ("a", 3), ("B", 1))
        }
        store.save(sent_put=sent)
        same(store.backend.find(Sent(event_id="b")), [sent["b"]])
        same(store.backend.find(Sent(event_id="c")), [])
        same(store.backend.find(Sent(event_id="b", before=2)), [])
        same(store.backend.find(Sent(before=3, limit=ALL)), [sent["B"], sent["b"]])
        same(store.backend.find(Sent(before=9, limit=2)), [sent["B"], sent["b"]])
        store.save(sent_dropped={"b", "none"})
        same(store.backend.find(Sent(before=9, limit=ALL)), [sent["B"], sent["a"]])


CHECKS: tuple[Check, ...] = (
    check_wait_round_trip,
    check_waits_are_put_and_dropped,
    check_waits_for_an_event,
    check_event_round_trip,
    check_queues_are_fifo,
    check_mailboxes,
    check_events_are_put_and_dropped,
    check_stale_events,
    check_pending_counts,
    check_pending_events,
    check_taken_broadcasts,
    check_letters,
    check_sent_ids,
)

"""Where every event is: pending, taken, a dead letter, in a letter, or gone for a reason. Part of the ledger.

The payload of an event contains the id that its sender gave it, so an event is recognized wherever it appears.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import attrs

from durable.backends.base import Batch
from durable.model.homes import key_home
from durable.model.records import DeadLetterPolicy, EntryKind, EntryStatus, HistoryEntry, PendingEvent
from simulation.kinds import is_unreadable, payload_of
from simulation.posted import Post, dead_letter_in, event_in

# How the text of an answer begins that is no refusal.
_ACCEPTED = '{"reply"'
# Name, key and mailbox: the events of one queue.
Queue = tuple[str, str, int | None]


@attrs.define(eq=False)
class Places:
    """In which places one event is, and how often in each. The sum must be 1."""

    pending: int = 0
    letters: int = 0
    # In letters from one shard to another.
    travelling: int = 0
    # The workflows that took it.
    taken: list[int] = attrs.field(factory=list)
    # Expired, discarded because of the policy, or a broadcast that was taken and is too old.
    gone: int = 0
    # A broadcast stays pending when a workflow takes it.
    is_broadcast: bool = False

    @property
    def count(self) -> int:
        """In how many places the event is. Workflows that took a broadcast do not count."""
        return self.pending + self.letters + self.travelling + self.gone + (0 if self.is_broadcast else len(self.taken))


@attrs.frozen
class Taken:
    """An event that a commit gave to a wait. `event` is None if it was not pending after an earlier commit."""

    key: int
    position: str
    payload: str
    event: PendingEvent | None


class Mail:
    """All events that were ever committed."""

    def __init__(self, policy: DeadLetterPolicy, retention: int) -> None:
        self.policy = policy
        # For how many microseconds untargeted events, and the ids of all events, are kept.
        self.retention = retention
        self.pending: dict[int, PendingEvent] = {}
        self.queues: dict[Queue, dict[int, PendingEvent]] = {}
        self.places: dict[str, Places] = {}
        self._letters: dict[int, str] = {}
        self._serials: dict[str, int] = {}
        # When an event expires, by payload; and the events for which the last commit has changed that.
        self._expiries: dict[str, int | None] = {}
        self.altered: list[PendingEvent] = []
        # When each event was sent, by its sender's id.
        self.sent: dict[str, int] = {}
        # When each request of a sender was answered. A refused one may be long before the one that was accepted.
        self.answered: dict[str, int] = {}
        # By workflow, name and key: the serial of the last broadcast taken.
        self.seen: dict[tuple[int, str, str], int] = {}
        # Of the last commit: the events that it touched, those that appeared for the first time, those given to waits,
        # and those removed, by serial; and the highest serial before it.
        self.touched: set[str] = set()
        self.fresh: list[str] = []
        # The marks of the commits that have stored each, as it was sent last: a dead letter may be sent again.
        self.marks: dict[str, int] = {}
        # What has left the dead letters: sent again, it does not expire.
        self.replayed: set[str] = set()
        self.taken: list[Taken] = []
        self.dropped: dict[int, PendingEvent] = {}
        self.serial_before = 0
        self._serial: dict[int, int] = {}
        self._mark = 0

    def book(self, batch: Batch, now: int, has_ended: Callable[[PendingEvent], bool], post: Post) -> None:
        """Add a commit."""
        sent = sent_in(batch)
        self.touched = {payload_of(event_id) for event_id in sent}
        self.sent.update(sent)
        self.answered.update((request_id, answer.at) for request_id, answer in batch.answers_put.items())
        self.altered, self.fresh = [], []
        self._mark = post.mark
        shard = key_home(batch.serial, len(post.inboxes))
        self.serial_before, self._serial[shard] = self._serial.get(shard, 0), batch.serial
        self._book_taken(batch)
        travelled = self._book_letters(post)
        self.seen = {place: serial for place, serial in self.seen.items() if place[0] not in batch.taken_cleared}
        for key in sorted(batch.taken_cleared):
            self._forget_taken(key)
        self.seen.update((place, taken.serial) for place, taken in batch.taken_put.items())
        dropped = [event for serial in sorted(batch.events_dropped) if (event := self._drop(serial)) is not None]
        self.dropped = {event.serial: event for event in dropped}
        for event in batch.events_put.values():
            self._drop(event.serial)
            self._put(event)
        for id in batch.letters_dropped:
            if (payload := self._letters.pop(id, None)) is not None:
                self._place(payload).letters -= 1
                self.marks[payload] = post.mark
                self.replayed.add(payload)
        for id, letter in batch.letters_put.items():
            self._letters[id] = letter.payload_json
            # A letter that is sent again has no expiry.
            self._expiries.pop(letter.payload_json, None)
            self._place(letter.payload_json).letters += 1
        for event in dropped:
            self._account(event, now, has_ended)
        if sent and self.policy is DeadLetterPolicy.DISCARD:
            self._account_discarded(batch)
        for event in travelled:
            # If its retention ended while it travelled, that is noticed on arrival.
            self._account(event, now, has_ended)
        if batch.restarted:
            self._account_rounds(batch, {event.payload: event.target for event in dropped})

    def copy(self, key: int, entries: Iterable[HistoryEntry]) -> None:
        """A fork has copied these entries: it counts as a taker of the broadcasts among them, but of no other event."""
        for entry in entries:
            is_event = entry.kind is EntryKind.EVENT and entry.status is EntryStatus.OK
            places = self.places.get(entry.outcome) if is_event else None
            if places is not None and places.is_broadcast:
                places.taken.append(key)

    def find(self, payload: str) -> PendingEvent | None:
        """The pending event with this payload, or None."""
        return self.pending.get(self._serials.get(payload, -1))

    def is_old(self, event: PendingEvent, now: int) -> bool:
        """Whether an untargeted event has been kept for the whole retention."""
        return event.target is None and event.since + self.retention <= now

    def has_to_sweep(self) -> bool:
        """Whether an event is pending that a sweep will remove one day."""
        return any(event.target is None for event in self.pending.values())

    def unstarted(self) -> Iterator[PendingEvent]:
        """The pending events for ids that are not started yet."""
        return (event for event in self.pending.values() if event.unstarted is not None)

    def _forget_taken(self, key: int) -> None:
        """A workflow begins again, and may take every broadcast again."""
        for places in self.places.values():
            if places.is_broadcast:
                places.taken = [taker for taker in places.taken if taker != key]

    def _book_taken(self, batch: Batch) -> None:
        """Book the events that this commit gave to waits."""
        self.taken = []
        for key, entry in batch.history:
            if entry.kind is EntryKind.EVENT and entry.status is EntryStatus.OK:
                self._place(entry.outcome).taken.append(key)
                self.taken.append(Taken(key, entry.position, entry.outcome, self.find(entry.outcome)))

    def _book_letters(self, post: Post) -> list[PendingEvent]:
        """Book the events that travel in letters. Returns those that arrived."""
        arrived = [event for letter in post.handled if (event := event_in(letter.message)) is not None]
        for event in arrived:
            self._place(event.payload).travelling -= 1
        for posted in post.handled:
            if (dead := dead_letter_in(posted.message)) is not None:
                self._place(dead.payload_json).travelling -= 1
                self.marks[dead.payload_json] = post.mark
        for letter in post.written:
            if (dead := dead_letter_in(letter.message)) is not None:
                self._place(dead.payload_json).travelling += 1
            if (event := event_in(letter.message)) is not None:
                self._place(event.payload).travelling += 1
        return arrived

    def _place(self, payload: str) -> Places:
        """The places of an event, which the commit touches."""
        self.touched.add(payload)
        places = self.places.get(payload)
        if places is None:
            places = self.places[payload] = Places()
            self.fresh.append(payload)
            self.marks[payload] = self._mark
        return places

    def _drop(self, serial: int) -> PendingEvent | None:
        """Remove a pending event and return it; None if it is not pending."""
        event = self.pending.pop(serial, None)
        if event is not None:
            self._place(event.payload).pending -= 1
            self._serials.pop(event.payload, None)
            if event.unstarted is None:
                del self.queues[event.name, event.event_key, event.target][serial]
        return event

    def _put(self, event: PendingEvent) -> None:
        """Add a pending event."""
        self.pending[event.serial] = event
        self._serials[event.payload] = event.serial
        if self._expiries.setdefault(event.payload, event.expires_at) != event.expires_at:
            self.altered.append(event)
        places = self._place(event.payload)
        places.pending += 1
        places.is_broadcast = not event.consume
        if event.unstarted is None:
            self.queues.setdefault((event.name, event.event_key, event.target), {})[event.serial] = event

    def _account(self, event: PendingEvent, now: int, has_ended: Callable[[PendingEvent], bool]) -> None:
        """Count a removed event as gone if there is a reason: it expired, was discarded, or is an old broadcast."""
        places = self.places[event.payload]
        has_expired = event.expires_at is not None and event.expires_at <= now
        is_discarded = self.policy is DeadLetterPolicy.DISCARD and has_ended(event)
        # A workflow took it. Those that did not wait in time have missed it.
        is_past = not event.consume and event.taken and self.is_old(event, now)
        if not places.count and (has_expired or is_discarded or is_past):
            places.gone += 1

    def _account_rounds(self, batch: Batch, targets: dict[str, int | None]) -> None:
        """Count events as taken that left no entry: their workflow took them and began a round in the same commit."""
        for payload in sorted(self.touched):
            target = targets.get(payload)
            # Under this policy it may have lost its target before.
            is_open = target is None or self.policy is DeadLetterPolicy.MOVE_TO_BROADCAST
            # No workflow takes an unreadable event.
            is_lost = not self._place(payload).count and not is_unreadable(payload)
            if is_lost and (is_open or target in batch.restarted):
                self.places[payload].taken.append(min(batch.restarted))

    def _account_discarded(self, batch: Batch) -> None:
        """Count events as gone that were discarded in the commit in which they arrived: their workflow ended in it."""
        records = (*batch.workflows_new.values(), *batch.workflows_changed.values())
        is_retried = any(entry.kind is EntryKind.RETRIED for _, entry in batch.history)
        if is_retried or any(record.status.is_terminal for record in records):
            for event_id in sent_in(batch):
                places = self._place(payload_of(event_id))
                places.gone += not places.count


def sent_in(batch: Batch) -> dict[str, int]:
    """The events that a commit has accepted, and when: by their senders' ids, or by the ids of requests."""
    accepted = {
        request_id.rpartition("#")[0]: answer.at
        for request_id, answer in batch.answers_put.items()
        if answer.text.startswith(_ACCEPTED)
    }
    return {event_id: sent.at for event_id, sent in batch.sent_put.items()} | accepted

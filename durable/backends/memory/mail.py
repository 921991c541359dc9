"""The events of a store in memory: pending events, dead letters, senders' ids, and which workflow took which broadcast.

What other processes have asked for is here too: answers and kept requests.

A pending event is in three tables: by serial, by queue (the events that compete for the same waits) and by mailbox (the
events that go away with a workflow). All three are changed together, in `put_mail` and `_drop_event`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, TypeVar

import attrs
from sortedcontainers import SortedDict

from durable.backends.base import (
    Answers,
    Batch,
    EventsFor,
    KeptRequests,
    Letters,
    Mailbox,
    PendingCount,
    PendingEvents,
    Query,
    Sent,
    StaleEvents,
    Taken,
)
from durable.model.dead_letters import DeadLetter
from durable.model.records import PendingEvent, SentEvent, TakenBroadcast
from durable.model.requests import KeptRequest, StoredAnswer

K = TypeVar("K")
R = TypeVar("R")
# The events of one queue: name, key, mailbox, id that is not started yet, and whether a single workflow takes each.
_Queue = tuple[str, str, int | None, str | None, bool]


def rows() -> SortedDict[int, Any]:
    """An empty table of rows by number, kept in order."""
    return SortedDict()


def discard(places: dict[K, Any], place: K) -> None:
    """Remove a place if it is empty. Keys of events come from users, so empty places would pile up."""
    if not places[place]:
        del places[place]


@attrs.define(eq=False)
class MemoryMail:
    """The part of a store in memory that holds events."""

    # Events by serial, and the same events by queue and by mailbox: a workflow's key, or an id that is not started yet.
    events: SortedDict[int, PendingEvent] = attrs.Factory(rows)
    queues: dict[_Queue, SortedDict[int, PendingEvent]] = attrs.field(factory=dict)
    boxes: dict[int | str | None, SortedDict[int, PendingEvent]] = attrs.field(factory=dict)
    letters: SortedDict[int, DeadLetter] = attrs.Factory(rows)
    sent: dict[str, SentEvent] = attrs.field(factory=dict)
    # The last broadcast that a workflow took, by workflow, then by name and key.
    taken: dict[int, dict[tuple[str, str], TakenBroadcast]] = attrs.field(factory=dict)
    answers: dict[str, StoredAnswer] = attrs.field(factory=dict)
    kept: SortedDict[int, KeptRequest] = attrs.Factory(rows)

    def put_mail(self, batch: Batch, mark: int | None = None) -> None:
        """Store the mail of a commit. An event keeps the mark of the commit that stored it first."""
        for serial, event in batch.events_put.items():
            stored = self.events.get(serial)
            self._drop_event(serial)
            if mark is not None and event.mark is None:
                event = attrs.evolve(event, mark=mark if stored is None else stored.mark)
            self.events[serial] = event
            self.queues.setdefault(_queue(event), SortedDict())[serial] = event
            self.boxes.setdefault(_box(event), SortedDict())[serial] = event
        self.letters.update(batch.letters_put)
        self.sent.update(batch.sent_put)
        self.answers.update(batch.answers_put)
        self.kept.update(batch.kept_put)
        for (key, *place), taken in batch.taken_put.items():
            self.taken.setdefault(key, {})[place[0], place[1]] = taken

    def drop_mail(self, batch: Batch) -> None:
        """Remove the mail that a commit drops, and that of the workflows that it purges."""
        for key in batch.workflows_purged:
            for serial in list(self.boxes.get(key, ())):
                self._drop_event(serial)
        for key in batch.workflows_purged | batch.taken_cleared:
            self.taken.pop(key, None)
        for place, serial in batch.taken_swept.items():
            for key, cursors in list(self.taken.items()):
                if place in cursors and cursors[place].serial < serial:
                    del cursors[place]
                    discard(self.taken, key)
        for serial in batch.events_dropped:
            self._drop_event(serial)
        for id in batch.letters_dropped:
            self.letters.pop(id, None)
        for event_id in batch.sent_dropped:
            self.sent.pop(event_id, None)
        for request_id in batch.answers_dropped:
            self.answers.pop(request_id, None)
        for number in batch.kept_dropped:
            self.kept.pop(number, None)

    def _drop_event(self, serial: int) -> None:
        """Remove an event from all three tables; nothing if it is not stored."""
        event = self.events.pop(serial, None)
        if event is not None:
            queue, box = _queue(event), _box(event)
            del self.queues[queue][serial]
            discard(self.queues, queue)
            del self.boxes[box][serial]
            discard(self.boxes, box)

    def count_pending(self, query: PendingCount) -> int:
        """How many events are pending: untargeted ones of a name, those of one mailbox, or all for unstarted ids."""
        if query.name is not None:
            untargeted: Iterable[PendingEvent] = self.boxes.get(None, {}).values()
            return sum(event.name == query.name and event.taken == query.taken for event in untargeted)
        box = query.unstarted if query.target is None else query.target
        if box is not None:
            return len(self.boxes.get(box, ()))
        return sum(event.unstarted is not None for event in self.events.values())


def _queue(event: PendingEvent) -> _Queue:
    """The queue that an event is in."""
    return (event.name, event.event_key, event.target, event.unstarted, event.consume)


def _box(event: PendingEvent) -> int | str | None:
    """The mailbox of an event: a workflow's key, an id that is not started yet, or None if it is untargeted."""
    return event.unstarted if event.target is None else event.target


def _after(table: SortedDict[int, R] | None, after: int, limit: int) -> list[R]:
    """The first rows of a table with numbers above `after`."""
    if table is None:
        return []
    return [table[number] for number in islice(table.irange(after, inclusive=(False, False)), limit)]


def _events_for(mail: MemoryMail, query: EventsFor) -> list[PendingEvent]:
    """The events of one queue above a serial: what a wait may take, oldest first."""
    queue = mail.queues.get((query.name, query.event_key, query.target, None, query.consume))
    return _after(queue, query.after_serial, query.limit)


def _pending_events(mail: MemoryMail, query: PendingEvents) -> list[PendingEvent]:
    """Pending events for lists and lookups, oldest first."""
    if query.serial is not None:
        return [mail.events[query.serial]] if query.serial in mail.events else []
    later = (mail.events[serial] for serial in mail.events.irange(query.after, inclusive=(False, False)))
    matching = (
        event
        for event in later
        if query.name in (None, event.name)
        and query.target in (None, event.target)
        and query.unstarted in (None, event.unstarted)
        and (query.valid_at is None or event.expires_at is None or event.expires_at > query.valid_at)
    )
    return list(islice(matching, query.limit))


def _taken(mail: MemoryMail, query: Taken) -> list[TakenBroadcast]:
    """The last broadcasts that a workflow took: all of them, or that of one name and key."""
    cursors = mail.taken.get(query.workflow_key, {})
    if query.name is None or query.event_key is None:
        return list(cursors.values())
    cursor = cursors.get((query.name, query.event_key))
    return [] if cursor is None else [cursor]


def _mailbox(mail: MemoryMail, query: Mailbox) -> list[PendingEvent]:
    """The events of one mailbox, oldest first."""
    box = query.unstarted if query.target is None else query.target
    # None is the box of untargeted events, which is not a mailbox.
    return [] if box is None else _after(mail.boxes.get(box), 0, query.limit)


def _stale_events(mail: MemoryMail, query: StaleEvents) -> list[PendingEvent]:
    """Events that a sweep removes: expired ones, and untargeted ones kept for too long."""

    def stale(event: PendingEvent) -> bool:
        expired = event.expires_at is not None and event.expires_at <= query.expired_at
        return expired or (event.target is None and event.since < query.since_before)

    return list(islice(filter(stale, mail.events.values()), query.limit))


def _letters(mail: MemoryMail, query: Letters) -> list[DeadLetter]:
    """Dead letters: one by id, those that died before an instant, or a page by id."""
    if query.id is not None:
        return [mail.letters[query.id]] if query.id in mail.letters else []
    if (before := query.died_before) is not None:
        older = [letter for letter in mail.letters.values() if letter.died_at_us < before]
        return sorted(older, key=lambda letter: letter.died_at_us)[: query.limit]
    return _after(mail.letters, query.after, query.limit)


def _sent(mail: MemoryMail, query: Sent) -> list[SentEvent]:
    """The ids of sent events: one, or those sent before an instant, oldest first."""
    candidates = mail.sent.values() if query.event_id is None else filter(None, [mail.sent.get(query.event_id)])
    matching = [sent for sent in candidates if query.before is None or sent.at < query.before]
    return sorted(matching, key=lambda sent: (sent.at, sent.event_id))[: query.limit]


def _answers(mail: MemoryMail, query: Answers) -> list[StoredAnswer]:
    """Answers to requests: one, or those given before an instant, oldest first."""
    wanted = mail.answers if query.request_id is None else {query.request_id} & mail.answers.keys()
    candidates = map(mail.answers.__getitem__, wanted)
    matching = [answer for answer in candidates if query.before is None or answer.at < query.before]
    return sorted(matching, key=lambda answer: (answer.at, answer.request_id))[: query.limit]


# The functions that answer queries about mail. The key of each row is the type that its function takes.
MAIL_ANSWERS: dict[type[Query[Any]], Callable[[Any, Any], list[Any]]] = {
    EventsFor: _events_for,
    PendingEvents: _pending_events,
    Taken: _taken,
    Mailbox: _mailbox,
    StaleEvents: _stale_events,
    Letters: _letters,
    Sent: _sent,
    Answers: _answers,
    KeptRequests: lambda mail, query: _after(mail.kept, query.after, query.limit),
}

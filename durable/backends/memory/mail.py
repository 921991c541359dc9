"""The events of a store in memory: what is pending and where, dead letters, senders' ids, who took which broadcast."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, TypeVar

import attrs
from sortedcontainers import SortedDict

from durable.backends.base import (
    Batch,
    EventsFor,
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

K = TypeVar("K")
R = TypeVar("R")
# Name, key, mailbox, id that is not started yet, and whether one workflow takes them: the events of one queue.
_Queue = tuple[str, str, int | None, str | None, bool]


def rows() -> SortedDict[int, Any]:
    """Rows by number, in order."""
    return SortedDict()


def discard(places: dict[K, Any], place: K) -> None:
    """Forget a place that holds nothing any more; keys of events come from users, so empty places would pile up."""
    if not places[place]:
        del places[place]


@attrs.define(eq=False)
class MemoryMail:
    """The part of a store in memory that holds events."""

    # Events by serial, and the same ones by queue and by mailbox (a workflow's key, or an id without a workflow).
    events: SortedDict[int, PendingEvent] = attrs.Factory(rows)
    queues: dict[_Queue, SortedDict[int, PendingEvent]] = attrs.field(factory=dict)
    boxes: dict[int | str | None, SortedDict[int, PendingEvent]] = attrs.field(factory=dict)
    letters: SortedDict[int, DeadLetter] = attrs.Factory(rows)
    sent: dict[str, SentEvent] = attrs.field(factory=dict)
    # By workflow, and by name and key.
    taken: dict[int, dict[tuple[str, str], TakenBroadcast]] = attrs.field(factory=dict)

    def put_mail(self, batch: Batch, mark: int | None = None) -> None:
        """Store what a commit puts. An event keeps the mark of the commit that has stored it first."""
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
        for (key, *place), taken in batch.taken_put.items():
            self.taken.setdefault(key, {})[place[0], place[1]] = taken

    def drop_mail(self, batch: Batch) -> None:
        """Remove what a commit drops, and the mail of workflows that it purges."""
        for key in batch.workflows_purged:
            for serial in list(self.boxes.get(key, ())):
                self._drop_event(serial)
        for key in batch.workflows_purged | batch.taken_cleared:
            self.taken.pop(key, None)
        for place, serial in batch.taken_swept.items():
            for key, known in list(self.taken.items()):
                if place in known and known[place].serial < serial:
                    del known[place]
                    discard(self.taken, key)
        for serial in batch.events_dropped:
            self._drop_event(serial)
        for id in batch.letters_dropped:
            self.letters.pop(id, None)
        for event_id in batch.sent_dropped:
            self.sent.pop(event_id, None)

    def _drop_event(self, serial: int) -> None:
        event = self.events.pop(serial, None)
        if event is not None:
            queue, box = _queue(event), _box(event)
            del self.queues[queue][serial]
            discard(self.queues, queue)
            del self.boxes[box][serial]
            discard(self.boxes, box)

    def count_pending(self, query: PendingCount) -> int:
        """How many events are pending."""
        if query.name is not None:
            loose: Iterable[PendingEvent] = self.boxes.get(None, {}).values()
            return sum(event.name == query.name and event.taken == query.taken for event in loose)
        box = query.unstarted if query.target is None else query.target
        if box is not None:
            return len(self.boxes.get(box, ()))
        return sum(event.unstarted is not None for event in self.events.values())


def _queue(event: PendingEvent) -> _Queue:
    return (event.name, event.event_key, event.target, event.unstarted, event.consume)


def _box(event: PendingEvent) -> int | str | None:
    return event.unstarted if event.target is None else event.target


def _after(found: SortedDict[int, R] | None, after: int, limit: int) -> list[R]:
    if found is None:
        return []
    return [found[serial] for serial in islice(found.irange(after, inclusive=(False, False)), limit)]


def _events_for(mail: MemoryMail, query: EventsFor) -> list[PendingEvent]:
    queue = mail.queues.get((query.name, query.event_key, query.target, None, query.consume))
    return _after(queue, query.after_serial, query.limit)


def _pending_events(mail: MemoryMail, query: PendingEvents) -> list[PendingEvent]:
    if query.serial is not None:
        return [mail.events[query.serial]] if query.serial in mail.events else []
    found = (mail.events[serial] for serial in mail.events.irange(query.after, inclusive=(False, False)))
    wanted = (
        event
        for event in found
        if query.name in (None, event.name)
        and query.target in (None, event.target)
        and query.unstarted in (None, event.unstarted)
        and (query.valid_at is None or event.expires_at is None or event.expires_at > query.valid_at)
    )
    return list(islice(wanted, query.limit))


def _taken(mail: MemoryMail, query: Taken) -> list[TakenBroadcast]:
    known = mail.taken.get(query.workflow_key, {})
    if query.name is None or query.event_key is None:
        return list(known.values())
    found = known.get((query.name, query.event_key))
    return [] if found is None else [found]


def _mailbox(mail: MemoryMail, query: Mailbox) -> list[PendingEvent]:
    box = query.unstarted if query.target is None else query.target
    # None is where the untargeted events lie; that is nobody's mailbox.
    return [] if box is None else _after(mail.boxes.get(box), 0, query.limit)


def _stale_events(mail: MemoryMail, query: StaleEvents) -> list[PendingEvent]:
    def stale(event: PendingEvent) -> bool:
        expired = event.expires_at is not None and event.expires_at <= query.expired_at
        return expired or (event.target is None and event.since < query.since_before)

    return list(islice(filter(stale, mail.events.values()), query.limit))


def _letters(mail: MemoryMail, query: Letters) -> list[DeadLetter]:
    if query.id is not None:
        return [mail.letters[query.id]] if query.id in mail.letters else []
    if (before := query.died_before) is not None:
        old = [letter for letter in mail.letters.values() if letter.died_at_us < before]
        return sorted(old, key=lambda letter: letter.died_at_us)[: query.limit]
    return _after(mail.letters, query.after, query.limit)


def _sent(mail: MemoryMail, query: Sent) -> list[SentEvent]:
    found = mail.sent.values() if query.event_id is None else filter(None, [mail.sent.get(query.event_id)])
    old = [sent for sent in found if query.before is None or sent.at < query.before]
    return sorted(old, key=lambda sent: (sent.at, sent.event_id))[: query.limit]


# The key of each row is the type that its function takes.
MAIL_ANSWERS: dict[type[Query[Any]], Callable[[Any, Any], list[Any]]] = {
    EventsFor: _events_for,
    PendingEvents: _pending_events,
    Taken: _taken,
    Mailbox: _mailbox,
    StaleEvents: _stale_events,
    Letters: _letters,
    Sent: _sent,
}

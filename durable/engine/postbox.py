"""Who waits for which event, and which events wait to be taken: over the store and the open batch.

Part of the coordinator's state; every change is noted in the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Protocol

import attrs

from durable.backends.base import Backend, Batch, EventsFor, Mailbox, PendingCount, Sent, WaitsFor, WaitsOf
from durable.records import DeadLetter, EventWait, PendingEvent, SentEvent

_PAGE = 100
# A wait takes one event, so the first page is short.
_FIRST_PAGE = 4
_ALL = 1 << 40


class HasMail(Protocol):
    """A workflow in memory, as far as its mailbox goes."""

    mail: int | None


class Postbox:
    """Event waits, pending events, dead letters and senders' ids."""

    def __init__(
        self, backend: Backend, max_pending: int, loaded: Mapping[int, HasMail], let_go: AbstractSet[int]
    ) -> None:
        # The open batch; the state replaces it after each commit.
        self.batch = Batch()
        self.backend = backend
        self._max_pending = max_pending
        self._loaded = loaded
        # Who was in memory since the batch was opened, and is not any more.
        self._let_go = let_go
        self._pending: dict[str | None, int] = {}
        # The stored events up to this serial, by name, key and target, were all taken in this batch. Without this a
        # body that takes thousands in one decision would read all those before it again for each of them.
        self._passed: dict[tuple[str, str, int | None], int] = {}

    # --- event waits ----------------------------------------------------------------------------------------------

    def put_wait(self, wait: EventWait) -> None:
        """Note that a workflow waits for an event."""
        self.batch.waits_put[wait.workflow_key, wait.position] = wait

    def drop_wait(self, key: int, position: str) -> None:
        """The wait is over."""
        self.batch.waits_put.pop((key, position), None)
        self.batch.waits_dropped.add((key, position))

    def waits_of(self, key: int) -> dict[str, EventWait]:
        """The event waits, by position, of a workflow that is not in memory."""
        batch = self.batch
        found = {
            wait.position: wait
            for wait in self.backend.find(WaitsOf(workflow_key=key))
            if (key, wait.position) not in batch.waits_dropped
        }
        if key in self._let_go:
            found.update((wait.position, wait) for (owner, _), wait in batch.waits_put.items() if owner == key)
        return found

    def find_waiting_for_event(self, name: str, event_key: str) -> Iterator[EventWait]:
        """Who waits for this event, the longest wait first.

        The batch may change between two steps of this iterator; a wait that is gone by then is passed over.
        """
        batch = self.batch
        after = 0
        while page := self.backend.find(WaitsFor(name=name, event_key=event_key, after_serial=after, limit=_PAGE)):
            after = page[-1].serial
            for wait in page:
                place = (wait.workflow_key, wait.position)
                if place not in batch.waits_dropped and place not in batch.waits_put:
                    yield wait
        fresh = [wait for wait in batch.waits_put.values() if (wait.name, wait.event_key) == (name, event_key)]
        for wait in sorted(fresh, key=lambda wait: wait.serial):
            if batch.waits_put.get((wait.workflow_key, wait.position)) is wait:
                yield wait

    # --- pending events -------------------------------------------------------------------------------------------

    def put_event(self, event: PendingEvent) -> None:
        """Keep an event until somebody takes it."""
        self._count(event.name, 1)
        if event.unstarted is not None:
            self._count(None, 1)
        self._mail(event.target, 1)
        self.batch.events_put[event.serial] = event
        self.batch.events_dropped.discard(event.serial)

    def drop_event(self, event: PendingEvent) -> None:
        """The event was taken, moved or has expired."""
        self._count(event.name, -1)
        if event.unstarted is not None:
            self._count(None, -1)
        self._mail(event.target, -1)
        self.batch.events_put.pop(event.serial, None)
        self.batch.events_dropped.add(event.serial)

    def events_for(self, name: str, event_key: str, target: int | None) -> Iterator[PendingEvent]:
        """Pending events of a mailbox, or of the untargeted queue, in the order in which they were sent."""
        if not self.pending_count(name):
            return
        place = (name, event_key, target)
        after = self._passed.get(place, 0)
        is_front = True
        query = EventsFor(name=name, event_key=event_key, target=target, limit=_FIRST_PAGE)
        while page := self.backend.find(attrs.evolve(query, after_serial=after)):
            query = EventsFor(name=name, event_key=event_key, target=target, limit=_PAGE)
            after = page[-1].serial
            for event in page:
                if event.serial not in self.batch.events_dropped and event.serial not in self.batch.events_put:
                    is_front = False
                    yield event
                elif is_front:
                    self._passed[place] = event.serial
        for event in list(self.batch.events_put.values()):
            same = (event.name, event.event_key, event.target) == (name, event_key, target)
            if same and event.unstarted is None and event.serial in self.batch.events_put:
                yield event

    def mailbox(self, target: int | None = None, unstarted: str | None = None) -> list[PendingEvent]:
        """Everything that was sent to a workflow and not taken, or kept for an id that is not started yet."""
        # No limit in effect: what was accepted must not be left behind; each name is bounded by `keep`.
        stored = self.backend.find(Mailbox(target=target, unstarted=unstarted, limit=_ALL))
        batch = self.batch
        found = [e for e in stored if e.serial not in batch.events_dropped and e.serial not in batch.events_put]
        found += [e for e in batch.events_put.values() if (e.target, e.unstarted) == (target, unstarted)]
        return sorted(found, key=lambda event: event.serial)

    def pending_count(self, name: str | None) -> int:
        """How many events of a name are pending; with None, how many wait for an id that is not started yet."""
        if name not in self._pending:
            self._pending[name] = self.backend.count(PendingCount(name=name))
        return self._pending[name]

    def _count(self, name: str | None, change: int) -> None:
        self._pending[name] = self.pending_count(name) + change

    def _mail(self, target: int | None, change: int) -> None:
        loaded = None if target is None else self._loaded.get(target)
        if loaded is not None and loaded.mail is not None:
            loaded.mail += change

    # --- dead letters and sent events -----------------------------------------------------------------------------

    def put_letter(self, letter: DeadLetter) -> None:
        """Keep an event that its workflow never took."""
        self.batch.letters_put[letter.id] = letter

    def drop_letter(self, id: int) -> None:
        """The letter was sent again or removed."""
        self.batch.letters_put.pop(id, None)
        self.batch.letters_dropped.add(id)

    def sent(self, event_id: str) -> SentEvent | None:
        """What was sent before under a sender's event id."""
        if (fresh := self.batch.sent_put.get(event_id)) is not None:
            return fresh
        found = () if event_id in self.batch.sent_dropped else self.backend.find(Sent(event_id=event_id))
        return found[0] if found else None

    def next_batch(self, batch: Batch) -> None:
        """A new batch is open."""
        self.batch = batch
        if self._passed:
            self._passed = {}
        if len(self._pending) > 10_000:
            self._pending.clear()

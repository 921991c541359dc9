"""Which events wait to be taken, and where: over the store and the open batch.

Part of the coordinator's state; every change is noted in the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import merge
from typing import Protocol

import attrs

from durable.backends.base import (
    Backend,
    Batch,
    EventsFor,
    Mailbox,
    PendingCount,
    PendingEvents,
)
from durable.model.records import PendingEvent

_PAGE = 100
# A wait takes one event, so the first page is short.
_FIRST_PAGE = 4
_ALL = 1 << 40
# The cache of counts is emptied when it is full.
_CACHED_MAX = 10_000
# What is counted: an untargeted name and whether its broadcasts were taken, a mailbox, or that of an unstarted id.
_Box = tuple[str | None, bool, int | None, str | None]
_ALL_UNSTARTED: _Box = (None, False, None, None)


class HasMail(Protocol):
    """A workflow in memory, as far as its mailbox goes."""

    mail: int | None


class Postbox:
    """Pending events."""

    def __init__(self, backend: Backend, loaded: Mapping[int, HasMail]) -> None:
        # The open batch; the state replaces it after each commit.
        self.batch = Batch()
        self.backend = backend
        self._loaded = loaded
        self._pending: dict[_Box, int] = {}
        # The broadcasts that the open batch has put, by name and key.
        self._fresh: dict[tuple[str, str], dict[int, PendingEvent]] = {}
        # The stored events up to this serial, by name, key and target, were all taken in this batch. Without this a
        # body that takes thousands in one decision would read all those before it again for each of them.
        self._passed: dict[tuple[str, str, int | None], int] = {}

    # --- pending events -------------------------------------------------------------------------------------------

    def put_event(self, event: PendingEvent) -> None:
        """Keep an event until somebody takes it."""
        self._count(event, 1)
        self._mail(event.target, 1)
        self.batch.events_put[event.serial] = event
        self.batch.events_dropped.discard(event.serial)
        if not event.consume:
            self._fresh.setdefault((event.name, event.event_key), {})[event.serial] = event

    def drop_event(self, event: PendingEvent) -> None:
        """The event was taken, moved or has expired."""
        self._count(event, -1)
        self._mail(event.target, -1)
        self.batch.events_put.pop(event.serial, None)
        self.batch.events_dropped.add(event.serial)
        if not event.consume:
            self._fresh.get((event.name, event.event_key), {}).pop(event.serial, None)

    def current(self, event: PendingEvent) -> PendingEvent:
        """The same event, as the open batch has it: another workflow may have taken the broadcast."""
        return self.batch.events_put.get(event.serial, event)

    def is_touched(self, event: PendingEvent) -> bool:
        """Whether the open batch has dropped or put this event."""
        return event.serial in self.batch.events_dropped or event.serial in self.batch.events_put

    def event(self, serial: int) -> PendingEvent | None:
        """The pending event with this serial."""
        if (fresh := self.batch.events_put.get(serial)) is not None:
            return fresh
        found = () if serial in self.batch.events_dropped else self.backend.find(PendingEvents(serial=serial))
        return found[0] if found else None

    def events_for(
        self, name: str, event_key: str, target: int | None, *, after: int = 0, seen: int = 0
    ) -> Iterator[PendingEvent]:
        """Pending events of a mailbox, or of the untargeted queue, in the order in which they were sent.

        Those up to the serial `after`, and broadcasts up to the serial `seen`, are left out without reading them.
        """
        if target is not None:
            return self._consumed(name, event_key, target, after) if self.pending_count(target=target) else iter(())
        broadcasts = self.broadcasts(name, event_key, max(after, seen))
        if not self.pending_count(name):
            return broadcasts
        return merge(self._consumed(name, event_key, None, after), broadcasts, key=lambda event: event.serial)

    def _consumed(self, name: str, event_key: str, target: int | None, after: int) -> Iterator[PendingEvent]:
        """The events of a queue that one workflow takes."""
        place = (name, event_key, target)
        passed = self._passed.get(place, 0)
        first, is_front, after = after, after <= passed, max(after, passed)
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
            is_wanted = same and event.consume and event.unstarted is None
            if is_wanted and event.serial > first and event.serial in self.batch.events_put:
                yield event

    def broadcasts(self, name: str, event_key: str, seen: int = 0) -> Iterator[PendingEvent]:
        """The broadcasts that are kept of a name and key, after the serial `seen`."""
        fresh = self._fresh.get((name, event_key), {})
        new = sorted((event for event in fresh.values() if event.serial > seen), key=lambda event: event.serial)
        return merge(self._stored_broadcasts(name, event_key, seen), new, key=lambda event: event.serial)

    def _stored_broadcasts(self, name: str, event_key: str, seen: int) -> Iterator[PendingEvent]:
        query = EventsFor(name=name, event_key=event_key, target=None, consume=False, limit=_FIRST_PAGE)
        while page := self.backend.find(attrs.evolve(query, after_serial=seen)):
            query = EventsFor(name=name, event_key=event_key, target=None, consume=False, limit=_PAGE)
            seen = page[-1].serial
            for event in page:
                if event.serial not in self.batch.events_dropped and event.serial not in self.batch.events_put:
                    yield event

    def has_untargeted(self, name: str) -> bool:
        """Whether anything untargeted is kept under a name, with whatever key."""
        return bool(self.pending_count(name) or self.pending_count(name, taken=True))

    def mailbox(self, target: int | None = None, unstarted: str | None = None) -> list[PendingEvent]:
        """Everything that was sent to a workflow and not taken, or kept for an id that is not started yet."""
        # No limit in effect: what was accepted must not be left behind; each name is bounded by `keep`.
        stored = self.backend.find(Mailbox(target=target, unstarted=unstarted, limit=_ALL))
        batch = self.batch
        found = [e for e in stored if e.serial not in batch.events_dropped and e.serial not in batch.events_put]
        found += [e for e in batch.events_put.values() if (e.target, e.unstarted) == (target, unstarted)]
        return sorted(found, key=lambda event: event.serial)

    def pending_count(
        self, name: str | None = None, *, taken: bool = False, target: int | None = None, unstarted: str | None = None
    ) -> int:
        """How many events are pending, as `PendingCount` says."""
        box = (name, taken, target, unstarted)
        known = self._pending.get(box)
        if known is None:
            query = PendingCount(name=name, taken=taken, target=target, unstarted=unstarted)
            known = self._pending[box] = self.backend.count(query)
        return known

    def _count(self, event: PendingEvent, change: int) -> None:
        if event.target is not None:
            self._change((None, False, event.target, None), change)
        elif event.unstarted is not None:
            self._change((None, False, None, event.unstarted), change)
            self._change(_ALL_UNSTARTED, change)
        else:
            self._change((event.name, event.taken, None, None), change)

    def _change(self, box: _Box, change: int) -> None:
        name, taken, target, unstarted = box
        self._pending[box] = self.pending_count(name, taken=taken, target=target, unstarted=unstarted) + change

    def _mail(self, target: int | None, change: int) -> None:
        loaded = None if target is None else self._loaded.get(target)
        if loaded is not None and loaded.mail is not None:
            loaded.mail += change

    def next_batch(self, batch: Batch) -> None:
        """A new batch is open."""
        self.batch = batch
        if self._passed:
            self._passed = {}
        if self._fresh:
            self._fresh = {}
        if len(self._pending) > _CACHED_MAX:
            self._pending.clear()

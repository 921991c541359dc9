"""Pending events, over the store and the open batch. Part of the coordinator's state.

A pending event is in one of three places: the *mailbox* of a workflow (`target`), the mailbox of an id that is not
started yet (`unstarted`), or the *queue* of its name and key (untargeted). Broadcasts are untargeted and stay in the
queue when a workflow takes them; every other event is taken once.

Everything here is ordered by serial, which is the order in which events were sent. The caches (`_pending`, `_passed`,
`_fresh`) only save reads.
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
from durable.engine.state.prefetched import Prefetched
from durable.model.records import PendingEvent

_PAGE = 100
# A wait takes one event, so the first page is short.
_FIRST_PAGE = 4
_ALL = 1 << 40
# The cache of counts is emptied when it is full.
_CACHED_MAX = 10_000
# The arguments of a `PendingCount`: an untargeted name and whether its broadcasts were taken, the key of a mailbox, or
# an unstarted id.
_Box = tuple[str | None, bool, int | None, str | None]
_ALL_UNSTARTED: _Box = (None, False, None, None)


class HasMail(Protocol):
    """A workflow in memory, with the length of its mailbox. None if it was not counted yet."""

    mail: int | None


class Postbox:
    """Stores, counts and finds pending events. Knows nothing about who may take one: see `decide.events`."""

    def __init__(self, backend: Backend, prefetched: Prefetched, loaded: Mapping[int, HasMail]) -> None:
        # The open batch; the state replaces it after each commit.
        self.batch = Batch()
        self.backend = backend
        self._prefetched = prefetched
        self._loaded = loaded
        self._pending: dict[_Box, int] = {}
        # The broadcasts that the open batch has put, by name and key.
        self._fresh: dict[tuple[str, str], dict[int, PendingEvent]] = {}
        # By name, key and target: the stored events up to this serial were all taken in this batch. Without this, a
        # body that takes thousands of events in one decision would read the taken ones again for each event.
        self._passed: dict[tuple[str, str, int | None], int] = {}

    # --- pending events -------------------------------------------------------------------------------------------

    def put_event(self, event: PendingEvent) -> None:
        """Keep an event, or replace it if it is kept already. The caller has checked the limit."""
        self._count(event, 1)
        self._mail(event.target, 1)
        self.batch.events_put[event.serial] = event
        self.batch.events_dropped.discard(event.serial)
        if not event.consume:
            self._fresh.setdefault((event.name, event.event_key), {})[event.serial] = event

    def drop_event(self, event: PendingEvent) -> None:
        """Remove an event because it was taken, moved, or has expired."""
        self._count(event, -1)
        self._mail(event.target, -1)
        self.batch.events_put.pop(event.serial, None)
        self.batch.events_dropped.add(event.serial)
        if not event.consume:
            self._fresh.get((event.name, event.event_key), {}).pop(event.serial, None)

    def current(self, event: PendingEvent) -> PendingEvent:
        """The same event as the open batch has it. It differs if another workflow has taken the broadcast since."""
        return self.batch.events_put.get(event.serial, event)

    def is_touched(self, event: PendingEvent) -> bool:
        """Whether the open batch has dropped or put this event."""
        return event.serial in self.batch.events_dropped or event.serial in self.batch.events_put

    def event(self, serial: int) -> PendingEvent | None:
        """The pending event with this serial."""
        if (fresh := self.batch.events_put.get(serial)) is not None:
            return fresh
        stored = () if serial in self.batch.events_dropped else self.backend.find(PendingEvents(serial=serial))
        return stored[0] if stored else None

    def events_for(
        self, name: str, event_key: str, target: int | None, *, after: int = 0, seen: int = 0
    ) -> Iterator[PendingEvent]:
        """Pending events of a mailbox, or of the queue if `target` is None, in the order in which they were sent.

        Skips events up to the serial `after`, and broadcasts up to the serial `seen`, without reading them. The caller
        may drop events while it iterates.
        """
        if target is not None:
            return self._consumed(name, event_key, target, after) if self.pending_count(target=target) else iter(())
        broadcasts = self.broadcasts(name, event_key, max(after, seen))
        if not self.pending_count(name):
            return broadcasts
        return merge(self._consumed(name, event_key, None, after), broadcasts, key=lambda event: event.serial)

    def _consumed(self, name: str, event_key: str, target: int | None, after: int) -> Iterator[PendingEvent]:
        """The events of a mailbox or queue that are taken once, so without broadcasts."""
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
        """The broadcasts of a name and key after the serial `seen`."""
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
        """Whether any untargeted event of this name is pending, under any key. Cheap: both counts are cached."""
        return bool(self.pending_count(name) or self.pending_count(name, taken=True))

    def mailbox(self, target: int | None = None, unstarted: str | None = None) -> list[PendingEvent]:
        """All events that were sent to a workflow and not taken, or that are kept for an id that is not started yet."""
        # In effect without a limit: no accepted event may be left behind, and `max_pending_events` bounds a mailbox.
        has_none = target in self._prefetched.without_mail
        stored = () if has_none else self.backend.find(Mailbox(target=target, unstarted=unstarted, limit=_ALL))
        batch = self.batch
        events = [e for e in stored if e.serial not in batch.events_dropped and e.serial not in batch.events_put]
        events += [e for e in batch.events_put.values() if (e.target, e.unstarted) == (target, unstarted)]
        return sorted(events, key=lambda event: event.serial)

    def pending_count(
        self, name: str | None = None, *, taken: bool = False, target: int | None = None, unstarted: str | None = None
    ) -> int:
        """How many events are pending; the arguments are those of `PendingCount`. Cached between batches."""
        box = (name, taken, target, unstarted)
        count = self._pending.get(box)
        if count is None:
            query = PendingCount(name=name, taken=taken, target=target, unstarted=unstarted)
            count = self._pending[box] = self.backend.count(query)
        return count

    def _count(self, event: PendingEvent, change: int) -> None:
        """Keep the cached counts right. A count that is missing is first read from the store, which does not include
        the open batch. So every change of the batch must be counted here."""
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
        """Keep the count in the live body right, if it has been counted."""
        loaded = None if target is None else self._loaded.get(target)
        if loaded is not None and loaded.mail is not None:
            loaded.mail += change

    def next_batch(self, batch: Batch) -> None:
        """A new batch is open. What was cached about the last one is void."""
        self.batch = batch
        if self._passed:
            self._passed = {}
        if self._fresh:
            self._fresh = {}
        if len(self._pending) > _CACHED_MAX:
            self._pending.clear()

"""Waits and events: who waits for what, what is pending, and what remains of an event. Part of the coordinator's state.

- `Waits` has a row for each wait whose answer must find it: a wait for an event, for a person, or for the end of a
  spawned child. A row belongs to a workflow and a position. Rows of *guests*, which are waits of other shards, are
  here too (`decide.waits`).
- `Postbox` has the pending events. Each is in one of three places: the *mailbox* of a workflow (`target`), the mailbox
  of an id that is not started yet (`unstarted`), or the *queue* of its name and key (untargeted). Broadcasts are
  untargeted and stay in the queue when a workflow takes them; every other event is taken once. Everything is ordered by
  serial, which is the order in which events were sent. Its caches (`_pending`, `_passed`, `_fresh`) only save reads.
- `Archive` has what remains afterwards: which broadcasts each workflow has taken, dead letters, and the reply to each
  sender's event id, so that a repeated send gets the same reply.

All of them read through the open batch and then the store. None of them knows who may take an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from typing import Any, Protocol

import attrs

from durable.backends.base import (
    Backend,
    Batch,
    EventsFor,
    Letters,
    Mailbox,
    PendingCount,
    PendingEvents,
    Sent,
    Taken,
    WaitsFor,
    WaitsOf,
)
from durable.engine.state.prefetched import Prefetched
from durable.model.dead_letters import DeadLetter
from durable.model.records import EventWait, PendingEvent, SentEvent, TakenBroadcast, WorkflowRecord

# The name of a wait for the end of a spawned child; its event key is the child's key. No event can have this name.
END = ""
_PAGE = 100
# The cache of payload types is emptied when it is full.
_CACHED_MAX = 10_000
# A wait takes one event, so the first page is short.
_FIRST_PAGE = 4
_ALL = 1 << 40
# The arguments of a `PendingCount`: an untargeted name and whether its broadcasts were taken, the key of a mailbox, or
# an unstarted id.
_Box = tuple[str | None, bool, int | None, str | None]
_ALL_UNSTARTED: _Box = (None, False, None, None)
# Higher than any serial.
_NEVER = 1 << 62


class Waits:
    """Stores and finds the rows of waits, by workflow and by event."""

    def __init__(self, backend: Backend, prefetched: Prefetched, let_go: set[int]) -> None:
        # The open batch; the state replaces it after each commit.
        self.batch = Batch()
        self._backend = backend
        self._prefetched = prefetched
        # Bodies evicted since the batch was opened.
        self._let_go = let_go
        # By event name: the payload types that workflows in this process have waited for. Used only to refuse a sender
        # with the wrong type early.
        self.awaited: dict[str, list[Any]] = {}
        # The names of events that were kept because no workflow waited. Used only to warn of a misspelt name.
        self.kept: set[str] = set()

    def put(self, wait: EventWait) -> None:
        """Store or replace the row of a wait."""
        self.batch.waits_put[wait.workflow_key, wait.position] = wait

    def change(self, wait: EventWait) -> None:
        """Replace the row of a wait whose workflow may not be in memory."""
        self._let_go.add(wait.workflow_key)
        self.put(wait)

    def at(self, key: int, position: str) -> EventWait | None:
        """The row of a workflow's wait at a position, if there is one."""
        place = (key, position)
        if (fresh := self.batch.waits_put.get(place)) is not None:
            return fresh
        if place in self.batch.waits_dropped:
            return None
        rows = self._backend.find(WaitsOf(workflow_key=key))
        return next((row for row in rows if row.position == position), None)

    def drop(self, key: int, position: str) -> None:
        """Delete the row of a wait that is over."""
        self.batch.waits_put.pop((key, position), None)
        self.batch.waits_dropped.add((key, position))

    def of(self, key: int) -> dict[str, EventWait]:
        """The rows of a workflow that is not in memory, by position."""
        batch = self.batch
        has_none = key in self._prefetched.without_waits
        stored = () if has_none else self._backend.find(WaitsOf(workflow_key=key))
        rows = {wait.position: wait for wait in stored if (key, wait.position) not in batch.waits_dropped}
        if key in self._let_go:
            rows.update((wait.position, wait) for (owner, _), wait in batch.waits_put.items() if owner == key)
        return rows

    def find_waiting_for_event(self, name: str, event_key: str) -> Iterator[EventWait]:
        """The waits for an event of this name and key, the longest wait first.

        The batch may change between two steps of this iterator: a wait that has ended in the meantime is skipped.
        """
        batch = self.batch
        after = 0
        while page := self._backend.find(WaitsFor(name=name, event_key=event_key, after_serial=after, limit=_PAGE)):
            after = page[-1].serial
            for wait in page:
                place = (wait.workflow_key, wait.position)
                if place not in batch.waits_dropped and place not in batch.waits_put:
                    yield wait
        fresh = [wait for wait in batch.waits_put.values() if (wait.name, wait.event_key) == (name, event_key)]
        for wait in sorted(fresh, key=lambda wait: wait.serial):
            if batch.waits_put.get((wait.workflow_key, wait.position)) is wait:
                yield wait

    def note_type(self, name: str, payload_type: Any) -> None:
        """Remember the payload type that a workflow expects of an event."""
        types = self.awaited.setdefault(name, [])
        if payload_type not in types:
            types.append(payload_type)

    def next_batch(self, batch: Batch) -> None:
        """A new batch is open. Also bounds the cache of payload types."""
        self.batch = batch
        if len(self.awaited) > _CACHED_MAX:
            self.awaited.clear()


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


class Archive:
    """Broadcasts that were taken, dead letters and senders' ids.

    Nothing here is cached: a read that the open batch cannot answer goes to the store.
    """

    def __init__(self, backend: Backend) -> None:
        # The open batch; the state replaces it after each commit.
        self.batch = Batch()
        self.backend = backend

    # --- broadcasts that were taken -------------------------------------------------------------------------------

    def seen(self, record: WorkflowRecord, name: str, event_key: str) -> int:
        """The serial of the last broadcast of a name and key that a workflow has taken, or 0."""
        place = (record.key, name, event_key)
        if (fresh := self.batch.taken_put.get(place)) is not None:
            return fresh.serial
        is_cleared = record.key in self.batch.taken_cleared
        query = Taken(workflow_key=record.key, name=name, event_key=event_key)
        # Older stores kept serials in the workflow's row, as `cursors`.
        stored = [] if is_cleared else [taken.serial for taken in self.backend.find(query)]
        return max(stored + [cursor[2] for cursor in record.cursors if cursor[:2] == (name, event_key)], default=0)

    def taken_by(self, record: WorkflowRecord) -> list[TakenBroadcast]:
        """The last broadcast that a workflow has taken, for each name and key."""
        is_cleared = record.key in self.batch.taken_cleared
        stored = () if is_cleared else self.backend.find(Taken(workflow_key=record.key))
        fresh = [taken for taken in self.batch.taken_put.values() if taken.workflow_key == record.key]
        serials = {(name, key): serial for name, key, serial in record.cursors}
        serials |= {(taken.name, taken.event_key): taken.serial for taken in (*stored, *fresh)}
        return [
            TakenBroadcast(workflow_key=record.key, name=name, event_key=key, serial=serial)
            for (name, key), serial in serials.items()
        ]

    def put_taken(self, taken: TakenBroadcast) -> None:
        """Remember that a workflow has taken every broadcast of this name and key up to this serial."""
        self.batch.taken_put[taken.workflow_key, taken.name, taken.event_key] = taken

    def forget_taken(self, name: str, event_key: str, oldest: PendingEvent | None) -> None:
        """Forget which workflows took broadcasts that no longer exist: those before `oldest`, or all if it is None."""
        self.batch.taken_swept[name, event_key] = _NEVER if oldest is None else oldest.serial

    # --- dead letters and sent events -----------------------------------------------------------------------------

    def put_letter(self, letter: DeadLetter) -> None:
        """Keep an event that no workflow will take."""
        self.batch.letters_put[letter.id] = letter

    def letter(self, id: int) -> DeadLetter | None:
        """The dead letter with this id, which is the serial of its event; None if there is none."""
        if (fresh := self.batch.letters_put.get(id)) is not None:
            return fresh
        stored = () if id in self.batch.letters_dropped else self.backend.find(Letters(id=id))
        return stored[0] if stored else None

    def is_buried(self, event: PendingEvent) -> bool:
        """Whether the open batch has made a dead letter of this event."""
        return event.serial in self.batch.letters_put

    def drop_letter(self, id: int) -> None:
        """Remove a dead letter: it was sent again, removed by an operator, or kept for long enough."""
        self.batch.letters_put.pop(id, None)
        self.batch.letters_dropped.add(id)

    def put_sent(self, sent: SentEvent) -> None:
        """Remember what was sent under a sender's event id, and the reply."""
        self.batch.sent_put[sent.event_id] = sent

    def drop_sent(self, rows: Iterable[SentEvent]) -> None:
        """Forget senders' event ids that are past their retention. A repeat counts as a new event from then on."""
        self.batch.sent_dropped.update(row.event_id for row in rows)

    def sent(self, event_id: str) -> SentEvent | None:
        """The event that was sent under a sender's event id, with its reply; None if the id is new or forgotten."""
        if (fresh := self.batch.sent_put.get(event_id)) is not None:
            return fresh
        stored = () if event_id in self.batch.sent_dropped else self.backend.find(Sent(event_id=event_id))
        return stored[0] if stored else None

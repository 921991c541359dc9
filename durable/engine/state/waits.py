"""Waits that have a row, over the store and the open batch. Part of the coordinator's state.

A wait has a row if something from outside the body must find it: an event, an answer to a pause, the end of a spawned
child, or an answer from another shard. Timers, activities and awaited children need none.

A row belongs to a workflow and a position. Rows of *guests*, which are waits of other shards, are kept here too: see
`decide.guests`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from durable.backends.base import Backend, Batch, WaitsFor, WaitsOf
from durable.engine.state.prefetched import Prefetched
from durable.model.records import EventWait

# The name of a wait for the end of a spawned child; its event key is the child's key. No event can have this name.
END = ""
_PAGE = 100
# The cache of payload types is emptied when it is full.
_CACHED_MAX = 10_000


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

"""Who waits for which event, pause or child: over the store and the open batch.

Part of the coordinator's state; every change is noted in the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from durable.backends.base import Backend, Batch, WaitsFor, WaitsOf
from durable.model.records import EventWait

_PAGE = 100
# The cache of types is emptied when it is full.
_CACHED_MAX = 10_000


class Waits:
    """The waits that have a row: for events, answers to pauses, and the ends of spawned children."""

    def __init__(self, backend: Backend, let_go: set[int]) -> None:
        # The open batch; the state replaces it after each commit.
        self.batch = Batch()
        self._backend = backend
        # Bodies evicted since the batch was opened.
        self._let_go = let_go
        # By name: the types of payload that workflows have waited for here. Only to find a wrong sender early.
        self.awaited: dict[str, list[Any]] = {}
        # The names of events that were kept here because nobody waited. Only to find a misspelt name.
        self.kept: set[str] = set()

    def put(self, wait: EventWait) -> None:
        """Note that a workflow waits for an event."""
        self.batch.waits_put[wait.workflow_key, wait.position] = wait

    def change(self, wait: EventWait) -> None:
        """Change what is noted of a wait, whether its workflow is in memory or not."""
        self._let_go.add(wait.workflow_key)
        self.put(wait)

    def at(self, key: int, position: str) -> EventWait | None:
        """The wait of a workflow at a position, if it is noted."""
        place = (key, position)
        if (fresh := self.batch.waits_put.get(place)) is not None:
            return fresh
        if place in self.batch.waits_dropped:
            return None
        rows = self._backend.find(WaitsOf(workflow_key=key))
        return next((row for row in rows if row.position == position), None)

    def drop(self, key: int, position: str) -> None:
        """The wait is over."""
        self.batch.waits_put.pop((key, position), None)
        self.batch.waits_dropped.add((key, position))

    def of(self, key: int) -> dict[str, EventWait]:
        """The event waits, by position, of a workflow that is not in memory."""
        batch = self.batch
        found = {
            wait.position: wait
            for wait in self._backend.find(WaitsOf(workflow_key=key))
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
        """A workflow waits for an event with this type of payload."""
        types = self.awaited.setdefault(name, [])
        if payload_type not in types:
            types.append(payload_type)

    def next_batch(self, batch: Batch) -> None:
        """A new batch is open."""
        self.batch = batch
        if len(self.awaited) > _CACHED_MAX:
            self.awaited.clear()

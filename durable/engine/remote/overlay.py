"""A store as readers see it while no engine runs: with the starts and events that clients have kept.

A kept start looks like a workflow that has not begun: SUSPENDED, without history, with a key above all stored ones. A
kept event looks like a pending one. So lists, counts, descriptions and waits for an end need no case for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, cast

from durable.backends.base import (
    Backend,
    HistoryLength,
    KeptRequests,
    PendingCount,
    PendingEvents,
    Query,
    R,
    Reads,
    Workflows,
)
from durable.engine.operations import Operation, SendEvent, StartWorkflow
from durable.engine.operations.forms import read_text
from durable.engine.remote.wire import read_operation
from durable.errors import CodecError, NotSupported
from durable.model.ids import digest
from durable.model.records import BY_KEY, HistoryEntry, PendingEvent, WorkflowRecord, WorkflowStatus
from durable.model.requests import KEPT_ABOVE, KeptRequest

# The most requests that are kept for the next engine.
KEPT_MAX = 10_000


class Overlay:
    """The questions of the engine to a store, answered with what is kept for the next engine."""

    def __init__(self, store: Reads) -> None:
        self._store = store
        kept = [(request, _operation(request)) for request in store.find(KeptRequests(limit=KEPT_MAX))]
        # The number of the last request, and how many there are.
        self.last = kept[-1][0].number if kept else 0
        self.count_kept = len(kept)
        self.starts: dict[str, WorkflowRecord] = {}
        self.events: list[tuple[KeptRequest, SendEvent]] = []
        for request, operation in kept:
            if isinstance(operation, StartWorkflow):
                # The first start of an id is the one that counts.
                self.starts.setdefault(operation.id, kept_record(request, operation))
            elif isinstance(operation, SendEvent):
                self.events.append((request, operation))
        self._by_key = {record.key: record for record in self.starts.values()}

    def workflow(self, id: str) -> WorkflowRecord | None:
        """The workflow with this id, or the kept start."""
        return self._store.workflow(id) or self.starts.get(id)

    def workflow_by_key(self, key: int) -> WorkflowRecord | None:
        """The workflow with this key, or the kept start."""
        return self._by_key.get(key) or self._store.workflow_by_key(key)

    def history(self, key: int) -> list[HistoryEntry]:
        """The history of a workflow. A kept start has none."""
        return [] if key in self._by_key else self._store.history(key)

    def find(self, query: Query[R]) -> Sequence[R]:
        """The rows that answer a question, with those for what is kept in their places."""
        asked: Any = query
        if isinstance(asked, Workflows) and self._by_key:
            return cast("Sequence[R]", self._workflows(asked))
        if isinstance(asked, PendingEvents) and self.events:
            return cast("Sequence[R]", self._pending(asked))
        return self._store.find(query)

    def count(self, query: Workflows | PendingCount | HistoryLength) -> int:
        """The number of rows that answer a question."""
        if isinstance(query, Workflows):
            return self._store.count(query) + sum(_matches(query, record) for record in self._by_key.values())
        return self._store.count(query)

    def _workflows(self, query: Workflows) -> list[WorkflowRecord]:
        """Kept starts are the newest workflows: first or last in a list."""
        kept = [record for record in self._by_key.values() if _matches(query, record) and _is_on_page(query, record)]
        kept.sort(key=lambda record: record.key, reverse=query.newest_first)
        stored = self._store.find(query)
        page = [*kept, *stored] if query.newest_first else [*stored, *kept]
        return page[: query.limit]

    def _pending(self, query: PendingEvents) -> list[PendingEvent]:
        """Kept events are the last ones."""
        stored = self._store.find(query)
        waiting = (self._event(request, event) for request, event in self.events)
        kept = (event for event in waiting if _is_asked_for(query, event))
        return [*stored, *islice(kept, query.limit - len(stored))]

    def _event(self, request: KeptRequest, event: SendEvent) -> PendingEvent:
        target = None if event.to is None else self.workflow(event.to)
        return PendingEvent(
            serial=KEPT_ABOVE + request.number,
            name=event.name,
            event_key=event.event_key,
            target=None if target is None else target.key,
            unstarted=event.to if target is None else None,
            payload=event.payload,
            sent_at=request.at,
            expires_at=None if event.expire_after is None else request.at + event.expire_after,
            consume=event.consume or event.to is not None,
        )


def over(store: Reads) -> tuple[Overlay, Backend]:
    """An overlay, also as the backend of a state that only reads."""
    overlay = Overlay(store)
    return overlay, cast("Backend", overlay)


def kept_record(request: KeptRequest, start: StartWorkflow) -> WorkflowRecord:
    """How a kept start is shown."""
    return WorkflowRecord(
        key=KEPT_ABOVE + request.number,
        id=start.id,
        name=start.name,
        version=start.version,
        status=WorkflowStatus.SUSPENDED,
        input=start.input,
        start_digest=digest(start.name, start.input),
        created_at=request.at,
        start_at=request.at + start.delay,
        wake_at=request.at + start.delay if start.delay else None,
        tags=start.tags,
        position_format=BY_KEY,
    )


def _operation(request: KeptRequest) -> Operation[Any] | None:
    """The operation of a kept request; None if it cannot be read, which the next engine reports."""
    try:
        return read_operation(read_text(request.operation))
    except (CodecError, NotSupported):
        return None


def _matches(query: Workflows, record: WorkflowRecord) -> bool:
    return (
        (not query.statuses or record.status in query.statuses)
        and query.name in (None, record.name)
        and (query.tag is None or query.tag in record.tags)
        and (query.created_since is None or record.created_at >= query.created_since)
        and (query.created_until is None or record.created_at <= query.created_until)
        and (query.id_prefix is None or record.id.startswith(query.id_prefix))
        # A kept start has neither a parent nor an end.
        and query.parent is None
        and query.finished_before is None
    )


def _is_on_page(query: Workflows, record: WorkflowRecord) -> bool:
    if query.after is None:
        return True
    return record.key < query.after if query.newest_first else record.key > query.after


def _is_asked_for(query: PendingEvents, event: PendingEvent) -> bool:
    return (
        query.serial in (None, event.serial)
        and event.serial > query.after
        and query.name in (None, event.name)
        and query.target in (None, event.target)
        and query.unstarted in (None, event.unstarted)
        and (query.valid_at is None or event.expires_at is None or event.expires_at > query.valid_at)
    )

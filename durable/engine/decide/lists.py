"""Lists: pages of workflows, events, dead letters, pauses and schedules, as the last commit left them.

A list is answered after the commit of its batch, from the store alone. So it shows everything that was decided before
it, and it cannot change anything: a `Reading` has no batch and no live body. A page continues after the last entry that
the caller has seen (`after`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import attrs

from durable.backends.base import (
    Backend,
    Background,
    Backgrounds,
    Letters,
    OpenPauses,
    PendingEvents,
    Query,
    Schedules,
    Workflows,
)
from durable.engine.operations import (
    CountWorkflows,
    Listed,
    ListEvents,
    ListLetters,
    ListPauses,
    ListSchedules,
    ListWorkflows,
    Operation,
)
from durable.errors import CodecError, WorkflowNotFound
from durable.model.clock import to_datetime
from durable.model.dead_letters import DeadLetter, PendingEventInfo, decoded
from durable.model.records import OpenPause, PendingEvent, WorkflowRecord
from durable.model.schedule import ScheduleRecord

R = TypeVar("R")


@attrs.frozen
class Reading:
    """The part of the store that lists may use, and the time."""

    _backend: Backend
    now: int

    def find(self, query: Query[R]) -> Sequence[R]:
        """The rows that answer a question."""
        return self._backend.find(query)

    def count(self, query: Workflows) -> int:
        """How many workflows match."""
        return self._backend.count(query)

    def workflow(self, id: str) -> WorkflowRecord | None:
        """The workflow with this id, also one whose row is damaged."""
        return self._backend.workflow(id)

    def id_of(self, key: int) -> str | None:
        """The id of the workflow with this key; None if it is gone or its row is damaged."""
        record = self._backend.workflow_by_key(key)
        return None if record is None or record.is_damaged else record.id


def answer_list(backend: Backend, op: Operation[Any], now: int) -> Any:
    """The answer to a list. Called by the coordinator after the commit."""
    return _LISTS[type(op)](Reading(backend, now), op)


def list_workflows(reading: Reading, op: ListWorkflows) -> list[Listed]:
    """A page of workflows, with two queries whatever its length. Raises `WorkflowNotFound` for an unknown `after`."""
    last = None if op.after is None else reading.workflow(op.after)
    if op.after is not None and last is None:
        raise WorkflowNotFound(op.after)
    records = reading.find(attrs.evolve(op.query, after=None if last is None else last.key))
    if not records:
        return []
    backgrounds = reading.find(Backgrounds(tuple(record.key for record in records)))
    by_key = {background.workflow_key: background for background in backgrounds}
    # The store leaves out a background whose row is damaged.
    return [Listed(record, by_key.get(record.key) or Background(record.key, None, None)) for record in records]


def count_workflows(reading: Reading, op: CountWorkflows) -> int:
    """How many workflows match."""
    return reading.count(op.query)


def list_pauses(reading: Reading, op: ListPauses) -> list[OpenPause]:
    """A page of open pauses. Raises `WorkflowNotFound`, or `CodecError` for a workflow whose row is damaged."""
    key: int | None = None
    if op.workflow_id is not None:
        record = reading.workflow(op.workflow_id)
        if record is None:
            raise WorkflowNotFound(op.workflow_id)
        if record.is_damaged:
            raise CodecError(f"workflow id {record.id!r}", record.park_detail or "it is damaged")
        key = record.key
    return list(reading.find(OpenPauses(workflow_key=key, name=op.name, after=op.after, limit=op.limit)))


def list_events(reading: Reading, op: ListEvents) -> list[PendingEventInfo]:
    """A page of pending events: all, those of a name, or those sent to one id. Without expired ones."""
    record = None if op.to is None else reading.workflow(op.to)
    target = None if record is None else record.key
    unstarted = op.to if record is None else None
    page = PendingEvents(
        name=op.name, target=target, unstarted=unstarted, valid_at=reading.now, after=op.after, limit=op.limit
    )
    return [_info(reading, event) for event in reading.find(page)]


def _info(reading: Reading, event: PendingEvent) -> PendingEventInfo:
    owner = None if event.target is None else reading.id_of(event.target)
    return PendingEventInfo(
        id=event.serial,
        name=event.name,
        key=event.event_key or None,
        to=event.unstarted if owner is None else owner,
        payload=decoded(event.payload),
        sent_at=to_datetime(event.sent_at),
        expires_at=None if event.expires_at is None else to_datetime(event.expires_at),
        is_broadcast=not event.consume,
    )


def list_letters(reading: Reading, op: ListLetters) -> list[DeadLetter]:
    """A page of dead letters."""
    return list(reading.find(Letters(after=op.after, limit=op.limit)))


def list_schedules(reading: Reading, op: ListSchedules) -> list[ScheduleRecord]:
    """A page of schedules."""
    return list(reading.find(Schedules(after=op.after, limit=op.limit)))


_LISTS: dict[type[Operation[Any]], Callable[[Reading, Any], Any]] = {
    ListWorkflows: list_workflows,
    CountWorkflows: count_workflows,
    ListPauses: list_pauses,
    ListEvents: list_events,
    ListLetters: list_letters,
    ListSchedules: list_schedules,
}

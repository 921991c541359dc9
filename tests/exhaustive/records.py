"""What is stored, as values that can be compared: the story of a run, and the whole state at one moment."""

from __future__ import annotations

from typing import Any

import attrs

from durable.backends.base import (
    Backend,
    Letters,
    Mailbox,
    ProgressOf,
    Schedules,
    Sent,
    StaleEvents,
    WaitsOf,
    Workflows,
)
from durable.engine.operations import DescribeWorkflow
from durable.model.error_codec import error_summary
from durable.model.records import EntryKind, EntryStatus, HistoryEntry, PendingEvent, WorkflowRecord
from durable.runner.past import Retried
from tests.exhaustive.service import Service

_ALL = 1_000_000
_FAR = 1 << 60


def workflows(store: Backend) -> list[WorkflowRecord]:
    """All workflows."""
    return list(store.find(Workflows(limit=_ALL)))


def events(store: Backend) -> list[PendingEvent]:
    """All pending events, in mailboxes and in queues."""
    loose = store.find(StaleEvents(expired_at=_FAR, since_before=_FAR, limit=_ALL))
    boxed = [event for record in workflows(store) for event in store.find(Mailbox(target=record.key, limit=_ALL))]
    return sorted({event.serial: event for event in (*loose, *boxed)}.values(), key=lambda event: event.serial)


def _entry(entry: HistoryEntry) -> tuple[Any, ...]:
    outcome: Any = entry.outcome if entry.status is EntryStatus.OK else error_summary(entry.outcome)
    if entry.kind is EntryKind.RETRIED:
        # The time spent FAILED depends on the clock.
        outcome = Retried.of(entry).entries
    return (entry.seq, entry.position, entry.kind, entry.name, entry.status, outcome)


def story(store: Backend) -> dict[str, Any]:
    """Everything that depends neither on the clock nor on the number of crashes."""
    ids: dict[int | None, str] = {record.key: record.id for record in workflows(store)}
    return {
        "workflows": {
            record.id: (
                record.name, record.status, record.input, record.result, record.error and error_summary(record.error),
                record.round, ids.get(record.parent_key), record.parent_place, record.cancel_requested,
                record.cancel_reason, record.tags, record.park_reason, record.wake_at is None, record.on_parent_close,
            )
            for record in workflows(store)
        },
        "history": {record.id: [*map(_entry, store.history(record.key))] for record in workflows(store)},
        "waits": {
            record.id: [
                (row.position, row.name, row.event_key, row.question and row.question.prompt)
                for row in store.find(WaitsOf(workflow_key=record.key))
            ]
            for record in workflows(store)
        },
        "events": [
            (event.name, event.event_key, ids.get(event.target), event.unstarted, event.payload, event.consume)
            for event in events(store)
        ],
        "letters": [
            (letter.name, letter.event_key, letter.workflow_id, letter.payload_json)
            for letter in store.find(Letters(limit=_ALL))
        ],
        "sent": {row.event_id: (row.digest, row.reply) for row in store.find(Sent(before=_FAR, limit=_ALL))},
        "progress": {
            record.id: [(row.round, row.seq, row.value) for row in store.find(ProgressOf(record.key))]
            for record in workflows(store)
        },
        "schedules": [
            (
                schedule.name, schedule.job, schedule.is_paused, schedule.next_at, schedule.wake_at, schedule.queued,
                schedule.skipped, schedule.last_tick, schedule.last_id, schedule.missed_from, schedule.missed_until,
            )
            for schedule in store.find(Schedules(limit=_ALL))
        ],
    }  # fmt: skip


def state(service: Service) -> dict[str, Any]:
    """Everything at this moment, to the microsecond: rows, open waits, running activities, and the next timer.

    Only the crash counts may differ after a restart. Reading must not change anything, so it must not commit.
    """
    store = service.backend.inner
    commits = service.backend.commits
    records = workflows(store)
    described = [
        service.ask(DescribeWorkflow(record.id)) for record in records
    ]  # fmt: skip
    assert service.backend.commits == commits, "reading has changed something"
    return {
        "records": [
            attrs.asdict(record, filter=lambda field, _: field.name != "crashes") for record in workflows(store)
        ],
        "history": [store.history(record.key) for record in records],
        "waits": [store.find(WaitsOf(workflow_key=record.key)) for record in records],
        "events": events(store),
        "letters": store.find(Letters(limit=_ALL)),
        "sent": store.find(Sent(before=_FAR, limit=_ALL)),
        "progress": [store.find(ProgressOf(record.key)) for record in records],
        "schedules": store.find(Schedules(limit=_ALL)),
        "described": described,
        "running": {(*name, effect.attempt, effect.args) for name, effect in service.running.items()},
        "timer": service.coordinator.state.timers.next(),
        "serial": service.coordinator.state.serial,
    }


def look(service: Service) -> None:
    """Describe every workflow. New code records the answers that `patched` gives on the way."""
    for record in workflows(service.backend.inner):
        service.ask(DescribeWorkflow(record.id))


def check_whole(store: Backend) -> None:
    """No half state: an ended workflow holds nothing, and histories have no gaps except those that loops leave."""
    for record in workflows(store):
        seqs = [entry.seq for entry in store.history(record.key)]
        has_loop = any(entry.kind is EntryKind.LOOP for entry in store.history(record.key))
        assert seqs == sorted(set(seqs)) if has_loop else seqs == [*range(1, len(seqs) + 1)]
        if record.status.is_terminal:
            assert not store.find(WaitsOf(workflow_key=record.key)), f"{record.id} has ended and waits"
            assert not store.find(Mailbox(target=record.key, limit=1)), f"{record.id} has ended and has mail"
            assert record.wake_at is None
            assert record.finished_at is not None

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
    """Every workflow."""
    return list(store.find(Workflows(limit=_ALL)))


def events(store: Backend) -> list[PendingEvent]:
    """Every pending event, of mailboxes and of queues."""
    loose = store.find(StaleEvents(expired_at=_FAR, since_before=_FAR, limit=_ALL))
    boxed = [event for one in workflows(store) for event in store.find(Mailbox(target=one.key, limit=_ALL))]
    return sorted({event.serial: event for event in (*loose, *boxed)}.values(), key=lambda event: event.serial)


def _entry(entry: HistoryEntry) -> tuple[Any, ...]:
    outcome: Any = entry.outcome if entry.status is EntryStatus.OK else error_summary(entry.outcome)
    if entry.kind is EntryKind.RETRIED:
        # How long it had lain failed depends on the clock.
        outcome = Retried.of(entry).entries
    return (entry.seq, entry.position, entry.kind, entry.name, entry.status, outcome)


def story(store: Backend) -> dict[str, Any]:
    """Everything that does not depend on the clock or on how often the process died."""
    ids: dict[int | None, str] = {one.key: one.id for one in workflows(store)}
    return {
        "workflows": {
            one.id: (one.name, one.status, one.input, one.result, one.error and error_summary(one.error), one.round,
                     ids.get(one.parent_key), one.parent_place, one.cancel_requested, one.cancel_reason, one.tags,
                     one.park_reason, one.wake_at is None, one.on_parent_close)
            for one in workflows(store)
        },
        "history": {one.id: [*map(_entry, store.history(one.key))] for one in workflows(store)},
        "waits": {
            one.id: [
                (row.position, row.name, row.event_key, row.question and row.question.prompt)
                for row in store.find(WaitsOf(workflow_key=one.key))
            ]
            for one in workflows(store)
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
            one.id: [(row.round, row.seq, row.value) for row in store.find(ProgressOf(one.key))]
            for one in workflows(store)
        },
        "schedules": [
            (one.name, one.job, one.is_paused, one.next_at, one.wake_at, one.queued, one.skipped, one.last_tick,
             one.last_id, one.missed_from, one.missed_until)
            for one in store.find(Schedules(limit=_ALL))
        ],
    }  # fmt: skip


def state(service: Service) -> dict[str, Any]:
    """Everything at this moment, to the microsecond: rows, open waits of bodies, running activities, the next timer.

    Only the count of crashes may differ after a restart. Looking must not change anything, so it commits nothing.
    """
    store = service.backend.inner
    commits = service.backend.commits
    found = workflows(store)
    described = [
        service.ask(DescribeWorkflow(one.id)) for one in found
    ]  # fmt: skip
    assert service.backend.commits == commits, "looking has changed something"
    return {
        "records": [attrs.asdict(one, filter=lambda field, _: field.name != "crashes") for one in workflows(store)],
        "history": [store.history(one.key) for one in found],
        "waits": [store.find(WaitsOf(workflow_key=one.key)) for one in found],
        "events": events(store),
        "letters": store.find(Letters(limit=_ALL)),
        "sent": store.find(Sent(before=_FAR, limit=_ALL)),
        "progress": [store.find(ProgressOf(one.key)) for one in found],
        "schedules": store.find(Schedules(limit=_ALL)),
        "described": described,
        "running": {(*name, effect.attempt, effect.args) for name, effect in service.running.items()},
        "timer": service.coordinator.state.timers.next(),
        "serial": service.coordinator.state.serial,
    }


def look(service: Service) -> None:
    """Look at every workflow. With new code that is not for nothing: what `patched` answers then is recorded."""
    for one in workflows(service.backend.inner):
        service.ask(DescribeWorkflow(one.id))


def check_whole(store: Backend) -> None:
    """No half state: what has ended holds nothing any more, and histories have no gaps but those that loops leave."""
    for one in workflows(store):
        seqs = [entry.seq for entry in store.history(one.key)]
        has_loop = any(entry.kind is EntryKind.LOOP for entry in store.history(one.key))
        assert seqs == sorted(set(seqs)) if has_loop else seqs == [*range(1, len(seqs) + 1)]
        if one.status.is_terminal:
            assert not store.find(WaitsOf(workflow_key=one.key)), f"{one.id} has ended and waits"
            assert not store.find(Mailbox(target=one.key, limit=1)), f"{one.id} has ended and has mail"
            assert one.wake_at is None
            assert one.finished_at is not None

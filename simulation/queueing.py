"""Invariants of waiting for events: which events a wait may take, which wait is served first, which mail is whose.

Rules like those of `rules`, run before the commit is booked.
"""

from __future__ import annotations

import attrs

from durable.backends.base import Batch
from durable.model.homes import event_home
from durable.model.records import DeliveryMode, EntryKind, EntryStatus, EventWait, WorkflowRecord, WorkflowStatus
from simulation.kinds import read_payload
from simulation.ledger import Ledger
from simulation.violation import Violation


def i16_mail_finds_its_workflow(ledger: Ledger, batch: Batch, now: int) -> None:
    """Events kept for an id that is not started yet become mail of the workflow in the commit that starts it."""
    started = {record.id for record in batch.workflows_new.values()}
    changed = batch.events_dropped | batch.events_put.keys()
    kept = [event for event in ledger.mail.unstarted() if event.serial not in changed]
    for event in (*kept, *batch.events_put.values()):
        if event.unstarted in started or event.unstarted in ledger.ids:
            raise Violation("I16", f"{event.unstarted} is started, and {event.payload} is still kept for its start")


def i17_who_waits_longest_is_served(ledger: Ledger, batch: Batch, now: int) -> None:
    """An untargeted event goes to the workflow that has waited longest."""
    for key, entry in ledger.entries(EntryKind.EVENT):
        if entry.status is not EntryStatus.OK:
            continue
        name, event_key, kind = read_payload(entry.outcome)
        # If the event was pending before, no workflow waited for it.
        if kind.is_targeted or kind.is_choosy or not kind.consume or ledger.mail.find(entry.outcome) is not None:
            continue
        if event_home(name, event_key, ledger.shards) != ledger.shard:
            # It came in a letter. The order of the waits is decided in the home of the event.
            continue
        waiting = ledger.waiting.get((name, event_key), {})
        mine = waiting.get((key, entry.position))
        for (rival, position), wait in waiting.items():
            is_longer = (mine is None or wait.serial < mine.serial) and ledger.is_here(rival)
            if is_longer and (rival, position) not in batch.waits_dropped and not _is_parked(ledger, batch, rival):
                raise Violation("I17", f"workflow {key} took {entry.outcome}, {rival} has waited longer at {position}")


def _is_parked(ledger: Ledger, batch: Batch, key: int) -> bool:
    record: WorkflowRecord = batch.workflows_changed.get(key) or ledger.lives[key].record
    return record.status is WorkflowStatus.PARKED


def i18_a_wait_keeps_its_place(ledger: Ledger, batch: Batch, now: int) -> None:
    """A registered wait does not change until it is over, so it keeps its place in the line."""
    for (key, position), wait in batch.waits_put.items():
        life = ledger.lives.get(key)
        before = life.waits.get(position) if life is not None and key not in batch.restarted else None
        if before is not None and _place_of(before) != _place_of(wait) and ledger.is_here(key):
            raise Violation("I18", f"workflow {key} waits at {position} as {wait}, before as {before}")


def _place_of(wait: EventWait) -> EventWait:
    """The part of a wait that must not change: all but the notes about its registration or question elsewhere."""
    return attrs.evolve(wait, unregistered=None, answer=None)


def i18_a_wait_sees_what_it_asks_for(ledger: Ledger, batch: Batch, now: int) -> None:
    """A wait for events from now on, or since the workflow was created, gets no older event."""
    for key, entry in ledger.entries(EntryKind.EVENT):
        if entry.status is not EntryStatus.OK:
            continue
        event = ledger.mail.find(entry.outcome)
        _, _, kind = read_payload(entry.outcome)
        if event is None or kind.mode is DeliveryMode.ALL:
            continue
        life = ledger.lives.get(key)
        wait = life.waits.get(entry.position) if life is not None else None
        # A wait of this commit began after every event that was pending before it.
        since = key if kind.mode is DeliveryMode.AFTER_CREATE else wait.serial if wait is not None else event.serial
        if event.serial <= since:
            raise Violation("I18", f"workflow {key} takes {entry.outcome} ({event.serial}), which is too old for it")

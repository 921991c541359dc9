"""Invariants of standing in line: which events a wait may see, who is served first, and whose mail is whose.

Asked like those of `rules`, while the ledger does not know the commit yet.
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
    """What is kept for an id that is not started yet becomes mail in the commit in which it is started."""
    started = {record.id for record in batch.workflows_new.values()}
    changed = batch.events_dropped | batch.events_put.keys()
    kept = [event for event in ledger.mail.unstarted() if event.serial not in changed]
    for event in (*kept, *batch.events_put.values()):
        if event.unstarted in started or event.unstarted in ledger.ids:
            raise Violation("I16", f"{event.unstarted} is started, and {event.payload} still waits for that")


def i17_who_waits_longest_is_served(ledger: Ledger, batch: Batch, now: int) -> None:
    """An event that is sent to anybody goes to the one that has waited longest."""
    for key, entry in batch.history:
        if entry.kind is not EntryKind.EVENT or entry.status is not EntryStatus.OK:
            continue
        name, event_key, kind = read_payload(entry.outcome)
        # Where the event was pending nobody waited for it.
        if kind.is_targeted or kind.is_choosy or not kind.consume or ledger.mail.find(entry.outcome) is not None:
            continue
        if event_home(name, event_key, ledger.shards) != ledger.shard:
            # It came in a letter: who was first in the line is a matter of its home.
            continue
        waiting = ledger.waiting.get((name, event_key), {})
        mine = waiting.get((key, entry.position))
        for (other, position), wait in waiting.items():
            is_longer = (mine is None or wait.serial < mine.serial) and ledger.is_here(other)
            if is_longer and (other, position) not in batch.waits_dropped and not _is_parked(ledger, batch, other):
                raise Violation("I17", f"workflow {key} took {entry.outcome}, {other} has waited longer at {position}")


def _is_parked(ledger: Ledger, batch: Batch, key: int) -> bool:
    record: WorkflowRecord = batch.workflows_changed.get(key) or ledger.lives[key].record
    return record.status is WorkflowStatus.PARKED


def i18_a_wait_keeps_its_place(ledger: Ledger, batch: Batch, now: int) -> None:
    """A wait that is registered stays as it is until it is over: the place in the line goes with it."""
    for (key, position), wait in batch.waits_put.items():
        life = ledger.lives.get(key)
        known = life.waits.get(position) if life is not None and key not in batch.restarted else None
        if known is not None and _place_of(known) != _place_of(wait) and ledger.is_here(key):
            raise Violation("I18", f"workflow {key} waits at {position} as {wait}, before as {known}")


def _place_of(wait: EventWait) -> EventWait:
    """What stays the same of a wait: not what is noted of it while it is registered, or asks, in another shard."""
    return attrs.evolve(wait, unregistered=None, answer=None)


def i18_a_wait_sees_what_it_asks_for(ledger: Ledger, batch: Batch, now: int) -> None:
    """Who asks for events from now on, or since the workflow was created, gets no older one."""
    for key, entry in batch.history:
        if entry.kind is not EntryKind.EVENT or entry.status is not EntryStatus.OK:
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
            raise Violation("I18", f"workflow {key} takes {entry.outcome} ({event.serial}) and asked for later ones")

"""Planted bugs: events that are lost, duplicated, out of order, expired or misdirected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from durable.backends.base import Batch
from durable.backends.memory import MemoryStore
from durable.engine.decide import endings, guests, sending, wait_rows
from durable.engine.decide import events as events_decisions
from durable.engine.decide.turn import Turn
from durable.engine.operations.messages import EventMoved
from durable.engine.state.archive import Archive
from durable.engine.state.bodies import Loaded
from durable.engine.state.postbox import Postbox
from durable.engine.state.waits import Waits
from durable.errors import CodecError
from durable.model.records import DeliveryMode, EventWait, PendingEvent, SentEvent, WorkflowRecord, WorkflowStatus
from durable.runner.fibers import WaitCondition
from tests.planted.planting import Planter, bug


@bug("I18", "I17")
def pending_events_not_looked_for(planter: Planter) -> None:
    """A wait is never registered while a matching event is pending."""

    def check_events(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
        pass

    planter.replace(events_decisions, check_events)


@bug("I18")
def waiters_not_looked_for(planter: Planter) -> None:
    """An event is never kept while a matching wait is open."""

    def offer(turn: Turn, event: PendingEvent) -> tuple[str, ...]:
        return ()

    planter.replace(events_decisions, offer)


@bug("I16")
def event_kept_in_memory_only(planter: Planter) -> None:
    """An accepted event survives a crash."""
    put = Postbox.put_event

    def put_event(self: Postbox, event: PendingEvent) -> None:
        put(self, event)
        if event.target is None and event.unstarted is None and event.consume:
            del self.batch.events_put[event.serial]

    planter.replace(Postbox, put_event)


@bug("I16")
def event_delivered_and_kept(planter: Planter) -> None:
    """An event is taken once."""

    def _take_pending(turn: Turn, loaded: Loaded, wait: WaitCondition, event: PendingEvent) -> bool | CodecError:
        return events_decisions.take(turn, loaded, wait, event)

    planter.replace(events_decisions, _take_pending)


@bug("I16")
def event_dropped_and_not_fed(planter: Planter) -> None:
    """An event that leaves the mailbox reaches the body."""

    def _take_pending(turn: Turn, loaded: Loaded, wait: WaitCondition, event: PendingEvent) -> bool:
        turn.state.post.drop_event(event)
        return True

    planter.replace(events_decisions, _take_pending)


@bug("I17", seed=2)
def last_sent_first_taken(planter: Planter) -> None:
    """Events are taken in the order in which they were sent."""
    in_order = Postbox.events_for

    def events_for(self: Postbox, name: str, event_key: str, target: int | None, **to: int) -> Iterator[PendingEvent]:
        return reversed(list(in_order(self, name, event_key, target, **to)))

    planter.replace(Postbox, events_for)


@bug("I16", "I17", seed=99)
def queue_before_the_mailbox(planter: Planter) -> None:
    """Events sent to a workflow come before events sent to nobody in particular."""

    def check_events(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
        row = loaded.rows[wait.position]
        guests.register_wait(turn, loaded.record, row)
        for target in (None, loaded.record.key):
            seen = turn.state.archive.seen(loaded.record, row.name, row.event_key)
            for event in turn.state.post.events_for(row.name, row.event_key, target, seen=seen):
                if events_decisions._fits(loaded.record, row, event) and not events_decisions.is_expired(turn, event):
                    events_decisions._take_pending(turn, loaded, wait, event)
                    return

    planter.replace(events_decisions, check_events)


@bug("I16", seed=110)
def broadcast_taken_twice(planter: Planter) -> None:
    """A workflow takes a broadcast once."""

    def seen(self: Archive, record: WorkflowRecord, name: str, event_key: str) -> int:
        return 0

    planter.replace(Archive, seen)


@bug("I16")
def broadcast_consumed(planter: Planter) -> None:
    """A broadcast stays for later waiters."""
    feed_event = events_decisions.take

    def take(turn: Turn, loaded: Loaded, wait: WaitCondition, event: PendingEvent) -> bool | CodecError:
        answer = feed_event(turn, loaded, wait, event)
        if not event.consume and (kept := turn.state.post.event(event.serial)) is not None:
            turn.state.post.drop_event(kept)
        return answer

    planter.replace(events_decisions, take)


@bug("I16", seed=3)
def expired_event_delivered(planter: Planter) -> None:
    """An expired event is never delivered."""

    def is_expired(turn: Turn, event: PendingEvent) -> bool:
        return False

    planter.replace(events_decisions, is_expired)


@bug("I18", "I16", seed=3)
def expires_too_early(planter: Planter) -> None:
    """An event is kept until it expires."""

    def is_expired(turn: Turn, event: PendingEvent) -> bool:
        return event.expires_at is not None

    planter.replace(events_decisions, is_expired)


@bug("I18", seed=14)
def event_from_before_the_wait(planter: Planter) -> None:
    """A wait for events sent after it began takes no older event."""
    bound = events_decisions._after

    def _after(record: WorkflowRecord, row: EventWait) -> int:
        return 0 if row.mode is DeliveryMode.AFTER_WAIT else bound(record, row)

    planter.replace(events_decisions, _after)


@bug("I18", seed=3)
def event_from_before_the_workflow(planter: Planter) -> None:
    """A wait for events sent after its workflow was created takes no older event."""
    bound = events_decisions._after

    def _after(record: WorkflowRecord, row: EventWait) -> int:
        return 0 if row.mode is DeliveryMode.AFTER_CREATE else bound(record, row)

    planter.replace(events_decisions, _after)


@bug("I16")
def event_id_ignored(planter: Planter) -> None:
    """An event that is sent twice with the same id is one event."""

    def sent(self: Archive, event_id: str) -> SentEvent | None:
        return None

    planter.replace(Archive, sent)


@bug("I16")
def event_id_forgotten_by_the_store(planter: Planter) -> None:
    """The id of an event is remembered after the batch that accepted it."""
    whole = MemoryStore.apply

    def apply(self: MemoryStore, batch: Batch) -> None:
        whole(self, attrs.evolve(batch, sent_put={}))

    planter.replace(MemoryStore, apply)


@bug("I16", seed=4)
def mail_before_the_start_lost(planter: Planter) -> None:
    """Events sent to an id before its start become the mailbox of the workflow."""

    def adopt_mail(turn: Turn, record: WorkflowRecord) -> int:
        return 0

    planter.replace(events_decisions, adopt_mail)


@bug("I16", seed=1)
def dead_letters_dropped(planter: Planter) -> None:
    """An event that its workflow never took becomes a dead letter or is offered to others."""

    def give_up_mail(
        turn: Turn, record: WorkflowRecord, status: WorkflowStatus, events: Sequence[PendingEvent]
    ) -> None:
        pass

    planter.replace(endings, give_up_mail)


@bug("I7", seed=1)
def mail_of_an_ended_workflow_kept(planter: Planter) -> None:
    """A mailbox ends with its workflow."""

    def give_up_mail(
        turn: Turn, record: WorkflowRecord, status: WorkflowStatus, events: Sequence[PendingEvent]
    ) -> None:
        for event in events:
            turn.state.post.put_event(event)

    planter.replace(endings, give_up_mail)


@bug("I16", seed=5)
def mail_lost_on_its_way_to_others(planter: Planter) -> None:
    """An event that has lost its target is offered to others, and kept if nobody takes it."""

    def reoffer(turn: Turn, message: EventMoved) -> None:
        pass

    planter.replace(sending, reoffer)


@bug("I16", seed=45)
def letter_replayed_and_kept(planter: Planter) -> None:
    """A dead letter that is sent again is deleted."""

    def drop_letter(self: Archive, id: int) -> None:
        self.batch.letters_put.pop(id, None)

    planter.replace(Archive, drop_letter)


@bug("I7", seed=105)
def wait_outlives_its_workflow(planter: Planter) -> None:
    """An ended workflow has no waits."""
    end = endings.mark_finished

    def mark_finished(turn: Turn, record: WorkflowRecord, status: Any, **ending: Any) -> None:
        waits = dict(turn.state.waits.of(record.key))
        end(turn, record, status, **ending)
        for wait in waits.values():
            turn.state.post.batch.waits_dropped.discard((record.key, wait.position))
            turn.state.waits.put(wait)

    planter.replace(endings, mark_finished)


@bug("I18")
def resolved_wait_stays_registered(planter: Planter) -> None:
    """A wait has one outcome: a timeout ends it."""

    def forget(turn: Turn, loaded: Loaded, position: str) -> None:
        loaded.rows.pop(position, None)

    planter.replace(wait_rows, forget)


@bug("I18", seed=6)
def waits_number_drawn_again(planter: Planter) -> None:
    """The longest wait is served first, even after its body was rebuilt."""
    keep = wait_rows.register_event

    def register_event(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
        loaded.rows.pop(wait.position, None)
        keep(turn, loaded, wait)

    planter.replace(wait_rows, register_event)


@bug("I17", seed=178)
def last_come_first_served(planter: Planter) -> None:
    """An event goes to the longest wait."""
    in_order = Waits.find_waiting_for_event

    def find_waiting_for_event(self: Waits, name: str, event_key: str) -> Iterator[EventWait]:
        return reversed(list(in_order(self, name, event_key)))

    planter.replace(Waits, find_waiting_for_event)

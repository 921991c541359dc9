"""Planted bugs: events that lose a field on the way, events that nobody can read, and events that are kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from durable.engine.config import EngineConfig
from durable.engine.decide import dead_letters, kept_events, sending
from durable.engine.decide import events as events_decisions
from durable.engine.decide.endings import park
from durable.engine.decide.turn import Turn
from durable.engine.operations import SweepEvents
from durable.engine.operations.messages import EventMoved
from durable.engine.state.bodies import Loaded
from durable.errors import CodecError
from durable.model.clock import SECOND, from_duration
from durable.model.records import EventWait, ParkReason, PendingEvent, WorkflowRecord
from durable.runner.fibers import WaitCondition
from tests.planted.planting import Planter, bug


@bug("I16", "I18", seed=5)
def adopted_mail_never_expires(planter: Planter) -> None:
    """An event that was sent before its workflow started expires when its sender said."""
    adopt = events_decisions.adopt_mail

    def adopt_mail(turn: Turn, record: WorkflowRecord) -> int:
        count = adopt(turn, record)
        for event in turn.state.post.mailbox(target=record.key):
            turn.state.batch.events_put[event.serial] = attrs.evolve(event, expires_at=None)
        return count

    planter.replace(events_decisions, adopt_mail)


@bug("I16", "I18", seed=5)
def moved_mail_never_expires(planter: Planter) -> None:
    """An event that lost its target expires when its sender said."""
    move = sending.reoffer

    def reoffer(turn: Turn, message: EventMoved) -> None:
        move(turn, EventMoved(attrs.evolve(message.event, expires_at=None)))

    planter.replace(sending, reoffer)


@bug("I25", seed=13)
def unreadable_event_parks_its_waiter(planter: Planter) -> None:
    """A workflow that cannot read an event keeps waiting, and is not parked."""
    feed_event = events_decisions.take

    def take(turn: Turn, loaded: Loaded, wait: WaitCondition, event: PendingEvent) -> bool | CodecError:
        answer = feed_event(turn, loaded, wait, event)
        if isinstance(answer, CodecError):
            park(turn, loaded.record, ParkReason.UNREADABLE, str(answer))
            return False
        return answer

    planter.replace(events_decisions, take)


@bug("I16", "I18", seed=16)
def unreadable_event_dropped(planter: Planter) -> None:
    """An event that its waiter cannot read becomes a dead letter."""

    def bury_unreadable(turn: Turn, record: WorkflowRecord, row: EventWait, event: PendingEvent, problem: str) -> None:
        pass

    planter.replace(dead_letters, bury_unreadable)


@bug("I18", "I16", "I17", seed=20)
def unreadable_event_stops_the_line(planter: Planter) -> None:
    """Events behind an unreadable one still arrive."""
    take = events_decisions._take_first

    def _take_first(turn: Turn, loaded: Loaded, wait: WaitCondition, events: Iterable[PendingEvent]) -> bool:
        first = next(iter(events), None)
        return first is not None and take(turn, loaded, wait, [first])

    planter.replace(events_decisions, _take_first)


@bug("I16", "I18", seed=20)
def unreadable_event_buried_and_kept(planter: Planter) -> None:
    """An event that its waiter cannot read becomes a dead letter and is no longer pending."""
    take = events_decisions._take_pending

    def _take_pending(turn: Turn, loaded: Loaded, wait: WaitCondition, event: PendingEvent) -> bool | CodecError:
        answer = take(turn, loaded, wait, event)
        if isinstance(answer, CodecError) and event.consume:
            turn.state.post.put_event(event)
        return answer

    planter.replace(events_decisions, _take_pending)


@bug("I16", seed=6)
def forgotten_mail_dropped(planter: Planter) -> None:
    """An event for an id that is not started in time becomes a dead letter."""

    def bury_forgotten(turn: Turn, events: Sequence[PendingEvent]) -> None:
        pass

    planter.replace(dead_letters, bury_forgotten)


@bug("I16", seed=6)
def mail_kept_too_briefly(planter: Planter) -> None:
    """An event for an id that is not started is kept for the configured time, and so is its event id."""
    sweep = kept_events.decide_sweep_events

    def decide_sweep_events(turn: Turn, op: SweepEvents) -> int:
        state = turn.state
        whole: EngineConfig = state.config
        half = from_duration("event_retention", whole.event_retention) / SECOND / 2
        state.config = attrs.evolve(whole, event_retention=half)
        try:
            return sweep(turn, op)
        finally:
            state.config = whole

    planter.replace(kept_events, decide_sweep_events)


@bug("I29", seed=6)
def old_mail_never_swept(planter: Planter) -> None:
    """An event that nobody takes is not kept forever."""

    def decide_sweep_events(turn: Turn, op: SweepEvents) -> int:
        return 0

    planter.replace(kept_events, decide_sweep_events)


@bug("I16", seed=6)
def untaken_broadcast_dropped(planter: Planter) -> None:
    """A broadcast that nobody takes within its retention becomes a dead letter."""

    def _is_done(turn: Turn, event: PendingEvent) -> bool:
        return not event.consume

    planter.replace(kept_events, _is_done)


@bug("I16", seed=41)
def taken_broadcast_buried(planter: Planter) -> None:
    """A broadcast that somebody took does not become a dead letter."""

    def _is_done(turn: Turn, event: PendingEvent) -> bool:
        return False

    planter.replace(kept_events, _is_done)

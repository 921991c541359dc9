"""Planted bugs: events that workflows send, and that are lost, duplicated or late."""

from __future__ import annotations

import attrs

from durable.engine.decide import sending
from durable.engine.decide.body import feed
from durable.engine.decide.events import accept, send
from durable.engine.decide.sending import operation_of
from durable.engine.decide.turn import Turn
from durable.engine.operations import Follow, SendEvent
from durable.engine.state.bodies import Loaded
from durable.model.records import EntryStatus
from durable.runner.events import EventSend
from durable.runner.fibers import WaitCondition
from tests.planted.planting import Planter, bug


@bug("I37")
def sent_event_is_lost(planter: Planter) -> None:
    """An event sent by a body arrives."""

    def send_from_body(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
        feed(turn, loaded, wait, EntryStatus.OK, "null")

    planter.replace(sending, send_from_body)


@bug("I6", "I16", "I37")
def sent_event_arrives_twice(planter: Planter) -> None:
    """An event sent by a body arrives once."""
    once = sending.send_from_body

    def send_from_body(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
        assert isinstance(wait.op, EventSend)
        try:
            send(turn, *accept(turn, operation_of(wait.op, wait.input or "")))
        finally:
            once(turn, loaded, wait)

    planter.replace(sending, send_from_body)


@bug("I37")
def sent_event_leaves_after_the_commit(planter: Planter) -> None:
    """An event sent by a body is in the commit of its step: no crash comes between them."""

    def send_from_body(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
        assert isinstance(wait.op, EventSend)
        turn.effects.append(Follow(operation_of(wait.op, wait.input or "")))
        feed(turn, loaded, wait, EntryStatus.OK, "null")

    planter.replace(sending, send_from_body)


@bug("I37", seed=23)
def sent_event_never_expires(planter: Planter) -> None:
    """An event sent by a body expires like an event sent by a client."""
    make = sending.operation_of

    def operation_of(op: EventSend, payload: str) -> SendEvent:
        return attrs.evolve(make(op, payload), expire_after=None)

    planter.replace(sending, operation_of)

"""Planted bugs: events that workflows send themselves, and that are lost, doubled or late."""

from __future__ import annotations

from durable.engine import sending
from durable.engine.messages import EventSent
from durable.engine.operations import Follow, SendEvent
from durable.engine.turn import Turn
from tests.planted.planting import Planter, bug


@bug("I37")
def sent_event_is_lost(planter: Planter) -> None:
    """What a body has sent arrives."""

    def arrive(turn: Turn, message: EventSent) -> None:
        pass

    planter.replace(sending, arrive)


@bug("I6", "I16")
def sent_event_arrives_twice(planter: Planter) -> None:
    """What a body has sent arrives once."""
    once = sending.arrive

    def arrive(turn: Turn, message: EventSent) -> None:
        once(turn, message)
        once(turn, message)

    planter.replace(sending, arrive)


@bug("I37")
def sent_event_leaves_after_the_commit(planter: Planter) -> None:
    """What a body has sent is in the commit of its step: no crash comes between."""

    def arrive(turn: Turn, message: EventSent) -> None:
        event = message.event
        target = None if event.target is None else turn.state.by_key(event.target)
        to = None if target is None else target.id
        send = SendEvent(
            name=event.name, event_key=event.event_key, payload=event.payload, to=to, consume=event.consume
        )
        turn.effects.append(Follow(send))

    planter.replace(sending, arrive)

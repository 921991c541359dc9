"""An event is sent by its name: by a command, or by a service that does not have its `Event`.

How it is delivered follows from the `Event`. `receiving.settled` takes it from the code of the workflows, before the
decision. An event whose name is computed is not in the code, but the body of a run that waits for it has it.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import attrs

from durable.engine.decide.dry_run import Misfit, examined
from durable.engine.decide.misspelt import meant
from durable.engine.decide.turn import Turn
from durable.engine.operations import SendEvent
from durable.errors import CodecError, UnknownEvent
from durable.model.records import EventWait
from durable.runner.declared import declared_events
from durable.runner.events import Event, EventOp
from durable.runner.fibers import WaitCondition

# How many runs that wait for it are asked.
_TRIES = 10


def sent_as(op: SendEvent, event: Event[Any]) -> SendEvent:
    """An event by name, with the settings of its `Event`."""
    return attrs.evolve(
        op,
        by_name=False,
        consume=event.consume_on_read,
        expire_after=event.expire_after_us,
        payload_type=event.payload_type,
    )


def with_settings(turn: Turn, op: SendEvent) -> SendEvent:
    """An event by name that the code does not declare, with the settings that a waiting run knows.

    Raises `UnknownEvent` if none does, unless the sender forces it.
    """
    event = _awaited(turn, op)
    if event is not None:
        return sent_as(op, event)
    if op.force:
        return op
    names = {*declared_events(turn.state.registry), *turn.state.waits.awaited}
    raise UnknownEvent(op.name, meant(op.name, names))


def _awaited(turn: Turn, op: SendEvent) -> Event[Any] | None:
    """The event that a run of this shard waits for under this name and key. Looking changes nothing."""
    for row in islice(turn.state.waits.find_waiting_for_event(op.name, op.event_key), _TRIES):
        wait = _wait_of(turn, row) if turn.state.shard.owns_key(row.workflow_key) else None
        if wait is not None and isinstance(wait.op, EventOp) and wait.op.event.name == op.name:
            return wait.op.event
    return None


def _wait_of(turn: Turn, row: EventWait) -> WaitCondition | None:
    """The wait of a row, in its body; a body that is not in memory is rebuilt and thrown away.

    None if the run is parked, damaged, or does not fit the code.
    """
    try:
        record = turn.state.get_active(row.workflow_key)
        if record is None:
            return None
        if (loaded := turn.state.loaded.get(record.key)) is not None:
            return loaded.session.waits.get(row.position)
        history = turn.state.chronicle.of(record.key)
    except CodecError:
        return None
    with examined(turn, record, history) as body:
        return None if isinstance(body, Misfit) else body[0].waits.get(row.position)

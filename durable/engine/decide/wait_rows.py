"""Waits with a row: registering and forgetting them.

A wait for an event or for the end of a spawned child has a row while it is open, so that its answer finds it. (Pauses
and questions to other shards have rows as well: see `pauses` and `elsewhere`.) If another shard holds a copy of the
wait, it gets a letter when the wait is over.
"""

from __future__ import annotations

from durable.engine.decide.elsewhere import withdraw
from durable.engine.decide.guests import NOT_REGISTERED, is_home
from durable.engine.decide.turn import Turn
from durable.engine.state.workflows import Loaded
from durable.model.records import DeliveryMode, EventWait, Registration
from durable.runner.events import EventOp
from durable.runner.fibers import WaitCondition


def register_event(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """A body waits for an event: store a row, so that the event finds the wait."""
    assert isinstance(wait.op, EventOp)
    event = wait.op.event
    turn.state.waits.note_type(event.name, event.payload_type)
    # If the event's home is another shard, the wait is registered there after its own mailbox was searched
    # (`events.check_events`).
    unregistered = None if is_home(turn, event.name, wait.op.key) else NOT_REGISTERED
    register(
        turn, loaded, wait.position,
        name=event.name, event_key=wait.op.key, mode=event.delivery_mode, unregistered=unregistered,
    )  # fmt: skip


def register(
    turn: Turn,
    loaded: Loaded,
    position: str,
    *,
    name: str,
    event_key: str,
    mode: DeliveryMode = DeliveryMode.ALL,
    unregistered: Registration | None = None,
) -> None:
    """Store the row of a wait, unless it has one for the same name and key already."""
    before = loaded.rows.get(position)
    if before is not None and (before.name, before.event_key) == (name, event_key):
        return
    if before is not None and turn.state.shard.count > 1:
        # Under new code the body waits for something else at this position.
        withdraw(turn, before)
    row = EventWait(
        workflow_key=loaded.record.key,
        position=position,
        name=name,
        event_key=event_key,
        mode=mode,
        serial=turn.state.next_serial(),
        since=turn.now,
        unregistered=unregistered,
    )
    loaded.rows[position] = row
    turn.state.waits.put(row)


def forget_wait(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """The body no longer waits: delete the row of the wait, if it has one."""
    forget(turn, loaded, wait.position)


def forget(turn: Turn, loaded: Loaded, position: str) -> None:
    """Delete the row at a position, if there is one, here and in the shard that holds a copy."""
    row = loaded.rows.pop(position, None)
    if row is not None:
        turn.state.waits.drop(loaded.record.key, position)
        if turn.state.shard.count > 1:
            withdraw(turn, row)

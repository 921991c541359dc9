"""Pure decisions: a wait has a row of its own while it is open, so that its answer finds it.

Events, pauses and the ends of spawned children are waited for so, and whatever was asked of another shard. Where the
wait is noted in another shard as well, that is told when it is over.
"""

from __future__ import annotations

from durable.engine.decide.elsewhere import withdraw
from durable.engine.decide.guests import NOT_REGISTERED, is_home
from durable.engine.decide.turn import Turn
from durable.engine.state.bodies import Loaded
from durable.model.records import DeliveryMode, EventWait, Registration
from durable.runner.events import EventOp
from durable.runner.fibers import WaitCondition


def register_event(turn: Turn, loaded: Loaded, wait: WaitCondition) -> None:
    """A body waits for an event: note it, so that the event finds it."""
    assert isinstance(wait.op, EventOp)
    event = wait.op.event
    turn.state.waits.note_type(event.name, event.payload_type)
    # If its home is elsewhere it is registered there once the mailbox has been looked through (`delivery`).
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
    """Note durably who waits where for what, unless it is noted already."""
    known = loaded.rows.get(position)
    if known is not None and (known.name, known.event_key) == (name, event_key):
        return
    if known is not None and turn.state.shard.count > 1:
        # Under new code it waits for something else.
        withdraw(turn, known)
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
    """A wait that has a row is over."""
    forget(turn, loaded, wait.position)


def forget(turn: Turn, loaded: Loaded, position: str) -> None:
    """The wait at a position is over, if it has a row."""
    row = loaded.rows.pop(position, None)
    if row is not None:
        turn.state.waits.drop(loaded.record.key, position)
        if turn.state.shard.count > 1:
            withdraw(turn, row)

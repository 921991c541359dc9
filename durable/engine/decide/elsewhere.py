"""What a workflow asks of another shard, and what it hears from there.

A question is noted in a row of its own, in the commit that sends it: **the row is the memory of what was sent**, so
nothing is repeated when a body is rebuilt. The serial of the row makes the wait's name (`WaitId`), which every answer
repeats. `retry` and `continue_as` drop the rows, so late answers to their old questions are ignored.

An answer is put into the row, and the wait is looked at like any other. If the workflow is parked the answer stays
there until its body can be rebuilt.
"""

from __future__ import annotations

import json

import attrs

from durable.engine.decide import router
from durable.engine.decide.kinship import END
from durable.engine.decide.turn import Turn
from durable.engine.operations.messages import (
    Answer,
    CancelAnswered,
    ChildEnded,
    ChildStarted,
    LookAgain,
    SendAnswered,
    WaitId,
    WaitWithdrawn,
)
from durable.engine.state.bodies import Loaded
from durable.model.homes import event_home, workflow_home
from durable.model.records import EntryKind, EntryStatus, EventWait
from durable.runner.fibers import WaitCondition

# What stands before the id of the workflow that a question is about, so that it is no key of a child here.
_ABOUT = "@"


def note_question(turn: Turn, loaded: Loaded, wait: WaitCondition, about: str) -> WaitId:
    """Note durably that a wait asks another shard about the workflow with this id, or about nobody."""
    key = loaded.record.key
    row = EventWait(
        workflow_key=key,
        position=wait.position,
        name=END,
        event_key=f"{_ABOUT}{about}",
        serial=turn.state.next_serial(),
        since=turn.now,
        asks=wait.kind,
    )
    loaded.rows[wait.position] = row
    turn.state.waits.put(row)
    return WaitId(key, wait.position, row.serial)


def row_of(turn: Turn, wait: WaitId) -> EventWait | None:
    """The row of a wait of this shard; None if the wait is over."""
    loaded = turn.state.loaded.get(wait.key)
    row = turn.state.waits.at(wait.key, wait.position) if loaded is None else loaded.rows.get(wait.position)
    return None if row is None or row.serial != wait.serial or row.guest is not None else row


def change_row(turn: Turn, row: EventWait) -> None:
    """Note something else of a wait of this shard."""
    loaded = turn.state.loaded.get(row.workflow_key)
    if loaded is not None:
        loaded.rows[row.position] = row
    turn.state.waits.change(row)


def hear(turn: Turn, message: Answer) -> None:
    """Keep an answer with its question, and have the wait looked at. Ignored if nobody waits for it any more."""
    row = row_of(turn, message.wait)
    if row is not None and row.asks is not None:
        change_row(turn, attrs.evolve(row, answer=_outcome(message)))
        turn.messages.send(LookAgain(message.wait.key, message.wait.position))


def _outcome(message: Answer) -> tuple[EntryStatus, str]:
    """What is recorded of an answer."""
    match message:
        case ChildEnded():
            return message.status, message.outcome
        case ChildStarted():
            return EntryStatus.OK, json.dumps(message.child_id)
        case CancelAnswered():
            return EntryStatus.OK, json.dumps(message.is_accepted)
        case SendAnswered(error=None):
            return EntryStatus.OK, "null"
        case _:
            return EntryStatus.ERROR, message.error or ""


def withdraw(turn: Turn, row: EventWait) -> None:
    """A wait is over: the shard in which it is noted, if there is one, is to forget it."""
    shards = turn.state.shard.count
    home: int | None = None
    turn.state.outbox.confirmed.discard((row.workflow_key, row.position, row.serial))
    if row.asks is EntryKind.RESULT and row.answer is None:
        home = workflow_home(row.event_key.removeprefix(_ABOUT), shards)
    elif row.kind is EntryKind.EVENT and row.unregistered is None:
        home = event_home(row.name, row.event_key, shards)
    if home is not None and home != turn.state.shard.number:
        router.send_to(turn, home, WaitWithdrawn(WaitId(row.workflow_key, row.position, row.serial)))


def forget_guest(turn: Turn, message: WaitWithdrawn) -> None:
    """A wait of another shard is over. An offer, or an answer, that is on its way there finds that out."""
    key, position, serial = message.wait
    row = turn.state.waits.at(key, position)
    if row is not None and row.guest is not None and row.guest.serial == serial:
        turn.state.waits.drop(key, position)

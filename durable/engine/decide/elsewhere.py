"""Questions to another shard, and their answers.

A question is stored as a row of the wait, in the commit that sends it: **the row is the memory of what was sent**, so
nothing is sent twice when a body is rebuilt. The row's serial is part of the wait's name (`WaitId`), which every answer
repeats. `retry` and `continue_as` drop the rows, so late answers to old questions are ignored.

An answer is put into the row, and then the wait is looked at like any other. If the workflow is parked, the answer
stays in the row until the body can be rebuilt.
"""

from __future__ import annotations

import json

import attrs

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
from durable.engine.state.events import END
from durable.engine.state.workflows import Loaded
from durable.model.homes import event_home, workflow_home
from durable.model.records import EntryKind, EntryStatus, EventWait
from durable.runner.fibers import WaitCondition

# Precedes the id of the workflow that a question is about, so that it cannot be mistaken for the key of a child here.
_ABOUT = "@"


def note_question(turn: Turn, loaded: Loaded, wait: WaitCondition, about: str) -> WaitId:
    """Store a row for a wait that asks another shard. Returns the wait's name, for the question.

    `about` is the id of the workflow that the question is about; empty for an event that a body sends.
    """
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
    """Replace the row of a wait of this shard, in memory and in the batch."""
    loaded = turn.state.loaded.get(row.workflow_key)
    if loaded is not None:
        loaded.rows[row.position] = row
    turn.state.waits.change(row)


def hear(turn: Turn, message: Answer) -> None:
    """Store an answer with its question, and have the wait looked at. Does nothing if the wait is over."""
    row = row_of(turn, message.wait)
    if row is not None and row.asks is not None:
        change_row(turn, attrs.evolve(row, answer=_outcome(message)))
        turn.messages.send(LookAgain(message.wait.key, message.wait.position))


def _outcome(message: Answer) -> tuple[EntryStatus, str]:
    """What an answer becomes in the history: the status and the outcome of the entry."""
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
    """A wait is over: if another shard holds a copy of its row, tell that shard to drop it."""
    shards = turn.state.shard.count
    home: int | None = None
    turn.state.outbox.confirmed.discard((row.workflow_key, row.position, row.serial))
    if row.asks is EntryKind.RESULT and row.answer is None:
        home = workflow_home(row.event_key.removeprefix(_ABOUT), shards)
    elif row.kind is EntryKind.EVENT and row.unregistered is None:
        home = event_home(row.name, row.event_key, shards)
    if home is not None and home != turn.state.shard.number:
        turn.send_to(home, WaitWithdrawn(WaitId(row.workflow_key, row.position, row.serial)))


def forget_guest(turn: Turn, message: WaitWithdrawn) -> None:
    """A wait of another shard is over: drop its row here.

    An offer or an answer may be on its way there already. Its receiver sees that the wait is over.
    """
    key, position, serial = message.wait
    row = turn.state.waits.at(key, position)
    if row is not None and row.guest is not None and row.guest.serial == serial:
        turn.state.waits.drop(key, position)

"""What remains of an event after it was sent: taken broadcasts, dead letters and senders' event ids.

Three small tables, read through the open batch and then the store. Part of the coordinator's state.

- *Taken broadcasts*: a broadcast stays in the store for every workflow that may want it. Each workflow remembers the
  serial of the last one that it took, per name and key, and skips all up to there.
- *Dead letters*: events that will never be taken, kept for an operator.
- *Sent events*: the reply to each sender's event id, so that a repeated send gets the same reply.
"""

from __future__ import annotations

from collections.abc import Iterable

from durable.backends.base import Backend, Batch, Letters, Sent, Taken
from durable.model.dead_letters import DeadLetter
from durable.model.records import PendingEvent, SentEvent, TakenBroadcast, WorkflowRecord

# Higher than any serial.
_NEVER = 1 << 62


class Archive:
    """Broadcasts that were taken, dead letters and senders' ids.

    Nothing here is cached: a read that the open batch cannot answer goes to the store.
    """

    def __init__(self, backend: Backend) -> None:
        # The open batch; the state replaces it after each commit.
        self.batch = Batch()
        self.backend = backend

    # --- broadcasts that were taken -------------------------------------------------------------------------------

    def seen(self, record: WorkflowRecord, name: str, event_key: str) -> int:
        """The serial of the last broadcast of a name and key that a workflow has taken, or 0."""
        place = (record.key, name, event_key)
        if (fresh := self.batch.taken_put.get(place)) is not None:
            return fresh.serial
        is_cleared = record.key in self.batch.taken_cleared
        query = Taken(workflow_key=record.key, name=name, event_key=event_key)
        # Older stores kept serials in the workflow's row, as `cursors`.
        stored = [] if is_cleared else [taken.serial for taken in self.backend.find(query)]
        return max(stored + [cursor[2] for cursor in record.cursors if cursor[:2] == (name, event_key)], default=0)

    def taken_by(self, record: WorkflowRecord) -> list[TakenBroadcast]:
        """The last broadcast that a workflow has taken, for each name and key."""
        is_cleared = record.key in self.batch.taken_cleared
        stored = () if is_cleared else self.backend.find(Taken(workflow_key=record.key))
        fresh = [taken for taken in self.batch.taken_put.values() if taken.workflow_key == record.key]
        serials = {(name, key): serial for name, key, serial in record.cursors}
        serials |= {(taken.name, taken.event_key): taken.serial for taken in (*stored, *fresh)}
        return [
            TakenBroadcast(workflow_key=record.key, name=name, event_key=key, serial=serial)
            for (name, key), serial in serials.items()
        ]

    def put_taken(self, taken: TakenBroadcast) -> None:
        """Remember that a workflow has taken every broadcast of this name and key up to this serial."""
        self.batch.taken_put[taken.workflow_key, taken.name, taken.event_key] = taken

    def forget_taken(self, name: str, event_key: str, oldest: PendingEvent | None) -> None:
        """Forget which workflows took broadcasts that no longer exist: those before `oldest`, or all if it is None."""
        self.batch.taken_swept[name, event_key] = _NEVER if oldest is None else oldest.serial

    # --- dead letters and sent events -----------------------------------------------------------------------------

    def put_letter(self, letter: DeadLetter) -> None:
        """Keep an event that no workflow will take."""
        self.batch.letters_put[letter.id] = letter

    def letter(self, id: int) -> DeadLetter | None:
        """The dead letter with this id, which is the serial of its event; None if there is none."""
        if (fresh := self.batch.letters_put.get(id)) is not None:
            return fresh
        stored = () if id in self.batch.letters_dropped else self.backend.find(Letters(id=id))
        return stored[0] if stored else None

    def is_buried(self, event: PendingEvent) -> bool:
        """Whether the open batch has made a dead letter of this event."""
        return event.serial in self.batch.letters_put

    def drop_letter(self, id: int) -> None:
        """Remove a dead letter: it was sent again, removed by an operator, or kept for long enough."""
        self.batch.letters_put.pop(id, None)
        self.batch.letters_dropped.add(id)

    def put_sent(self, sent: SentEvent) -> None:
        """Remember what was sent under a sender's event id, and the reply."""
        self.batch.sent_put[sent.event_id] = sent

    def drop_sent(self, rows: Iterable[SentEvent]) -> None:
        """Forget senders' event ids that are past their retention. A repeat counts as a new event from then on."""
        self.batch.sent_dropped.update(row.event_id for row in rows)

    def sent(self, event_id: str) -> SentEvent | None:
        """The event that was sent under a sender's event id, with its reply; None if the id is new or forgotten."""
        if (fresh := self.batch.sent_put.get(event_id)) is not None:
            return fresh
        stored = () if event_id in self.batch.sent_dropped else self.backend.find(Sent(event_id=event_id))
        return stored[0] if stored else None

"""What is left of events: which broadcasts a workflow has taken, dead letters and senders' ids. Over store and batch.

Part of the coordinator's state; every change is noted in the batch.
"""

from __future__ import annotations

from collections.abc import Iterable

from durable.backends.base import Backend, Batch, Letters, Sent, Taken
from durable.model.dead_letters import DeadLetter
from durable.model.records import PendingEvent, SentEvent, TakenBroadcast, WorkflowRecord

# Higher than any serial.
_NEVER = 1 << 62


class Archive:
    """Broadcasts that were taken, dead letters and senders' ids."""

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
        stored = [] if is_cleared else [taken.serial for taken in self.backend.find(query)]
        return max(stored + [cursor[2] for cursor in record.cursors if cursor[:2] == (name, event_key)], default=0)

    def taken_by(self, record: WorkflowRecord) -> list[TakenBroadcast]:
        """The last broadcast of each name and key that a workflow has taken."""
        is_cleared = record.key in self.batch.taken_cleared
        stored = () if is_cleared else self.backend.find(Taken(workflow_key=record.key))
        fresh = [taken for taken in self.batch.taken_put.values() if taken.workflow_key == record.key]
        found = {(name, key): serial for name, key, serial in record.cursors}
        found |= {(taken.name, taken.event_key): taken.serial for taken in (*stored, *fresh)}
        return [
            TakenBroadcast(workflow_key=record.key, name=name, event_key=key, serial=serial)
            for (name, key), serial in found.items()
        ]

    def put_taken(self, taken: TakenBroadcast) -> None:
        """A workflow has come up to this broadcast."""
        self.batch.taken_put[taken.workflow_key, taken.name, taken.event_key] = taken

    def forget_taken(self, name: str, event_key: str, oldest: PendingEvent | None) -> None:
        """Broadcasts are gone: who has taken those before the oldest that is left need not be known any more."""
        self.batch.taken_swept[name, event_key] = _NEVER if oldest is None else oldest.serial

    # --- dead letters and sent events -----------------------------------------------------------------------------

    def put_letter(self, letter: DeadLetter) -> None:
        """Keep an event that its workflow never took."""
        self.batch.letters_put[letter.id] = letter

    def letter(self, id: int) -> DeadLetter | None:
        """The dead letter with this id."""
        if (fresh := self.batch.letters_put.get(id)) is not None:
            return fresh
        found = () if id in self.batch.letters_dropped else self.backend.find(Letters(id=id))
        return found[0] if found else None

    def is_buried(self, event: PendingEvent) -> bool:
        """Whether the open batch has made a dead letter of this event."""
        return event.serial in self.batch.letters_put

    def drop_letter(self, id: int) -> None:
        """The letter was sent again or removed."""
        self.batch.letters_put.pop(id, None)
        self.batch.letters_dropped.add(id)

    def put_sent(self, sent: SentEvent) -> None:
        """Remember what was sent under a sender's event id, and what the sender was told."""
        self.batch.sent_put[sent.event_id] = sent

    def drop_sent(self, rows: Iterable[SentEvent]) -> None:
        """Forget senders' event ids that are too old."""
        self.batch.sent_dropped.update(row.event_id for row in rows)

    def sent(self, event_id: str) -> SentEvent | None:
        """What was sent before under a sender's event id."""
        if (fresh := self.batch.sent_put.get(event_id)) is not None:
            return fresh
        found = () if event_id in self.batch.sent_dropped else self.backend.find(Sent(event_id=event_id))
        return found[0] if found else None

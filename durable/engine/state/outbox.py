"""Letters: what this shard writes to others, and what it has read. Over the store and the open batch.

Part of the coordinator's state; every change is noted in the batch, so a letter leaves in the commit of the decision
from which it follows, and is gone in the commit that has handled it. With one shard nothing here is ever used.
"""

from __future__ import annotations

from collections.abc import Sequence

from durable.backends.base import (
    Backend,
    Batch,
    CreatedMark,
    Inbox,
    Letter,
    LetterId,
    StoredLetter,
    TiedShards,
    Undelivered,
)


class Outbox:
    """Letters of one shard."""

    def __init__(self, backend: Backend) -> None:
        # The open batch; the state replaces it after each commit.
        self.batch = Batch()
        self._backend = backend
        # Of this process alone. Waits (key, position, serial) whose registration elsewhere was handled; and since when
        # the timers of a workflow are held up until its waits are.
        self.confirmed: set[tuple[int, str, int]] = set()
        self.held_up: dict[int, int] = {}

    def post(self, shard: int, text: str) -> None:
        """Write a letter to another shard."""
        self.batch.letters.append(Letter(shard, text))

    def read(self, limit: int) -> Sequence[StoredLetter]:
        """The letters to this shard that no commit has handled yet, in the order in which they are to be handled."""
        return self._backend.find(Inbox(limit=limit))

    def handled(self, id: LetterId) -> None:
        """A letter was handled: all that follows from it is in the open batch."""
        self.batch.letters_handled.add(id)

    def set_aside(self, id: LetterId) -> None:
        """Nobody can read this letter; it is kept, and those behind it are handled."""
        self.batch.letters_handled.discard(id)
        self.batch.letters_set_aside.add(id)

    def is_delivered(self, shard: int) -> bool:
        """Whether another shard has handled every letter that this one has ever written to it."""
        is_open = any(letter.to == shard for letter in self.batch.letters)
        return not is_open and not self._backend.find(Undelivered(shard))

    def created_mark(self, key: int) -> int | None:
        """The mark of the commit that has stored a workflow; None if that is the commit of the open batch."""
        return None if key in self.batch.workflows_new else self._backend.find(CreatedMark(key))[0]

    def tie(self, key: int, shard: int) -> None:
        """A workflow starts a child in another shard that ends with it."""
        self.batch.tied_shards.add((key, shard))

    def tied(self, key: int) -> list[int]:
        """The other shards in which a workflow has started children that end with it."""
        fresh = {shard for owner, shard in self.batch.tied_shards if owner == key}
        return sorted(fresh.union(self._backend.find(TiedShards(key))))

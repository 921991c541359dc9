"""Letters between shards: those that this shard writes, and those in its inbox. Part of the coordinator's state.

Every change is noted in the open batch. So a letter is written in the commit of the decision that it follows from, and
deleted in the commit of the decision that handles it. A store with one shard never uses this file.
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
        # In memory only. Waits (key, position, serial) whose registration in another shard is known to be handled.
        self.confirmed: set[tuple[int, str, int]] = set()
        # In memory only. By workflow: since when its timers are held up, until its waits are confirmed.
        self.held_up: dict[int, int] = {}

    def post(self, shard: int, text: str) -> None:
        """Write a letter to another shard."""
        self.batch.letters.append(Letter(shard, text))

    def read(self, limit: int) -> Sequence[StoredLetter]:
        """The first letters to this shard that no commit has handled, in the order in which they must be handled."""
        return self._backend.find(Inbox(limit=limit))

    def handled(self, id: LetterId) -> None:
        """Delete a letter. Everything that follows from it must be in the same batch."""
        self.batch.letters_handled.add(id)

    def set_aside(self, id: LetterId) -> None:
        """Keep a letter that cannot be read, out of the inbox, so that it does not block the letters behind it."""
        self.batch.letters_handled.discard(id)
        self.batch.letters_set_aside.add(id)

    def is_delivered(self, shard: int) -> bool:
        """Whether another shard has handled every letter that this one has written to it."""
        is_open = any(letter.to == shard for letter in self.batch.letters)
        return not is_open and not self._backend.find(Undelivered(shard))

    def created_mark(self, key: int) -> int | None:
        """The mark of the commit that stored a workflow; None if that is the open batch, which has no mark yet."""
        return None if key in self.batch.workflows_new else self._backend.find(CreatedMark(key))[0]

    def tie(self, key: int, shard: int) -> None:
        """Note that a workflow has started a child in another shard, which must end with it."""
        self.batch.tied_shards.add((key, shard))

    def tied(self, key: int) -> list[int]:
        """The other shards in which a workflow has started children that end with it."""
        fresh = {shard for owner, shard in self.batch.tied_shards if owner == key}
        return sorted(fresh.union(self._backend.find(TiedShards(key))))

"""Letters between the shards of a store in memory, and the sequence from which commits draw their marks.

All shards of one store share one `Letterbox`. It knows nothing about what the letters say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import islice

import attrs
from sortedcontainers import SortedDict

from durable.backends.base import Batch, Inbox, LetterId, StoredLetter, Undelivered
from durable.errors import InvariantViolated
from durable.model.homes import Shard


def _letters() -> SortedDict[LetterId, StoredLetter]:
    return SortedDict()


@attrs.define(eq=False)
class Letterbox:
    """The inboxes of all shards, by the number of the shard."""

    # The mark of the last commit.
    mark: int = 0
    # How many letters were ever written; the simulation reports it.
    count: int = 0
    _inboxes: defaultdict[int, SortedDict[LetterId, StoredLetter]] = attrs.field(factory=lambda: defaultdict(_letters))
    _aside: dict[int, SortedDict[LetterId, StoredLetter]] = attrs.field(factory=dict)

    def draw(self) -> int:
        """The mark of the next commit: marks of all shards are in the order of their commits."""
        self.mark += 1
        return self.mark

    def check(self, shard: Shard, batch: Batch) -> None:
        """Raise `InvariantViolated` for a batch that changes another shard, or handles a letter that is not there."""
        rows = (batch.workflows_new, batch.workflows_changed, batch.schedules_put)
        foreign = [key for found in rows for key in found if not shard.owns_key(key)]
        foreign += [key for key, _ in batch.history if not shard.owns_key(key)]
        if foreign:
            raise InvariantViolated(f"a batch of shard {shard.number} changes rows of other shards: {foreign}")
        if missing := self.missing(shard.number, batch.letters_handled | batch.letters_set_aside):
            raise InvariantViolated(f"a batch handles letters that are not in the inbox: {missing}")
        if any(letter.to == shard.number or letter.to not in range(shard.count) for letter in batch.letters):
            problem = f"a batch of shard {shard.number} writes letters to itself or to a shard that does not exist"
            raise InvariantViolated(f"{problem}: {batch.letters}")

    def apply(self, shard: int, batch: Batch, mark: int) -> None:
        """Deliver the letters that a commit of a shard wrote, and remove those that it handled or set aside."""
        inbox = self.inbox(shard)
        for id in batch.letters_set_aside:
            self._aside.setdefault(shard, _letters())[id] = inbox[id]
        for id in batch.letters_handled | batch.letters_set_aside:
            del inbox[id]
        self.count += len(batch.letters)
        for ordinal, letter in enumerate(batch.letters):
            id = LetterId(mark, ordinal)
            self.inbox(letter.to)[id] = StoredLetter(id, shard, letter.text)

    def inbox(self, shard: int) -> SortedDict[LetterId, StoredLetter]:
        """The letters to a shard that are not handled yet, in the order in which they were written."""
        return self._inboxes[shard]

    def missing(self, shard: int, ids: Iterable[LetterId]) -> set[LetterId]:
        """Which of these letters are not in the inbox of a shard."""
        inbox = self.inbox(shard)
        return {id for id in ids if id not in inbox}

    def read(self, shard: int, query: Inbox) -> list[StoredLetter]:
        """The first letters in the inbox of a shard, or of those that it set aside."""
        letters = self._aside.get(shard, _letters()) if query.set_aside else self.inbox(shard)
        return list(islice(letters.values(), query.limit))

    def undelivered(self, shard: int, query: Undelivered) -> list[StoredLetter]:
        """The first letter from a shard that the queried shard has not handled yet; empty if there is none."""
        return list(islice((letter for letter in self.inbox(query.to).values() if letter.sender == shard), 1))

"""The letters between shards: which inbox holds which letter, kept without asking the store. Part of the ledger.

It books the letters of each commit, and keeps those that the last commit wrote and handled. The rules judge.
"""

from __future__ import annotations

import attrs

from durable.backends.base import Batch, LetterId
from durable.engine.operations.letters import read_message
from durable.engine.operations.messages import (
    EventMoved,
    EventOffered,
    EventReturned,
    LetterRefused,
    LetterReplayed,
    Message,
    WaitId,
    WaitRegistered,
)
from durable.model.dead_letters import DeadLetter
from durable.model.records import EventWait, PendingEvent


@attrs.frozen
class Posted:
    """A letter on its way."""

    id: LetterId
    sender: int
    to: int
    message: Message


class Post:
    """All letters that were written and not handled, and the waits of other shards that each shard has registered."""

    def __init__(self, shards: int) -> None:
        # By the number of the receiving shard.
        self.inboxes: list[dict[LetterId, Posted]] = [{} for _ in range(shards)]
        # Of the last commit: the letters that it wrote, and those that it handled.
        self.written: list[Posted] = []
        self.handled: list[Posted] = []
        # The letters that it handled although they were not in the inbox.
        self.unknown: list[LetterId] = []
        # The marks of the commits that stored each workflow, by key, and that registered each wait elsewhere.
        self.created: dict[int, int] = {}
        self.registered: dict[WaitId, int] = {}
        self.mark = 0
        # Every kind of letter that was ever written.
        self.kinds: set[type[Message]] = set()
        # Registered waits of other shards: by the shard where they are registered, then by workflow and position.
        self.guests: list[dict[tuple[int, str], EventWait]] = [{} for _ in range(shards)]

    def read(self, batch: Batch, shard: int, mark: int) -> None:
        """Read the letters of a commit, before the rules run and before it is booked."""
        self.mark = mark
        self.written = [
            Posted(LetterId(mark, ordinal), shard, letter.to, read_message(letter.text))
            for ordinal, letter in enumerate(batch.letters)
        ]
        inbox = self.inboxes[shard]
        self.unknown = sorted(batch.letters_handled - inbox.keys())
        self.handled = [inbox[id] for id in sorted(batch.letters_handled) if id in inbox]

    def book(self, batch: Batch, shard: int) -> None:
        """Book the letters of the commit that was read last."""
        self.created.update(dict.fromkeys(batch.workflows_new, self.mark))
        for letter in self.handled:
            del self.inboxes[shard][letter.id]
        for letter in self.written:
            self.inboxes[letter.to][letter.id] = letter
            self.kinds.add(type(letter.message))
            if isinstance(letter.message, WaitRegistered):
                self.registered.setdefault(letter.message.wait, self.mark)

    def on_its_way(self) -> list[Posted]:
        """Every letter that is not handled yet."""
        return [letter for inbox in self.inboxes for letter in inbox.values()]


def event_in(message: Message) -> PendingEvent | None:
    """The event that is in this letter and nowhere else, or None. A broadcast stays at home, so it does not count."""
    if isinstance(message, EventOffered | EventReturned | EventMoved) and message.event.consume:
        return message.event
    return None


def dead_letter_in(message: Message) -> DeadLetter | None:
    """The dead letter that is on its way to whom it is sent again, or back."""
    return message.letter if isinstance(message, LetterReplayed | LetterRefused) else None

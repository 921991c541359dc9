"""The letters between shards: what lies in which inbox, kept beside the store. Part of the ledger.

It books the letters of each commit, and what the last commit has written and handled; the rules judge.
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
    """All letters that were written and are not handled, and the waits that are noted for other shards."""

    def __init__(self, shards: int) -> None:
        # By receiver.
        self.inboxes: list[dict[LetterId, Posted]] = [{} for _ in range(shards)]
        # Of the last commit: what it has written, and what it has handled.
        self.written: list[Posted] = []
        self.handled: list[Posted] = []
        # Letters that a commit has handled and that were not there.
        self.unknown: list[LetterId] = []
        # The marks of the commits that have stored each workflow, by key, and registered each wait elsewhere.
        self.created: dict[int, int] = {}
        self.registered: dict[WaitId, int] = {}
        self.mark = 0
        # Every kind of letter that was ever written.
        self.kinds: set[type[Message]] = set()
        # By shard, and by workflow and position.
        self.guests: list[dict[tuple[int, str], EventWait]] = [{} for _ in range(shards)]

    def read(self, batch: Batch, shard: int, mark: int) -> None:
        """Look at the letters of a commit before it is booked."""
        self.mark = mark
        self.written = [
            Posted(LetterId(mark, ordinal), shard, letter.to, read_message(letter.text))
            for ordinal, letter in enumerate(batch.letters)
        ]
        inbox = self.inboxes[shard]
        self.unknown = sorted(batch.letters_handled - inbox.keys())
        self.handled = [inbox[id] for id in sorted(batch.letters_handled) if id in inbox]

    def book(self, batch: Batch, shard: int) -> None:
        """Add the letters of a commit that was looked at."""
        self.created.update(dict.fromkeys(batch.workflows_new, self.mark))
        for letter in self.handled:
            del self.inboxes[shard][letter.id]
        for letter in self.written:
            self.inboxes[letter.to][letter.id] = letter
            self.kinds.add(type(letter.message))
            if isinstance(letter.message, WaitRegistered):
                self.registered.setdefault(letter.message.wait, self.mark)

    def on_its_way(self) -> list[Posted]:
        """Every letter that is not handled."""
        return [letter for inbox in self.inboxes for letter in inbox.values()]


def event_in(message: Message) -> PendingEvent | None:
    """The event that a letter holds and that is nowhere else meanwhile: one that a single workflow takes."""
    if isinstance(message, EventOffered | EventReturned | EventMoved) and message.event.consume:
        return message.event
    return None


def dead_letter_in(message: Message) -> DeadLetter | None:
    """The dead letter that is on its way to whom it is sent again, or back."""
    return message.letter if isinstance(message, LetterReplayed | LetterRefused) else None

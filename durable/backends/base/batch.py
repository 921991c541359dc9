"""The net changes of one commit: the engine gathers them, and a store applies them.

Knows records. Knows nothing about who decides them or how they are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from durable.model.dead_letters import DeadLetter
from durable.model.records import (
    EventWait,
    HistoryEntry,
    PendingEvent,
    Progress,
    SentEvent,
    TakenBroadcast,
    WorkflowRecord,
)
from durable.model.requests import KeptRequest, StoredAnswer
from durable.model.schedule import ScheduleRecord
from durable.model.timers import ScheduleKey


@attrs.define
class Entries:
    """New history entries, each with the key of its workflow, in the order in which they were decided.

    Two lists instead of a list of pairs: every step adds an entry, and each pair would be one more object for the
    garbage collector.
    """

    _keys: list[int] = attrs.field(factory=list)
    _entries: list[HistoryEntry] = attrs.field(factory=list)

    def add(self, key: int, entry: HistoryEntry) -> None:
        """Append an entry to the history of the workflow with this key."""
        self._keys.append(key)
        self._entries.append(entry)

    def without(self, key: int) -> Entries:
        """The entries of all other workflows."""
        return _entries((owner, entry) for owner, entry in self if owner != key)

    def __iter__(self) -> Iterator[tuple[int, HistoryEntry]]:
        return zip(self._keys, self._entries, strict=True)

    def __len__(self) -> int:
        return len(self._keys)


def _entries(pairs: Entries | Iterable[tuple[int, HistoryEntry]]) -> Entries:
    """attrs converter: `Entries` from any iterable of (key, entry), so that tests can pass a list."""
    if isinstance(pairs, Entries):
        return pairs
    entries = Entries()
    for key, entry in pairs:
        entries.add(key, entry)
    return entries


@attrs.frozen
class Letter:
    """A message to another shard, as JSON text. The store adds it to the inbox there, in the sender's own commit."""

    to: int
    text: str


@attrs.frozen(order=True)
class LetterId:
    """The place of a letter in its inbox: the mark of the commit that wrote it, and its number in that commit."""

    mark: int
    ordinal: int


@attrs.frozen
class StoredLetter:
    """A letter in an inbox, with the shard that wrote it."""

    id: LetterId
    sender: int
    text: str


# Fields are not converted again when they are set: that would make every assignment a call.
@attrs.define(on_setattr=attrs.setters.NO_OP)
class Batch:
    """The net changes of one commit. A store applies the drops before the puts.

    Nothing in a batch is both put and dropped. While a batch is open, the engine reads through it as an overlay over
    the store. Dicts are keyed by the primary key of their table.
    """

    number: int = 0
    # The highest serial used so far.
    serial: int = 0
    workflows_new: dict[int, WorkflowRecord] = attrs.field(factory=dict)
    # Existing rows. Key, id, created_at, parent and tags never change. Name, version, input, start_digest, start_at,
    # depth and round change only together with `restarted`.
    workflows_changed: dict[int, WorkflowRecord] = attrs.field(factory=dict)
    # Deleted with their history, waits, mailbox, progress and the broadcasts that they have taken.
    workflows_purged: set[int] = attrs.field(factory=set)
    # Workflows that start again (`continue_as`, or a child whose parent is retried). Their stored history is deleted
    # before the entries below are added, and their code and arguments may differ.
    restarted: set[int] = attrs.field(factory=set)
    history: Entries = attrs.field(factory=Entries, converter=_entries)
    # (workflow, seq) of entries that are no longer needed. Deleted last: some may be among those above.
    history_trimmed: set[tuple[int, int]] = attrs.field(factory=set)
    waits_put: dict[tuple[int, str], EventWait] = attrs.field(factory=dict)
    waits_dropped: set[tuple[int, str]] = attrs.field(factory=set)
    # By serial. A put may replace a stored event, when its target starts or when a dead letter is sent again.
    events_put: dict[int, PendingEvent] = attrs.field(factory=dict)
    events_dropped: set[int] = attrs.field(factory=set)
    letters_put: dict[int, DeadLetter] = attrs.field(factory=dict)
    letters_dropped: set[int] = attrs.field(factory=set)
    # By workflow, name and key. A put replaces the stored row.
    taken_put: dict[tuple[int, str, str], TakenBroadcast] = attrs.field(factory=dict)
    # Workflows whose taken broadcasts are forgotten, because they start again.
    taken_cleared: set[int] = attrs.field(factory=set)
    # By name and key: no broadcast before this serial exists any more, so the rows about them are not needed.
    taken_swept: dict[tuple[str, str], int] = attrs.field(factory=dict)
    sent_put: dict[str, SentEvent] = attrs.field(factory=dict)
    sent_dropped: set[str] = attrs.field(factory=set)
    # By workflow. A put replaces the stored row.
    progress_put: dict[int, Progress] = attrs.field(factory=dict)
    # A put replaces the schedule with the same key, and one with the same name and another key.
    schedules_put: dict[ScheduleKey, ScheduleRecord] = attrs.field(factory=dict)
    schedules_dropped: set[ScheduleKey] = attrs.field(factory=set)
    # Workflows that run on trial after an unclean stop, with the number of crashes that count against each.
    suspects_put: dict[int, int] = attrs.field(factory=dict)
    suspects_dropped: set[int] = attrs.field(factory=set)
    # By request id: answers to changes that clients of other processes have made. A repeat gets the same answer.
    answers_put: dict[str, StoredAnswer] = attrs.field(factory=dict)
    answers_dropped: set[str] = attrs.field(factory=set)
    # By number: requests that a client keeps for the next engine, and those that an engine has decided.
    kept_put: dict[int, KeptRequest] = attrs.field(factory=dict)
    kept_dropped: set[int] = attrs.field(factory=set)
    # In a store with several shards: messages to other shards, in the order in which they were sent; letters of this
    # shard's inbox that were handled, and unreadable ones that are set aside.
    letters: list[Letter] = attrs.field(factory=list)
    letters_handled: set[LetterId] = attrs.field(factory=set)
    letters_set_aside: set[LetterId] = attrs.field(factory=set)
    # (workflow, shard): where a workflow has started children that end with it. Dropped when the workflow is purged.
    tied_shards: set[tuple[int, int]] = attrs.field(factory=set)
    # Set in the last commit of an orderly stop.
    clean_stop: bool = False

    def is_empty(self) -> bool:
        """Whether there is nothing to commit."""
        return not (
            self.workflows_new
            or self.workflows_changed
            or self.history
            or self.workflows_purged
            or self.restarted
            or self.history_trimmed
            or self.waits_put
            or self.waits_dropped
            or self.events_put
            or self.events_dropped
            or self.letters_put
            or self.letters_dropped
            or self.taken_put
            or self.taken_cleared
            or self.taken_swept
            or self.sent_put
            or self.sent_dropped
            or self.progress_put
            or self.schedules_put
            or self.schedules_dropped
            or self.suspects_put
            or self.suspects_dropped
            or self.answers_put
            or self.answers_dropped
            or self.kept_put
            or self.kept_dropped
            or self.letters
            or self.letters_handled
            or self.letters_set_aside
            or self.clean_stop
        )

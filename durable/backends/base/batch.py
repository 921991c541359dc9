"""The net changes of one commit, as the engine gathers them and a store applies them.

Knows records. Must not know who decides them, nor how they are stored.
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
from durable.model.schedule import ScheduleRecord


@attrs.define
class Entries:
    """New entries of histories, each with the key of its workflow, in the order in which they were decided.

    Two lists and no pairs: there is one for every step, and the garbage collector comes by each of them.
    """

    _keys: list[int] = attrs.field(factory=list)
    _entries: list[HistoryEntry] = attrs.field(factory=list)

    def add(self, key: int, entry: HistoryEntry) -> None:
        """One more entry."""
        self._keys.append(key)
        self._entries.append(entry)

    def without(self, key: int) -> Entries:
        """Those of all other workflows."""
        return _entries((owner, entry) for owner, entry in self if owner != key)

    def __iter__(self) -> Iterator[tuple[int, HistoryEntry]]:
        return zip(self._keys, self._entries, strict=True)

    def __len__(self) -> int:
        return len(self._keys)


def _entries(pairs: Entries | Iterable[tuple[int, HistoryEntry]]) -> Entries:
    if isinstance(pairs, Entries):
        return pairs
    made = Entries()
    for key, entry in pairs:
        made.add(key, entry)
    return made


@attrs.frozen
class Letter:
    """A message to another shard, as JSON text. The store adds it to the inbox there, in the sender's own commit."""

    to: int
    text: str


@attrs.frozen(order=True)
class LetterId:
    """Where a letter lies in its inbox: the mark of the commit that has written it, and its number in that commit."""

    mark: int
    ordinal: int


@attrs.frozen
class StoredLetter:
    """A letter in an inbox, with the shard that has written it."""

    id: LetterId
    sender: int
    text: str


# Nothing is converted when a field is set anew: that would make every assignment a call.
@attrs.define(on_setattr=attrs.setters.NO_OP)
class Batch:
    """The net changes of one commit; a store applies what is dropped before what is put.

    Within a batch nothing is both put and dropped, and the engine reads through it as an overlay over the store.
    """

    number: int = 0
    # The highest serial given out so far.
    serial: int = 0
    workflows_new: dict[int, WorkflowRecord] = attrs.field(factory=dict)
    # Rows that exist already: everything but key, id, created_at, parent and tags may have changed; name, version,
    # input, start_digest, start_at, depth and round only together with `restarted`.
    workflows_changed: dict[int, WorkflowRecord] = attrs.field(factory=dict)
    # With their history, waits, mailbox, progress and the broadcasts they have taken.
    workflows_purged: set[int] = attrs.field(factory=set)
    # Workflows that begin again (`continue_as`, or a child with its retried parent): their stored history goes, before
    # the entries below are added, and their code and arguments may be others.
    restarted: set[int] = attrs.field(factory=set)
    history: Entries = attrs.field(factory=Entries, converter=_entries)
    # (workflow, seq): entries that nobody needs any more. They go last: some may be among those above.
    history_trimmed: set[tuple[int, int]] = attrs.field(factory=set)
    waits_put: dict[tuple[int, str], EventWait] = attrs.field(factory=dict)
    waits_dropped: set[tuple[int, str]] = attrs.field(factory=set)
    # Keyed by serial. A put may replace a stored event (a mailbox that becomes known, a letter that is sent again).
    events_put: dict[int, PendingEvent] = attrs.field(factory=dict)
    events_dropped: set[int] = attrs.field(factory=set)
    letters_put: dict[int, DeadLetter] = attrs.field(factory=dict)
    letters_dropped: set[int] = attrs.field(factory=set)
    # By workflow, name and key; a put replaces what is stored.
    taken_put: dict[tuple[int, str, str], TakenBroadcast] = attrs.field(factory=dict)
    # Workflows that have taken nothing any more, because they start again.
    taken_cleared: set[int] = attrs.field(factory=set)
    # By name and key: no broadcast before this serial is kept, so nobody needs to know who has taken one.
    taken_swept: dict[tuple[str, str], int] = attrs.field(factory=dict)
    sent_put: dict[str, SentEvent] = attrs.field(factory=dict)
    sent_dropped: set[str] = attrs.field(factory=set)
    # By workflow; a put replaces what is stored.
    progress_put: dict[int, Progress] = attrs.field(factory=dict)
    # A put replaces the schedule of the same key, and one of the same name under another key.
    schedules_put: dict[int, ScheduleRecord] = attrs.field(factory=dict)
    schedules_dropped: set[int] = attrs.field(factory=set)
    # Workflows that run on trial after an unclean stop, with the crashes that count against each.
    suspects_put: dict[int, int] = attrs.field(factory=dict)
    suspects_dropped: set[int] = attrs.field(factory=set)
    # In a store with several shards: messages to other shards, in the order in which they were sent; letters of this
    # shard's inbox that were handled, and those that nobody can read, which are set aside.
    letters: list[Letter] = attrs.field(factory=list)
    letters_handled: set[LetterId] = attrs.field(factory=set)
    letters_set_aside: set[LetterId] = attrs.field(factory=set)
    # (workflow, shard): where a workflow has started children that end with it. Goes when the workflow is purged.
    tied_shards: set[tuple[int, int]] = attrs.field(factory=set)
    # Said by the last commit of an orderly stop.
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
            or self.letters
            or self.letters_handled
            or self.letters_set_aside
            or self.clean_stop
        )

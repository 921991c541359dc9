"""The ledger: the sum of all commits that truly happened, kept without asking the store or the engine.

It only books. The rules judge. Booking a commit costs as much work as the commit is large.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

import attrs

from durable.backends.base import Batch
from durable.model.error_codec import error_summary
from durable.model.homes import key_home
from durable.model.records import (
    DeadLetterPolicy,
    EntryKind,
    EntryStatus,
    EventWait,
    HistoryEntry,
    ParkReason,
    PendingEvent,
    Progress,
    WorkflowRecord,
    WorkflowStatus,
)
from durable.model.schedule import ScheduleRecord
from durable.model.timers import ScheduleKey
from durable.runner.past import Retried
from simulation.activities import hold, release
from simulation.mail import Mail
from simulation.posted import Post

# The kinds of waits that are stored as rows.
REGISTERED = (EntryKind.EVENT, EntryKind.PAUSE, EntryKind.RESULT)
# The kinds of entries that are not outcomes of steps.
NOTES = (EntryKind.CANCEL, EntryKind.PATCH, EntryKind.RETRIED, EntryKind.FORKED)
# One attempt of an activity: workflow, round, position, attempt.
Attempt = tuple[int, int, str, int]
# One question to a person: workflow, round, position.
Asked = tuple[int, int, str]


@attrs.define(eq=False)
class Life:
    """Everything that commits have said about one workflow."""

    record: WorkflowRecord
    seq: int = 0
    # The workflow's own time; and the latest time in any entry, failed attempts and void entries included.
    at: int = 0
    latest: int = 0
    # Of this round: the positions with a recorded outcome; and of the others, how often they failed, and the time of
    # the next attempt.
    done: set[str] = attrs.field(factory=set)
    failed: dict[str, tuple[int, int]] = attrs.field(factory=dict)
    waits: dict[str, EventWait] = attrs.field(factory=dict)
    # Unclean stops since its last progress. On trial, progress does not reset it.
    stops: int = 0
    # Unclean stops while its body ran, since the last orderly stop.
    deaths: int = 0
    has_ended: bool = False
    # Of this round: the positions of the steps to undo if it fails, by number, in the order of their entries; and the
    # recorded undos, each with its position and the number of the step.
    held: dict[int, str] = attrs.field(factory=dict)
    released: list[tuple[str, int]] = attrs.field(factory=list)
    # Of this round: all entries ever recorded, and the numbers of those that were trimmed since.
    entries: list[HistoryEntry] = attrs.field(factory=list)
    trimmed: set[int] = attrs.field(factory=set)
    # The numbers of entries that a fork did not copy, because they did not count any more (`absent`), or because its
    # source had trimmed them (`lost`).
    absent: set[int] = attrs.field(factory=set)
    lost: set[int] = attrs.field(factory=set)
    # Whether only the new code has ever run this round.
    is_modern: bool = False
    # Whether it had an activity at the last unclean stop, and has made no progress since.
    is_suspect: bool = False
    # Of this round: the entries that a retry has made void. And whether it was ever continued after its end.
    void: set[int] = attrs.field(factory=set)
    was_reopened: bool = False
    # Whether an operator has retried it after its crashes. Its body is rebuilt only after that commit.
    is_resuming: bool = False

    def is_busy_alone(self) -> bool:
        """Whether only its activities can make it continue: it has no timer, no wait and no parent."""
        record = self.record
        has_wakers = record.wake_at is not None or record.parent_key is not None or bool(self.waits)
        return record.status is WorkflowStatus.RUNNING and not has_wakers

    def begin_round(self, *, is_modern: bool) -> None:
        """Clear everything about the round: its history starts again."""
        self.seq = self.at = self.latest = 0
        self.is_modern = is_modern
        self.is_suspect = False
        self.done.clear()
        self.failed.clear()
        self.held.clear()
        self.entries.clear()
        self.trimmed.clear()
        self.absent.clear()
        self.lost.clear()
        self.void.clear()
        self.released.clear()

    def learn(self, entry: HistoryEntry) -> None:
        """Add an entry."""
        self.seq = entry.seq
        self.entries.append(entry)
        self.latest = max(self.latest, entry.at_us)
        if entry.kind in (EntryKind.PATCH, EntryKind.FORKED):
            # An answer to the body, or a note about it. Neither is progress.
            return
        self.is_suspect = False
        if entry.status is EntryStatus.RETRY:
            count, _ = self.failed.get(entry.position, (0, 0))
            self.failed[entry.position] = (count + 1, entry.retry_at_us or 0)
            return
        self.at = max(self.at, entry.at_us)
        if entry.kind is EntryKind.RETRIED:
            self._retry(entry)
        elif entry.kind is not EntryKind.CANCEL:
            self.done.add(entry.position)
        if entry.name in (hold.name, release.name):
            self._add_undo(entry)

    def _retry(self, note: HistoryEntry) -> None:
        """A retry: the step that failed is not done any more, and has no attempts."""
        self.was_reopened = True
        self.void.update(Retried.of(note).entries)
        valid = (entry for entry in self.entries if entry.seq not in self.void and entry.kind is not EntryKind.PATCH)
        self.at = max((entry.at_us for entry in valid if entry.status is not EntryStatus.RETRY), default=0)
        if note.position:
            self.done.discard(note.position)
            self.failed.pop(note.position, None)

    def _add_undo(self, entry: HistoryEntry) -> None:
        """A step that can be undone has ended, or an undo has."""
        is_well = entry.status is EntryStatus.OK
        if entry.name == release.name:
            number = json.loads(entry.outcome)[1] if is_well else error_summary(entry.outcome)[1]
            self.released.append((entry.position, int(number)))
        elif is_well:
            self.held[json.loads(entry.outcome)[1]] = entry.position


class Ledger:
    """The sum of all commits, and the results of activities since the engine was opened."""

    def __init__(self, policy: DeadLetterPolicy, retention: int, grace: float = 60, shards: int = 1) -> None:
        # How many shards the store has; the one whose commit is being checked; and the letters between them.
        self.shards = shards
        self.shard = 0
        self.post = Post(shards)
        # After how many seconds a tick counts as missed.
        self.grace = grace
        self.lives: dict[int, Life] = {}
        self.ids: dict[str, int] = {}
        # The keys of children, by the parent's key and the place.
        self.children: dict[tuple[int, str], int] = {}
        self.mail = Mail(policy, retention)
        # Waits by event name and key, then by workflow and position. Pauses and results have the name "".
        self.waiting: dict[tuple[str, str], dict[tuple[int, str], EventWait]] = {}
        # The results that each attempt delivered.
        self.answers: dict[Attempt, list[str]] = {}
        # The answers that people tried to give ("" to take the question back), and the recorded one.
        self.wanted: dict[Asked, set[str]] = {}
        self.recorded: dict[Asked, str] = {}
        # The functions to call when a question is asked, by its prompt.
        self.lookouts: dict[str, list[Callable[[], None]]] = {}
        # The ids that a client wanted to terminate.
        self.axed: set[str] = set()
        # The ids that an operator wanted to retry.
        self.mended: set[str] = set()
        self.progress: dict[int, Progress] = {}
        self.schedules: dict[ScheduleKey, ScheduleRecord] = {}
        # The workflows on trial, and the crashes that count against each.
        self.suspects: dict[int, int] = {}
        # Whether the process has any code, and whether it has the new code.
        self.has_code = True
        self.has_new_code = False
        self.commits = 0
        # Of the commit that is being checked: its entries by kind, each with its workflow, without copies of forks.
        self._entries: dict[EntryKind, list[tuple[int, HistoryEntry]]] = {}

    def read(self, batch: Batch) -> None:
        """Read the entries of a commit, before the rules run and before it is booked."""
        self._entries = {}
        for key, entry in batch.history:
            self._entries.setdefault(entry.kind, []).append((key, entry))

    def entries(self, kind: EntryKind) -> Sequence[tuple[int, HistoryEntry]]:
        """The entries of one kind in the commit that was read last, each with its workflow."""
        return self._entries.get(kind, ())

    def life(self, id: str | None) -> Life | None:
        """The workflow with this id, or None if it was never committed."""
        key = self.ids.get(id or "")
        return None if key is None else self.lives[key]

    def asked(self, number: int) -> Asked | None:
        """The open pause whose prompt is this number, or None."""
        for (key, position), wait in self.waiting.get(("", ""), {}).items():
            if wait.question is not None and wait.question.prompt == str(number):
                return (key, self.lives[key].record.round, position)
        return None

    def is_here(self, key: int) -> bool:
        """Whether a workflow lives in the shard whose commit is being checked."""
        return key_home(key, self.shards) == self.shard

    def open(self, *, clean: bool, is_forgiven: bool, marked: int = 0) -> None:
        """An engine has opened the shard: activities of the last one can no longer deliver results.

        `marked` is the key of the workflow whose body ran when the last engine stopped; `is_forgiven` clears the counts
        of such stops.
        """
        self.answers = {attempt: kept for attempt, kept in self.answers.items() if not self.is_here(attempt[0])}
        parents = {parent for parent, _ in self.children}
        for key, life in self.lives.items():
            if not self.is_here(key):
                continue
            # Only such workflows wait for their trial: others may be woken earlier, by a timer or a child.
            life.is_suspect = not clean and key not in parents and life.is_busy_alone()
            life.stops += not clean
            life.deaths = 0 if is_forgiven else life.deaths + (not clean and key == marked)
            # To the next process, a round that has not begun and one without entries look the same.
            life.is_modern = life.is_modern and life.seq > 0

    def book(self, batch: Batch, now: int) -> None:
        """Add a commit."""
        self.commits += 1
        for key, record in batch.workflows_new.items():
            # A fork was entered before, with its copied entries (`forked`).
            life = self.lives.setdefault(key, Life(record, is_modern=self.has_new_code))
            life.record, life.has_ended = record, record.finished_at is not None
            self.ids[record.id] = key
            if record.parent_key is not None and record.parent_place is not None:
                self.children[record.parent_key, record.parent_place] = key
        for key, record in batch.workflows_changed.items():
            life = self.lives[key]
            # Even if the retry's note is gone, because another round began in the same commit.
            life.was_reopened = life.was_reopened or life.has_ended
            was_crashed = life.record.park_reason is ParkReason.CRASHED
            life.is_resuming = was_crashed and record.status is WorkflowStatus.RUNNING
            # The operator's retry clears its crash counts.
            life.is_suspect = life.is_suspect and not life.is_resuming
            life.deaths = 0 if life.is_resuming else life.deaths
            life.record = record
            life.has_ended = record.finished_at is not None
        for key in batch.restarted:
            self.lives[key].begin_round(is_modern=self.has_new_code)
        for key, entry in batch.history:
            self.lives[key].learn(entry)
            if entry.kind is EntryKind.PAUSE:
                asked = (key, self.lives[key].record.round, entry.position)
                self.recorded[asked] = entry.outcome if entry.status is EntryStatus.OK else ""
        for key, seq in batch.history_trimmed:
            self.lives[key].trimmed.add(seq)
        self.progress.update(batch.progress_put)
        self.suspects.update(batch.suspects_put)
        for key in batch.suspects_dropped:
            self.suspects.pop(key, None)
        for key, entry in batch.history:
            # Progress does not clear a workflow with an activity on trial, and a failed attempt is not progress.
            is_progress = entry.kind is not EntryKind.PATCH and entry.status is not EntryStatus.RETRY
            if is_progress and key not in self.suspects:
                self.lives[key].stops = 0
        self._book_waits(batch.waits_dropped, batch.waits_put.values())
        self.post.book(batch, self.shard)
        self.mail.book(batch, now, self._has_ended, self.post)
        for key in batch.schedules_dropped:
            self.schedules.pop(key, None)
        self.schedules.update(batch.schedules_put)

    def schedule(self, name: str | None) -> ScheduleRecord | None:
        """The stored schedule with this name, or None."""
        return next((schedule for schedule in self.schedules.values() if schedule.name == name), None)

    def _has_ended(self, event: PendingEvent) -> bool:
        """Whether the workflow that an event was sent to has ended."""
        life = self.life(event.unstarted) if event.target is None else self.lives[event.target]
        return life is not None and (life.has_ended or life.was_reopened)

    def _book_waits(self, dropped: Iterable[tuple[int, str]], put: Iterable[EventWait]) -> None:
        """Add and remove waits; those of other shards are booked as guests."""
        guests = self.post.guests[self.shard]
        for key, position in dropped:
            if not self.is_here(key):
                guests.pop((key, position), None)
                continue
            wait = self.lives[key].waits.pop(position, None)
            if wait is not None:
                del self.waiting[wait.name, wait.event_key][key, position]
        for wait in put:
            if wait.guest is not None:
                guests[wait.workflow_key, wait.position] = wait
                continue
            self.lives[wait.workflow_key].waits[wait.position] = wait
            place = self.waiting.setdefault((wait.name, wait.event_key), {})
            place[wait.workflow_key, wait.position] = wait
            if wait.question is not None:
                for call in self.lookouts.pop(wait.question.prompt, ()):
                    call()

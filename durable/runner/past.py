"""Reads a history ahead of a replay: entries that are looked up, and how they change the entries to feed.

A session makes a `Past` once, before its first step. Some entries cannot wait for their turn:

- `patch` is an answer of `patched`; it holds for the whole run, even at positions before the entry.
- `loop` is a recorded state. Only rounds from the last recorded state on are fed; the earlier ones are not needed.
- `repaired` replaces the outcome of another entry.
- `retried` voids other entries, so that their steps run again.
- `forked` names the id under which the copied part of the history was drawn.

`patch` and `repaired` are never fed. `retried` and `forked` are also fed at their place, because they move the
workflow's clock. A `loop` entry is fed like any other.

This module knows the entries and the JSON of the looked-up ones. It knows nothing about bodies, and it never changes
what is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from durable.errors import CodecError
from durable.model.codec import Coder
from durable.model.position import Position
from durable.model.records import EntryKind, EntryStatus, HistoryEntry

S = TypeVar("S", bound=msgspec.Struct)

# Entries that are never fed; and notes, which are fed but are not the outcome of the step at their position.
_ASIDE = frozenset({EntryKind.PATCH, EntryKind.REPAIRED})
NOTES = frozenset({EntryKind.RETRIED, EntryKind.FORKED})
_LOOKED_UP = _ASIDE | NOTES | {EntryKind.LOOP}


class RoundState(msgspec.Struct, frozen=True):
    """The recorded state of a loop. A replay starts with round `since`."""

    since: int
    state: msgspec.Raw

    @classmethod
    def text(cls, since: int, state: str) -> str:
        """The JSON to record, for a state that is JSON already."""
        return _write(cls(since, msgspec.Raw(state.encode())))

    @classmethod
    def read(cls, outcome: str, coder: Coder) -> object:
        """The state in a recorded outcome. Raises `CodecError`."""
        return coder.unpack(bytes(_read(cls, coder.where, outcome).state).decode())


class Repair(msgspec.Struct, frozen=True):
    """An operator's new outcome for an entry, and the reason."""

    entry: int
    value: msgspec.Raw
    reason: str

    @classmethod
    def text(cls, entry: int, value: str, reason: str) -> str:
        """The JSON to record, for a value that is JSON already."""
        return _write(cls(entry, msgspec.Raw(value.encode()), reason))


class Retried(msgspec.Struct, frozen=True, omit_defaults=True):
    """The entries that a retry voids, so that their steps run again, and the time spent FAILED in microseconds.

    `lain` moves the deadlines of open waits: see `_resume_after` in `session`. The reason is for people.
    """

    entries: list[int]
    lain: int
    reason: str | None = None

    def text(self) -> str:
        """The JSON to record."""
        return _write(self)

    @classmethod
    def of(cls, entry: HistoryEntry) -> Retried:
        """Read it from its entry. Raises `CodecError`."""
        return _read(cls, _label(entry), entry.outcome)


class Forked(msgspec.Struct, frozen=True):
    """The workflow whose history was copied, and the last entry of the copy."""

    source: str
    entry: int

    @classmethod
    def of(cls, note: HistoryEntry) -> Forked:
        """Read it from its entry. Raises `CodecError`."""
        return _read(cls, _label(note), note.outcome)

    def text(self) -> str:
        """The JSON to record."""
        return _write(self)


class Round(NamedTuple):
    """The rounds of a loop between two recorded states, and their entries. `start` is the number of the first.

    Usually that is one round. But a round that received no entries records no state for the next one, so the two
    share a `Round`.
    """

    start: int
    entries: set[int]


class PastRounds(NamedTuple):
    """The round with which a replay starts, and the earlier rounds, which are kept only for people to read."""

    since: int
    rounds: list[Round]


class Past:
    """One history, read ahead. `entries` are those to feed: effective ones, without rounds that are over."""

    def __init__(self, entries: Iterable[HistoryEntry] = ()) -> None:
        self.patches: dict[str, bool] = {}
        # By the position of the loop.
        self.loops: dict[str, PastRounds] = {}
        # (entry, id): draws up to this entry used this id.
        self.forks: list[tuple[int, str]] = []
        # The number of retries and repairs. After one, there may be children that the history no longer mentions.
        self.mends = 0
        self.entries: Sequence[HistoryEntry] = entries if isinstance(entries, (list, tuple)) else list(entries)
        self._last: dict[str, int] | None = None
        if aside := [entry for entry in self.entries if entry.kind in _LOOKED_UP]:
            self._look_up(aside)
            self._skip_rounds([entry for entry in effective(self.entries) if entry.kind not in _ASIDE])

    def forget(self) -> None:
        """Free the entries after a replay. Nothing is recorded for later positions."""
        self.entries, self._last = (), {}

    def last_at(self, position: str) -> int | None:
        """The number of the last entry at a position or below it; None without any."""
        if self._last is None:
            self._last = {}
            for entry in self.entries:
                path = Position("" if entry.kind in NOTES else entry.position)
                while path:
                    self._last[path] = entry.seq
                    path = path.parent
        return self._last.get(position)

    def _look_up(self, aside: Sequence[HistoryEntry]) -> None:
        for entry in aside:
            if entry.kind is EntryKind.PATCH:
                self.patches.setdefault(entry.name, entry.outcome == "true")
            elif entry.kind is EntryKind.FORKED:
                forked = Forked.of(entry)
                self.forks.append((forked.entry, forked.source))
            elif entry.kind is EntryKind.LOOP:
                if entry.status is not EntryStatus.OK:
                    continue
                loop = Position(entry.position).loop
                # A later state replaces an earlier one.
                self.loops[loop] = PastRounds(_read(RoundState, _label(entry), entry.outcome).since, [])
            else:
                self.mends += 1

    def _skip_rounds(self, entries: Sequence[HistoryEntry]) -> None:
        """Leave out the rounds before the last recorded state: that state holds their result."""
        self.entries = [entry for entry in entries if not self._is_over(entry)] if self.loops else entries

    def _is_over(self, entry: HistoryEntry) -> bool:
        """Whether an entry belongs to a round that is over. If so, adds it to that round.

        Notes of operators are always fed: they also move deadlines outside of the loop.
        """
        path = [] if entry.kind in NOTES else Position(entry.position).parts
        for length in range(1, len(path) - 1):
            past = self.loops.get(".".join(path[:length]))
            if past is None or not path[length].isdecimal() or (number := int(path[length])) >= past.since:
                continue
            is_state = entry.kind is EntryKind.LOOP and len(path) == length + 2
            if is_state or not past.rounds:
                past.rounds.append(Round(number, set()))
            past.rounds[-1].entries.add(entry.seq)
            return True
        return False


# The past of a body without a history. Thousands of bodies share it, so it must never change.
NOTHING = Past()


def effective(entries: Sequence[HistoryEntry]) -> list[HistoryEntry]:
    """A history after all retries and repairs: with replaced outcomes, without void entries. Raises `CodecError`."""
    repaired: dict[int, str] = {}
    void: set[int] = set()
    for entry in entries:
        if entry.kind is EntryKind.REPAIRED:
            repair = _read(Repair, _label(entry), entry.outcome)
            repaired[repair.entry] = bytes(repair.value).decode()
        elif entry.kind is EntryKind.RETRIED:
            void.update(Retried.of(entry).entries)
    kept: list[HistoryEntry] = []
    for entry in entries:
        if entry.seq in repaired:
            kept.append(entry._replace(status=EntryStatus.OK, outcome=repaired[entry.seq]))
        elif entry.seq not in void and entry.kind is not EntryKind.REPAIRED:
            kept.append(entry)
    return kept


def _label(entry: HistoryEntry) -> str:
    return f"entry {entry.seq} ({entry.kind.value})"


def _write(value: msgspec.Struct) -> str:
    return msgspec.json.encode(value).decode()


def _read(kind: type[S], where: str, text: str) -> S:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CodecError(where, f"the stored text cannot be read: {error}") from error

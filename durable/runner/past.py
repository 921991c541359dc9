"""What a history says beforehand: the entries that are looked up instead of fed, and what they make of the others.

A session reads it once, before its first step. Knows entries and how the looked-up ones are written; must not know
bodies, and never changes what is stored:

- a `patch` is an answer of `patched`, which stands for ever;
- of a loop only the rounds from the last recorded state on are fed, because nobody needs those before;
- a `repaired` entry replaces the outcome of another;
- a `retried` entry makes others void, a `forked` one says under which id a copied history was drawn. Both are fed too,
  because time has passed when they were made.
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

# What is not fed; and what is, but tells nothing of the step at whose position it stands.
_ASIDE = frozenset({EntryKind.PATCH, EntryKind.REPAIRED})
NOTES = frozenset({EntryKind.RETRIED, EntryKind.FORKED})
_LOOKED_UP = _ASIDE | NOTES | {EntryKind.LOOP}


class RoundState(msgspec.Struct, frozen=True):
    """How a loop's state is recorded. `since` is the round from which a replay goes on."""

    since: int
    state: msgspec.Raw

    @classmethod
    def text(cls, since: int, state: str) -> str:
        """What is recorded of a state that is JSON already."""
        return _write(cls(since, msgspec.Raw(state.encode())))

    @classmethod
    def read(cls, outcome: str, coder: Coder) -> object:
        """The state of a recorded outcome. Raises `CodecError`."""
        return coder.unpack(bytes(_read(cls, coder.where, outcome).state).decode())


class Repair(msgspec.Struct, frozen=True):
    """Which entry has another outcome now, and why."""

    entry: int
    value: msgspec.Raw
    reason: str

    @classmethod
    def text(cls, entry: int, value: str, reason: str) -> str:
        """What is recorded of a value that is JSON already."""
        return _write(cls(entry, msgspec.Raw(value.encode()), reason))


class Retried(msgspec.Struct, frozen=True):
    """Which entries are void, so that what they tell of is done again, and how long the workflow had lain failed."""

    entries: list[int]
    lain: int

    def text(self) -> str:
        """What is recorded."""
        return _write(self)

    @classmethod
    def of(cls, entry: HistoryEntry) -> Retried:
        """What an entry has recorded. Raises `CodecError`."""
        return _read(cls, _label(entry), entry.outcome)


class Forked(msgspec.Struct, frozen=True):
    """Whose history was copied, up to and with which entry."""

    source: str
    entry: int

    @classmethod
    def of(cls, note: HistoryEntry) -> Forked:
        """What is recorded in a note. Raises `CodecError`."""
        return _read(cls, _label(note), note.outcome)

    def text(self) -> str:
        """What is recorded."""
        return _write(self)


class Round(NamedTuple):
    """Rounds of a loop that begin with one recorded state (the first ones with none), and the entries that are theirs.

    Several, where rounds have passed without learning anything.
    """

    start: int
    entries: set[int]


class PastRounds(NamedTuple):
    """Where a loop goes on, and the rounds before that, which are kept only to be read."""

    since: int
    rounds: list[Round]


class Past:
    """One history, as a session reads it beforehand."""

    def __init__(self, entries: Iterable[HistoryEntry] = ()) -> None:
        self.patches: dict[str, bool] = {}
        # By the position of the loop.
        self.loops: dict[str, PastRounds] = {}
        # (entry, id): up to this entry, what is drawn follows from this id.
        self.forks: list[tuple[int, str]] = []
        # How often an operator has set it right: if so, it may have children that it does not speak of any more.
        self.mends = 0
        self.entries: Sequence[HistoryEntry] = entries if isinstance(entries, (list, tuple)) else list(entries)
        self._last: dict[str, int] | None = None
        if aside := [entry for entry in self.entries if entry.kind in _LOOKED_UP]:
            self._look_up(aside)
            self._skip_rounds([entry for entry in effective(self.entries) if entry.kind not in _ASIDE])

    def forget(self) -> None:
        """All of it was fed: at whatever position the body comes to next, nothing is recorded."""
        self.entries, self._last = (), {}

    def last_at(self, position: str) -> int | None:
        """The last entry that is recorded for a position or below it."""
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
                # The last one counts.
                self.loops[loop] = PastRounds(_read(RoundState, _label(entry), entry.outcome).since, [])
            else:
                self.mends += 1

    def _skip_rounds(self, entries: Sequence[HistoryEntry]) -> None:
        """Leave out the rounds of loops that are over: what they learnt is in the state that is recorded last."""
        self.entries = [entry for entry in entries if not self._is_over(entry)] if self.loops else entries

    def _is_over(self, entry: HistoryEntry) -> bool:
        """Whether an entry belongs to a round that is over; then it is noted there.

        What operators have done is needed for ever: it has moved limits outside of the loop as well.
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


# That of a body without a history. Thousands share it, and nobody changes what it says.
NOTHING = Past()


def effective(entries: Sequence[HistoryEntry]) -> list[HistoryEntry]:
    """A history as operators have left it: with results that were replaced, without what is void.

    Raises `CodecError`.
    """
    repaired: dict[int, str] = {}
    void: set[int] = set()
    for entry in entries:
        if entry.kind is EntryKind.REPAIRED:
            repair = _read(Repair, _label(entry), entry.outcome)
            repaired[repair.entry] = bytes(repair.value).decode()
        elif entry.kind is EntryKind.RETRIED:
            void.update(Retried.of(entry).entries)
    found: list[HistoryEntry] = []
    for entry in entries:
        if entry.seq in repaired:
            found.append(entry._replace(status=EntryStatus.OK, outcome=repaired[entry.seq]))
        elif entry.seq not in void and entry.kind is not EntryKind.REPAIRED:
            found.append(entry)
    return found


def _label(entry: HistoryEntry) -> str:
    return f"entry {entry.seq} ({entry.kind.value})"


def _write(value: msgspec.Struct) -> str:
    return msgspec.json.encode(value).decode()


def _read(kind: type[S], where: str, text: str) -> S:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CodecError(where, f"the stored text cannot be read: {error}") from error

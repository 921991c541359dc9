"""What a history says beforehand: the entries that are looked up instead of fed, and what they make of the others.

A session reads it once, before its first step. Knows entries and how the looked-up ones are written; must not know
bodies, and never changes what is stored:

- a `patch` is an answer of `patched`, which stands for ever;
- of a loop only the rounds from the last recorded state on are fed, because nobody needs those before;
- a `repaired` entry replaces the outcome of another, a `retried` one makes others void;
- a `forked` entry says under which id a copied history was drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from durable.codec import Coder
from durable.errors import CodecError
from durable.records import EntryKind, EntryStatus, HistoryEntry

S = TypeVar("S", bound=msgspec.Struct)

# What operators and patches write: it is not fed.
_ASIDE = frozenset({EntryKind.PATCH, EntryKind.REPAIRED, EntryKind.RETRIED, EntryKind.FORKED})
_LOOKED_UP = _ASIDE | {EntryKind.LOOP}


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
    """Which entries are void, so that what they tell of is done again."""

    entries: list[int]

    def text(self) -> str:
        """What is recorded."""
        return _write(self)


class Forked(msgspec.Struct, frozen=True):
    """Whose history was copied, up to and with which entry."""

    source: str
    entry: int

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
        self.entries: Sequence[HistoryEntry] = entries if isinstance(entries, (list, tuple)) else list(entries)
        self._last: dict[str, int] | None = None
        aside = [entry for entry in self.entries if entry.kind in _LOOKED_UP]
        if aside:
            self.entries = self._effective(aside)
            self._skip_rounds(aside)

    def last_at(self, position: str) -> int | None:
        """The last entry that is recorded for a position or below it."""
        if self._last is None:
            self._last = {}
            for entry in self.entries:
                path = entry.position
                while path:
                    self._last[path] = entry.seq
                    path = path.rpartition(".")[0]
        return self._last.get(position)

    def _effective(self, aside: Sequence[HistoryEntry]) -> list[HistoryEntry]:
        """The entries that are fed, with the outcomes that they have now."""
        repaired: dict[int, str] = {}
        void: set[int] = set()
        for entry in aside:
            where = f"{entry.kind.value} entry {entry.seq}"
            if entry.kind is EntryKind.PATCH:
                self.patches.setdefault(entry.name, entry.outcome == "true")
            elif entry.kind is EntryKind.REPAIRED:
                repair = _read(Repair, where, entry.outcome)
                repaired[repair.entry] = bytes(repair.value).decode()
            elif entry.kind is EntryKind.RETRIED:
                void.update(_read(Retried, where, entry.outcome).entries)
            elif entry.kind is EntryKind.FORKED:
                forked = _read(Forked, where, entry.outcome)
                self.forks.append((forked.entry, forked.source))
        found: list[HistoryEntry] = []
        for entry in self.entries:
            if entry.seq in repaired:
                # Also one that was void: whoever repairs has the last word.
                found.append(entry._replace(status=EntryStatus.OK, outcome=repaired[entry.seq]))
            elif entry.seq not in void and entry.kind not in _ASIDE:
                found.append(entry)
        return found

    def _skip_rounds(self, aside: Sequence[HistoryEntry]) -> None:
        """Leave out the rounds of loops that are over: what they learnt is in the state that is recorded last."""
        for entry in aside:
            if entry.kind is EntryKind.LOOP and entry.status is EntryStatus.OK:
                loop = entry.position.rpartition(".")[0].rpartition(".")[0]
                state = _read(RoundState, f"the state of the loop at {loop}", entry.outcome)
                self.loops[loop] = PastRounds(state.since, [])
        fed: list[HistoryEntry] = []
        for entry in self.entries:
            if not self._is_over(entry):
                fed.append(entry)
        self.entries = fed

    def _is_over(self, entry: HistoryEntry) -> bool:
        """Whether an entry belongs to a round that is over; then it is noted there."""
        path = entry.position.split(".")
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


def _write(value: msgspec.Struct) -> str:
    return msgspec.json.encode(value).decode()


def _read(kind: type[S], where: str, text: str) -> S:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CodecError(where, f"the stored text cannot be read: {error}") from error

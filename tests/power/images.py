"""What a power cut may leave of some files, built from the diary of a disk.

What was synced is there. Of the writes since then, anything may be there: none, all, the first ones, some in any order,
and only some sectors of a single write. This file knows a diary and chance. It must not know SQLite.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import attrs

from tests.power.disk import Act, Delete, Sync, Truncate, Write

Pending = list[Write | Truncate]
# Returns the pending changes that reached the disk, in the order in which they did.
Fate = Callable[[random.Random, Pending], Pending]


def _all_but_one(chance: random.Random, pending: Pending) -> Pending:
    lost = chance.randrange(len(pending))
    return [act for index, act in enumerate(pending) if index != lost]


def _some(chance: random.Random, pending: Pending) -> Pending:
    share = chance.random()
    return [act for act in pending if chance.random() < share]


def _shuffled(chance: random.Random, pending: Pending) -> Pending:
    kept = _some(chance, pending)
    chance.shuffle(kept)
    return kept


def _torn(sector: int) -> Fate:
    def fate(chance: random.Random, pending: Pending) -> Pending:
        share = chance.random()
        kept: Pending = []
        for act in pending:
            pieces = sectors(act, sector) if isinstance(act, Write) else [act]
            kept += [piece for piece in pieces if chance.random() < share]
        return kept

    return fate


FATES: dict[str, Fate] = {
    "nothing": lambda chance, pending: [],
    "everything": lambda chance, pending: pending,
    "the first part": lambda chance, pending: pending[: chance.randint(0, len(pending))],
    "all but one": _all_but_one,
    "some": _some,
    "some, in any order": _shuffled,
    "torn at 512": _torn(512),
    "torn at 4096": _torn(4096),
}


def sectors(write: Write, size: int) -> list[Write | Truncate]:
    """A write, split into the sectors that it touches."""
    pieces: list[Write | Truncate] = []
    start = write.offset
    end = write.offset + len(write.data)
    while start < end:
        stop = min(end, (start // size + 1) * size)
        pieces.append(Write(write.file, start, write.data[start - write.offset : stop - write.offset]))
        start = stop
    return pieces


@attrs.define
class _File:
    """One file: what is certainly on the disk, and what may be."""

    # None if there is no such file.
    synced: bytes | None = None
    # The states of deleted files, in case a deletion is lost: each has its own pending writes.
    before: list[tuple[bytes | None, Pending]] = attrs.field(factory=list)
    pending: Pending = attrs.field(factory=list)

    def note(self, act: Act) -> None:
        """Record one more act on this file."""
        if isinstance(act, Sync):
            self.synced, self.pending, self.before = after(self.synced, self.pending) or b"", [], []
        elif isinstance(act, Delete):
            if not act.is_synced:
                self.before.append((self.synced, self.pending))
            else:
                self.before = []
            self.synced, self.pending = None, []
        else:
            self.pending.append(act)

    def left(self, chance: random.Random, fate: Fate) -> bytes | None:
        """What a power cut leaves of this file."""
        synced, pending = chance.choice([*self.before, (self.synced, self.pending)])
        return after(synced, fate(chance, pending) if pending else [])


def after(synced: bytes | None, acts: Sequence[Write | Truncate]) -> bytes | None:
    """A file after some changes. A hole reads as zeros."""
    if not acts:
        return synced
    data = bytearray(synced or b"")
    for act in acts:
        size = act.size if isinstance(act, Truncate) else act.offset + len(act.data)
        if len(data) < size:
            data.extend(bytes(size - len(data)))
        if isinstance(act, Truncate):
            del data[size:]
        else:
            data[act.offset : size] = act.data
    return bytes(data)


@attrs.frozen
class Image:
    """The files as a power cut left them: after how many acts, and what became of the unsynced ones."""

    at: int
    fate: str
    files: dict[str, bytes]


def images(diary: Sequence[Act], moments: Sequence[int], chance: random.Random) -> Iterator[Image]:
    """One image per moment, in order of time. A moment is a number of acts."""
    files: dict[str, _File] = {}
    done = 0
    for moment in sorted(moments):
        for act in diary[done:moment]:
            file = files.setdefault(act.file, _File())
            if isinstance(act, Sync) and file.synced is None:
                # The first sync of a new journal or WAL syncs the directory too: deleted files stay deleted.
                for each_file in files.values():
                    each_file.before = []
            file.note(act)
        done = moment
        fate = chance.choice(list(FATES))
        left = {name: file.left(chance, FATES[fate]) for name, file in files.items()}
        yield Image(moment, fate, {name: data for name, data in left.items() if data is not None})

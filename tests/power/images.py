"""What a power cut may leave of some files, built from the diary of a disk.

What was synced is there. Of what was written since, anything may be there: nothing, everything, the first part, some
of it, in any order, and of a single write only some of its sectors. Knows a diary and chance. Must not know SQLite.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import attrs

from tests.power.disk import Act, Delete, Sync, Truncate, Write

Pending = list[Write | Truncate]
# Gives those of the pending changes that reached the disk, in the order in which they did.
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
    """A write as the sectors of the disk that it touches."""
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
    """One file: what is on the disk for sure, and what may be."""

    # None while there is no such file.
    synced: bytes | None = None
    # A file that was deleted, unless the deletion is lost; then what was written before is a file of its own.
    before: list[tuple[bytes | None, Pending]] = attrs.field(factory=list)
    pending: Pending = attrs.field(factory=list)

    def note(self, act: Act) -> None:
        """One more thing has happened to it."""
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
        """What a power cut leaves of it."""
        synced, pending = chance.choice([*self.before, (self.synced, self.pending)])
        return after(synced, fate(chance, pending) if pending else [])


def after(synced: bytes | None, acts: Sequence[Write | Truncate]) -> bytes | None:
    """A file after some changes; a hole reads as zeros."""
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
    """The files as a power cut left them: after so many acts of the diary, and what became of the unsynced ones."""

    at: int
    fate: str
    files: dict[str, bytes]


def images(diary: Sequence[Act], moments: Sequence[int], chance: random.Random) -> Iterator[Image]:
    """One image for each moment, in the order of time. A moment is a number of acts that had happened."""
    files: dict[str, _File] = {}
    done = 0
    for moment in sorted(moments):
        for act in diary[done:moment]:
            file = files.setdefault(act.file, _File())
            if isinstance(act, Sync) and file.synced is None:
                # The first sync of a new journal or WAL syncs the directory too: what was deleted stays deleted.
                for other in files.values():
                    other.before = []
            file.note(act)
        done = moment
        fate = chance.choice(list(FATES))
        left = {name: file.left(chance, FATES[fate]) for name, file in files.items()}
        yield Image(moment, fate, {name: data for name, data in left.items() if data is not None})

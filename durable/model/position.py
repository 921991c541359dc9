"""Where an operation stands in a workflow: the one module that builds and parses positions.

A **position** is a path whose parts are joined by dots. The operations of the root are `0, 1, 2`. Branch `left` of a
race at 4 has `4.left.0, 4.left.1`; a branch without a name has its number, and so has the round of a loop. Undos stand
below `u` in the scope that they belong to: the second undo of the root has `u.1.0, u.1.1`.

A **place** is a position that no other round of the same workflow shares: `4.left.0` in the first round, `3:4.left.0`
after three `continue_as`. Ids of children and of pauses are made of places.

Both are stored, in histories, waits and ids. Change what they look like and old runs diverge; `tests/formats` pins it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from durable.model.ids import ID_LENGTH_MAX, digest

_UNSAFE = re.compile(r"[^A-Za-z0-9_]")
_UNDO_MARK = "u"
# A longer name is cut and keeps a digest of the whole, behind a character that no other label has.
_LABEL_MAX = 64
_LABEL_KEPT = 40
# A place as it is stored: the number of the round, unless that is the first, and a position.
_PLACE = re.compile(r"(?:(\d{1,18}):)?([\w.%~]+)", re.ASCII)


class Position(str):
    """A position, to be asked about. Positions that are only passed on, or are keys of a dict, are plain texts."""

    __slots__ = ()

    @property
    def parent(self) -> Position:
        """The position without its last part; empty above the root's own operations."""
        return Position(self.rpartition(".")[0])

    @property
    def parts(self) -> list[str]:
        """The parts of the path, from the root down."""
        return self.split(".")

    @property
    def loop(self) -> Position:
        """The loop that this position records the state of: `loop.round.0` stands below its round."""
        return self.parent.parent

    def covers(self, other: str) -> bool:
        """Whether another position is this one or stands below it."""
        return other == self or other.startswith(f"{self}.")

    @property
    def undo_scope(self) -> Position | None:
        """The scope whose undo this step belongs to: a saga, or the root, which is empty; None outside of undos."""
        parts = self.parts
        return Position(".".join(parts[: parts.index(_UNDO_MARK)])) if _UNDO_MARK in parts else None


def branch_prefix(group: str, label: str | int) -> str:
    """What the positions in a branch, or in a round of a loop, begin with; the number of the operation follows."""
    return f"{group}.{label}."


def undo_prefix(scope: str, number: int) -> str:
    """What the positions of an undo begin with; the scope is a saga's position, or empty for the root."""
    return f"{scope}.{_UNDO_MARK}.{number}." if scope else f"{_UNDO_MARK}.{number}."


def branch_label(key: int | str) -> str:
    """The part of a position that stands for a branch: its number, or its name, percent-encoded where need be.

    A name must not be taken for a number or the mark of an undo, must not contain a dot, and is kept short.
    """
    if isinstance(key, int):
        return str(key)
    label = _UNSAFE.sub(_encoded, key) or "%"
    if label.isdecimal() or label == _UNDO_MARK:
        label = f"%{ord(label[0]):02X}{label[1:]}"
    if len(label) <= _LABEL_MAX:
        return label
    # Not of the name itself, in which a lone surrogate may stand.
    return f"{label[:_LABEL_KEPT]}~{digest(label)[:16]}"


def _encoded(unsafe: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in unsafe[0].encode("utf-8", "surrogatepass"))


class Place(NamedTuple):
    """A position in one round of a workflow."""

    round: int
    position: str

    @classmethod
    def parse(cls, text: str) -> Place | None:
        """A place from its stored text; None if the text is damaged."""
        match = _PLACE.fullmatch(text)
        return None if match is None else cls(int(match[1] or 0), match[2])


def place(round_number: int, position: str) -> str:
    """The stored text of a place."""
    return position if round_number == 0 else f"{round_number}:{position}"


def child_id(parent_id: str, round_number: int, position: str) -> str:
    """The id of the child that a workflow starts at a position; the same on every replay.

    Rounds after the first (`continue_as`) reuse positions, so they are named too. A chain of long ids is cut and
    keeps a digest of the whole.
    """
    whole = f"{parent_id}/{place(round_number, position)}"
    if len(whole) <= ID_LENGTH_MAX:
        return whole
    return f"{whole[:200]}~{digest(whole)}"

"""The address of an operation in a workflow. Only this module builds and parses positions.

A **position** is a path whose parts are joined by dots. The operations of the root are `0, 1, 2`. The operations in
branch `left` of a race at 4 are `4.left.0, 4.left.1`. A branch without a name uses its number, and so does a round of a
loop. Undos are below `u` in the scope that they belong to: the operations of the root's second undo are `u.1.0, u.1.1`.

A **place** is a position that is unique across the rounds of a workflow: `4.left.0` in the first round, `3:4.left.0`
after three `continue_as`. Ids of children and pauses are made from places.

Both are stored, in histories, waits and ids. If their form changes, old runs diverge. `tests/formats` pins it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from durable.model.ids import ID_LENGTH_MAX, digest

_UNSAFE = re.compile(r"[^A-Za-z0-9_]")
_UNDO_MARK = "u"
# A longer name is cut. A digest of the whole follows it, after a character that no other label contains.
_LABEL_MAX = 64
_LABEL_KEPT = 40
# A place as stored: the number of the round, except for the first, and a position.
_PLACE = re.compile(r"(?:(\d{1,18}):)?([\w.%~]+)", re.ASCII)


class Position(str):
    """A position that can be taken apart. Code that only passes positions on, or uses them as keys, uses `str`."""

    __slots__ = ()

    @property
    def parent(self) -> Position:
        """The position without its last part; empty for the operations of the root."""
        return Position(self.rpartition(".")[0])

    @property
    def parts(self) -> list[str]:
        """The parts of the path, from the root down."""
        return self.split(".")

    @property
    def loop(self) -> Position:
        """The loop whose state is recorded at this position, which has the form `loop.round.0`."""
        return self.parent.parent

    def covers(self, position: str) -> bool:
        """Whether another position is this one or below it."""
        return position == self or position.startswith(f"{self}.")

    @property
    def undo_scope(self) -> Position | None:
        """The scope whose undo this step belongs to: a saga, or the root, which is empty. None for other steps."""
        parts = self.parts
        return Position(".".join(parts[: parts.index(_UNDO_MARK)])) if _UNDO_MARK in parts else None


def branch_prefix(group: str, label: str | int) -> str:
    """The start of all positions in a branch, or in a round of a loop. The number of the operation follows."""
    return f"{group}.{label}."


def undo_prefix(scope: str, number: int) -> str:
    """The start of all positions in an undo. The scope is the position of a saga, or empty for the root."""
    return f"{scope}.{_UNDO_MARK}.{number}." if scope else f"{_UNDO_MARK}.{number}."


def branch_label(key: int | str) -> str:
    """The part of a position that names a branch: its number, or its name, percent-encoded where necessary.

    An encoded name never looks like a number or the mark of an undo, contains no dot, and is short.
    """
    if isinstance(key, int):
        return str(key)
    label = _UNSAFE.sub(_encoded, key) or "%"
    if label.isdecimal() or label == _UNDO_MARK:
        label = f"%{ord(label[0]):02X}{label[1:]}"
    if len(label) <= _LABEL_MAX:
        return label
    # The digest of the label and not of the name, which may contain a lone surrogate.
    return f"{label[:_LABEL_KEPT]}~{digest(label)[:16]}"


def _encoded(unsafe: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in unsafe[0].encode("utf-8", "surrogatepass"))


class Place(NamedTuple):
    """A position in one round of a workflow."""

    round: int
    position: str

    @classmethod
    def parse(cls, text: str) -> Place | None:
        """The place in a stored text; None if the text is damaged."""
        match = _PLACE.fullmatch(text)
        return None if match is None else cls(int(match[1] or 0), match[2])


def place(round_number: int, position: str) -> str:
    """The stored text of a place."""
    return position if round_number == 0 else f"{round_number}:{position}"


def child_id(parent_id: str, round_number: int, position: str) -> str:
    """The id of the child that a workflow starts at a position. It is the same on every replay.

    Rounds after the first (`continue_as`) reuse positions, so their number is part of the id. An id that would be too
    long, in a chain of descendants, is cut and ends with a digest of the whole.
    """
    whole = f"{parent_id}/{place(round_number, position)}"
    if len(whole) <= ID_LENGTH_MAX:
        return whole
    return f"{whole[:200]}~{digest(whole)}"

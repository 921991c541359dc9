"""How the name of a branch stands in positions.

A position is a path, and its parts are joined by dots: the operations of branch `left` of a race at 4 are `4.left.0`,
`4.left.1`. Numbers are branches without a name and rounds of loops, `u` marks undos. A name must not be taken for one
of these, must not contain a dot, and is kept short, because ids of children and pauses are made of positions.
"""

from __future__ import annotations

import re

from durable.ids import digest

_UNSAFE = re.compile(r"[^A-Za-z0-9_]")
_UNDO_MARK = "u"
# A longer name is cut and keeps a digest of the whole, behind a character that no other label has.
_LENGTH_MAX = 64
_KEPT = 40


def branch_label(key: int | str) -> str:
    """The part of a position that stands for a branch: its number, or its name, percent-encoded where need be."""
    if isinstance(key, int):
        return str(key)
    label = _UNSAFE.sub(_encoded, key) or "%"
    if label.isdecimal() or label == _UNDO_MARK:
        label = f"%{ord(label[0]):02X}{label[1:]}"
    if len(label) <= _LENGTH_MAX:
        return label
    # Not of the name itself, in which a lone surrogate may stand.
    return f"{label[:_KEPT]}~{digest(label)[:16]}"


def _encoded(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass"))

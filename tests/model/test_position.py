"""Positions and places: their form, and the facts that can be read from them."""

from __future__ import annotations

import pytest

from durable.model.position import Place, Position, branch_prefix, place, undo_prefix


def test_prefixes_as_they_are_stored() -> None:
    """The prefixes of positions in a branch, in a round and in undos."""
    assert branch_prefix("4", "left") == "4.left."
    assert branch_prefix("4.left.1", 12) == "4.left.1.12."
    assert undo_prefix("", 1) == "u.1."
    assert undo_prefix("4.0.2", 0) == "4.0.2.u.0."


def test_parent_leads_up_to_the_root() -> None:
    """The path of a position, part by part, and nothing above it."""
    position, path = Position("4.left.0"), []
    while position:
        path.append(position)
        position = position.parent
    assert path == ["4.left.0", "4.left", "4"]
    assert Position("4.left.0").parts == ["4", "left", "0"]


@pytest.mark.parametrize(
    ("position", "other", "expected"),
    [("4", "4", True), ("4", "4.0.1", True), ("4", "40", False), ("4.1", "4.10.0", False), ("4.0", "4", False)],
)
def test_position_covers_itself_and_what_stands_below(position: str, other: str, expected: bool) -> None:
    """Parts are compared, not characters."""
    assert Position(position).covers(other) is expected


def test_loop_of_a_recorded_state() -> None:
    """The state of a round stands below the round, which stands below its loop."""
    assert Position("3.17.0").loop == "3"
    assert Position("4.left.2.0.0").loop == "4.left.2"


@pytest.mark.parametrize(
    ("position", "scope"), [("u.0.0", ""), ("4.0.2.u.1.0", "4.0.2"), ("4.%75.0", None), ("12", None), ("uu.0", None)]
)
def test_scope_of_an_undo(position: str, scope: str | None) -> None:
    """The part before the mark; a branch named `u` is not an undo."""
    assert Position(position).undo_scope == scope


@pytest.mark.parametrize("where", [Place(0, "4.left.0"), Place(3, "0"), Place(12, "4.%75.x~0123456789abcdef.u.1.0")])
def test_place_survives_its_text(where: Place) -> None:
    """A place is read back from what is stored of it."""
    assert Place.parse(place(*where)) == where


@pytest.mark.parametrize("text", ["", ":", "1:", "a b", "-1:0", "1:2:3", "4.é", f"{'9' * 19}:0"])
def test_damaged_text_is_not_a_place(text: str) -> None:
    """A damaged row is noticed before the place is looked up."""
    assert Place.parse(text) is None

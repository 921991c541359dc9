"""Identities: which texts are valid, and which ids are derived from others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable.errors import InvalidValue, WrongType
from durable.model.ids import ID_LENGTH_MAX, check_reason, check_text, digest, new_id, seed
from durable.model.position import child_id, place

REFUSED: list[tuple[Any, type[Exception], str]] = [
    ("", InvalidValue, "must not be empty"),
    ("x" * 256, InvalidValue, "has 256 characters, the limit is 255"),
    ("a\0b", InvalidValue, "contains a NUL character"),
    ("\0", InvalidValue, "contains a NUL character"),
    ("\ud800", InvalidValue, "contains a lone surrogate"),
    ("ok\udfff", InvalidValue, "contains a lone surrogate"),
    (5, WrongType, "must be a str, not int"),
    (None, WrongType, "must be a str, not NoneType"),
    (b"id", WrongType, "must be a str, not bytes"),
    (["id"], WrongType, "must be a str, not list"),
]


@pytest.mark.parametrize(("value", "kind", "problem"), REFUSED, ids=lambda value: repr(value)[:20])
def test_check_text_refuses_what_no_store_can_hold(value: Any, kind: type[Exception], problem: str) -> None:
    """A bad id is refused with its purpose and the problem, in a message that can be printed."""
    with pytest.raises(kind) as caught:
        check_text("workflow id", value)
    assert str(caught.value).startswith("workflow id: ")
    assert problem in str(caught.value)
    str(caught.value).encode()


@pytest.mark.parametrize("value", ["a", "x" * 255, "😀" * 255, "a/b c\n", "'; DROP TABLE", " ", "ä", "\x01", "0"])
def test_check_text_gives_back_what_it_was_given(value: str) -> None:
    """Any other text of 1 to 255 characters is valid and is returned unchanged."""
    assert check_text("workflow id", value) is value


def test_check_text_takes_another_limit() -> None:
    """Some texts may be longer."""
    assert len(check_text("detail", "x" * 300, length_max=300)) == 300
    with pytest.raises(InvalidValue):
        check_text("detail", "x" * 301, length_max=300)


def test_check_reason_takes_a_text_or_nothing() -> None:
    """A reason may be absent or long, but it is a text that every store can hold."""
    assert check_reason(None) is None
    assert check_reason("x" * 1_000) == "x" * 1_000
    for bad in ("", "x" * 1_001, "\ud800", 5):
        with pytest.raises((InvalidValue, WrongType), match="reason"):
            check_reason(bad)


def test_new_id_is_random() -> None:
    """New ids have 32 hexadecimal characters and do not repeat."""
    made = {new_id() for _ in range(1_000)}
    assert len(made) == 1_000
    assert all(len(id) == 32 and int(id, 16) >= 0 for id in made)


@pytest.mark.parametrize(("round_number", "expected"), [(0, "4.1.0"), (1, "1:4.1.0"), (12, "12:4.1.0")])
def test_place_names_rounds_after_the_first(round_number: int, expected: str) -> None:
    """A position is its own place in the first round, and carries the round after that."""
    assert place(round_number, "4.1.0") == expected


def test_child_id_tells_parent_and_place() -> None:
    """The id of a child is that of its parent and the place where it was called, different in every round."""
    assert child_id("order-1", 0, "2") == "order-1/2"
    assert child_id("order-1", 3, "2.0.1") == "order-1/3:2.0.1"
    assert child_id("order-1", 0, "2") == child_id("order-1", 0, "2")


def test_child_id_is_cut_at_the_limit() -> None:
    """An id of exactly the limit is kept; a longer one is cut and keeps a digest of the whole."""
    assert child_id("x" * 253, 0, "1") == "x" * 253 + "/1"
    cut = child_id("x" * 254, 0, "1")
    assert len(cut) == 233
    assert cut == "x" * 200 + "~" + digest("x" * 254 + "/1")


def test_child_ids_of_long_chains_stay_valid_and_distinct() -> None:
    """A chain of a hundred children has a hundred different ids that every store can hold."""
    seen = ["order " * 20]
    for depth in range(100):
        first, second = child_id(seen[-1], 0, f"{depth}.0.0"), child_id(seen[-1], 0, f"{depth}.0.1")
        assert first != second
        seen.append(check_text("child id", first))
    assert len(set(seen)) == 101
    assert max(map(len, seen)) <= ID_LENGTH_MAX


def test_digest_and_seed_are_pinned() -> None:
    """Everything derived or drawn today stays the same tomorrow."""
    assert digest("a", "b") == "852635742d6eb30fdccb0e7c1b53d92f"
    assert seed("a", "b") == 18429100309458631331


@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), min_size=1, max_size=4))
def test_digest_keeps_parts_apart(parts: list[str]) -> None:
    """Texts that differ only in where one ends and the next begins have different fingerprints."""
    joined = ["".join(parts)]
    assert (digest(*parts) == digest(*joined)) == (parts == joined)
    assert (seed(*parts) == seed(*joined)) == (parts == joined)
    assert 0 <= seed(*parts) < 2**64

"""Values that are written by their own class and read by another annotation."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple

import attrs
import pytest

from durable.errors import CodecError
from durable.model.codec import Codec
from durable.model.shapes.own_types import read_own, write_own

CODEC = Codec()


@attrs.frozen
class Decision:
    """A value with fields."""

    ok: bool
    by: str
    note: str = ""


@attrs.frozen
class Refusal:
    """Another one, with other fields."""

    why: str


class Color(Enum):
    """A value with a name."""

    RED = "red"


class Point(NamedTuple):
    """A tuple with names."""

    x: int
    y: int


NOON = datetime(2031, 5, 17, 12, tzinfo=timezone.utc)


def travelled(value: Any, annotation: Any) -> tuple[str, Any]:
    """The stored form of a value, and the value that is read from it."""
    text = write_own(CODEC, value, "here")
    return read_own(CODEC.coder(annotation, "there"), text, type(value).__name__)


FITS: tuple[tuple[Any, Any], ...] = (
    (5, int), (True, bool), (None, None), ("a", str | None), (None, Decision | None), (Decision(True, "ann"), Decision),
    (Decision(True, "ann"), Decision | None), (Decision(True, "ann"), Decision | Refusal), ([1], list[int] | Refusal),
    ([Decision(True, "ann")], list[Decision]), ((1, Refusal("no")), tuple[int, Refusal]), (Color.RED, Color),
    ({"a": Decision(True, "ann")}, dict[str, Decision]), ({(1, "a"): NOON}, dict[tuple[int, str], datetime]),
    ({5: Decimal("1.5")}, dict[int, Decimal]), ({Color.RED: b"x"}, dict[Color, bytes]), ({3, 1, 2}, set[int]),
    (frozenset({"a"}), frozenset[str]), (timedelta(days=1), timedelta), (Point(1, 2), Point), ([[], {}], Any),
)  # fmt: skip


@pytest.mark.parametrize(("value", "annotation"), FITS, ids=str)
def test_value_arrives_in_its_stored_form(value: Any, annotation: Any) -> None:
    """The stored form is, to the byte, the annotation's form of the value, and is read as the same value."""
    assert travelled(value, annotation) == CODEC.coder(annotation, "there").pack(value)


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        ({"ok": True, "by": "ann"}, Decision), ("red", Color), (Color.RED, str), ((1, 2), list[int]), ("5", int),
        (5.5, int), (None, int), (Decision(True, "ann"), dict), (Refusal("no"), Decision), (Refusal("no"), int | str),
        (2**53 + 1, float), ([1], Decision | Refusal),
    ],
    ids=str,
)  # fmt: skip
def test_value_of_another_class_is_refused(value: Any, annotation: Any) -> None:
    """A dict for a class is refused even if its JSON would fit: it is a mistake of the caller."""
    with pytest.raises(CodecError, match="there: "):
        travelled(value, annotation)


@pytest.mark.parametrize(("value", "annotation", "stored"), [(5, float, "5.0"), (True, int, "1"), (True, float, "1.0")])
def test_narrower_number_is_taken(value: Any, annotation: Any, stored: str) -> None:
    """A narrower number is accepted, as type checkers do; it is stored as the wider type."""
    assert travelled(value, annotation)[0] == stored


def test_plain_json_needs_no_class() -> None:
    """JSON without the name of a class is read by the annotation alone; missing fields get their defaults."""
    coder = CODEC.coder(Decision, "there")
    text = ' {"by": "ann", "ok": true, "more": 1} '
    assert read_own(coder, text, None) == ('{"ok":true,"by":"ann","note":""}', Decision(True, "ann"))
    with pytest.raises(CodecError, match="there: the given 'yes' does not fit Decision"):
        read_own(coder, '"yes"', None)
    with pytest.raises(CodecError, match="there: the given text 'yes' is not JSON"):
        read_own(coder, "yes", None)


def _loop() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize(
    "value", [object(), [float("nan")], {"a": {object()}}, _loop()], ids=["object", "nan", "inside", "loop"]
)
def test_value_that_cannot_be_written(value: Any) -> None:
    """It is refused where it is written, at any depth."""
    with pytest.raises(CodecError, match="here: "):
        write_own(CODEC, value, "here")


def test_member_of_a_union_in_a_collection_is_given_as_it_is_stored() -> None:
    """A collection does not say of which class each of its items is, so only the stored form tells them apart."""
    annotation = list[Decision | Refusal]
    stored = [{"$type": "Refusal", "value": {"why": "no"}}]
    assert travelled(stored, annotation)[1] == [Refusal("no")]
    with pytest.raises(CodecError, match="there: the given"):
        travelled([Refusal("no")], annotation)

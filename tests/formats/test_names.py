"""The names under which our own classes are stored never change, and the paths of earlier stores can be read."""

from __future__ import annotations

import enum
from pathlib import Path

import pytest

import durable
from durable.model.exceptions.stored_names import stored_class, stored_name

# For each class its stored name, and its path in earlier stores. Lines are only added.
LINES = Path(__file__).with_name("names.txt").read_text().splitlines()
PAIRS = [(name, path) for name, _, path in (line.partition(" ") for line in LINES)]


@pytest.mark.parametrize(("name", "path"), PAIRS, ids=lambda part: part)
def test_stored_name_is_pinned(name: str, path: str) -> None:
    """The class is stored under this name, wherever it lives, and found under the name and under its first path."""
    cls = getattr(durable, name.removeprefix("durable."))
    assert stored_name(cls) == name
    assert stored_class(name) is stored_class(path) is cls


def test_every_public_error_and_enum_has_a_stored_name() -> None:
    """A new class needs a line in `stored_names` and here before any row has it."""
    public = {name: getattr(durable, name) for name in durable.__all__}
    kinds = (BaseException, enum.Enum)
    stored = {f"durable.{name}" for name, cls in public.items() if isinstance(cls, type) and issubclass(cls, kinds)}
    assert stored <= {name for name, _ in PAIRS}


def test_class_of_a_user_is_stored_under_its_path() -> None:
    """So is a class that has the name of one of ours."""

    class TimedOut(Exception):
        """Not ours."""

    assert stored_name(TimedOut) == f"{__name__}.test_class_of_a_user_is_stored_under_its_path.<locals>.TimedOut"
    assert stored_class("TimedOut") is None
    assert stored_class("collections.OrderedDict") is not None

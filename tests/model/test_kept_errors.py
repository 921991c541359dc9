"""Errors that keep their class when they are stored: those of pydantic, great groups and deep ones."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest
from pydantic_core import PydanticCustomError

from durable.errors import ActivityFailed
from durable.model.error_codec import pack_error, unpack_error


class Order(pydantic.BaseModel):
    count: int
    name: str = ""

    @pydantic.field_validator("name")
    @classmethod
    def _check(cls, value: str) -> str:
        if value == "bad":
            raise ValueError("no good")
        if value == "odd":
            raise PydanticCustomError("too_odd", "odd by {much}", {"much": 3})
        return value


def refused(**fields: Any) -> pydantic.ValidationError:
    """What pydantic says to these fields."""
    with pytest.raises(pydantic.ValidationError) as info:
        Order.model_validate(fields)
    return info.value


@pytest.mark.parametrize(
    "fields", [{"count": "x"}, {"count": 1, "name": "bad"}, {"count": [], "name": "odd"}, {}], ids=str
)
def test_validation_error_keeps_its_class(fields: dict[str, Any]) -> None:
    """It is caught as its own class, has the same message, and survives being stored again."""
    error = refused(**fields)
    error.add_note("noted")
    back = error
    for _ in range(2):
        read = unpack_error(pack_error(back))
        assert isinstance(read, pydantic.ValidationError)
        back = read
        assert str(back) == str(error)
        assert [mistake["loc"] for mistake in back.errors()] == [mistake["loc"] for mistake in error.errors()]
        assert back.__notes__[0] == "noted"


def test_validation_error_of_a_strange_value() -> None:
    """An input that cannot be stored becomes text, and a note says so."""
    back = unpack_error(pack_error(refused(count=object())))
    assert isinstance(back, pydantic.ValidationError)
    assert "object" in back.__notes__[0]


@pytest.mark.parametrize("number", [100, 101, 1000])
def test_great_group_stays_a_group(number: int) -> None:
    """The first hundred members are kept, and a note says that there were more."""
    back = unpack_error(pack_error(ExceptionGroup("many", [ValueError(index) for index in range(number)])))
    assert isinstance(back, ExceptionGroup)
    assert [member.args for member in back.exceptions] == [(index,) for index in range(100)]
    assert any("members from 100 on" in note for note in getattr(back, "__notes__", ())) is (number > 100)


def test_deep_group_keeps_its_leaves() -> None:
    """However deep an error lies in groups, `except*` finds it."""
    error: Exception = ExceptionGroup("inner", [ValueError(1), KeyError(2)])
    for depth in range(9):
        error = ExceptionGroup(str(depth), [error])
    back = unpack_error(pack_error(error))
    assert isinstance(back, ExceptionGroup)
    matching, remaining = back.split(ValueError)
    assert matching is not None
    assert remaining is not None
    assert remaining.subgroup(KeyError) is not None
    assert remaining.subgroup(ActivityFailed) is None

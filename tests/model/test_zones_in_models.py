"""Time zones inside models of pydantic survive; models without a zone are stored as before."""

from __future__ import annotations

from datetime import datetime, time, timedelta, timezone
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import pydantic
import pytest

from durable.errors import CodecError
from durable.model.codec import Codec

BERLIN = ZoneInfo("Europe/Berlin")


class Slot(pydantic.BaseModel):
    at: datetime
    note: str = ""


class Plan(pydantic.BaseModel):
    slots: list[Slot] = []
    by_name: dict[str, tuple[datetime, int]] = {}
    opens: time | None = pydantic.Field(default=None, alias="opensAt")


class Shortened(pydantic.BaseModel):
    at: Annotated[datetime, pydantic.PlainSerializer(lambda value: value.isoformat())]


def round_trip(value: Any) -> Any:
    """The value after it was stored; packing and reading must agree."""
    coder = Codec().coder(type(value), "here")
    text, back = coder.pack(value)
    assert coder.unpack(text) == back
    return back


def test_zone_of_a_model_survives() -> None:
    """The same time tomorrow is right across a clock change."""
    at = datetime(2026, 3, 28, 12, tzinfo=BERLIN)
    back = round_trip(Slot(at=at, note=at.isoformat() + "[Europe/Berlin]"))
    assert (back.at + timedelta(days=1)).isoformat() == "2026-03-29T12:00:00+02:00"
    assert back.note == "2026-03-28T12:00:00+01:00[Europe/Berlin]"


def test_repeated_hour_of_a_model_survives() -> None:
    """The second of two equal times stays the second."""
    back = round_trip(Slot(at=datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN)))
    assert (back.at.fold, back.at.tzinfo) == (1, BERLIN)


def test_zones_survive_at_any_place() -> None:
    """In lists, tuples, dicts and behind an alias, and in a type of pydantic only."""
    at = datetime(2026, 3, 28, 12, tzinfo=BERLIN)
    plan = Plan(slots=[Slot(at=at)], by_name={"a": (at, 1)}, opensAt=time(9, tzinfo=BERLIN))
    back = round_trip(plan)
    assert back.slots[0].at.tzinfo is back.by_name["a"][0].tzinfo is BERLIN
    assert back.opens == time(9, tzinfo=BERLIN)
    assert back.opens.tzinfo is BERLIN


def test_models_without_zones_are_stored_as_before() -> None:
    """What is in the store does not change for UTC, fixed offsets and naive times."""
    coder = Codec().coder(Slot, "here")
    for zone in (None, timezone.utc, timezone(timedelta(hours=1)), ZoneInfo("UTC")):
        slot = Slot(at=datetime(2026, 3, 28, 12, tzinfo=zone))
        assert coder.pack(slot)[0] == slot.model_dump_json()


def test_zone_that_a_serializer_drops_is_refused() -> None:
    """A model that writes its times itself may lose a zone; then it is refused."""
    with pytest.raises(CodecError, match="time zone"):
        round_trip(Shortened(at=datetime(2026, 3, 28, 12, tzinfo=BERLIN)))

"""A time keeps its zone, so that the same time tomorrow is right across a clock change."""

from __future__ import annotations

import itertools
from datetime import datetime, time, timedelta, timezone
from importlib import resources
from typing import Any
from zoneinfo import ZoneInfo

import attrs
import pytest

from durable.errors import CodecError
from durable.model.codec import Codec

BERLIN = ZoneInfo("Europe/Berlin")
FIXED = timezone(timedelta(hours=2))


@attrs.frozen
class Meeting:
    """A value with times in it."""

    at: datetime
    opens: time


def through(annotation: Any, value: Any) -> tuple[str, Any]:
    """The stored text of a value, and the value as it is read from that text."""
    coder = Codec().coder(annotation, "here")
    text, _ = coder.pack(value)
    return text, coder.unpack(text)


def test_zone_survives_and_the_next_day_is_right() -> None:
    """A datetime in a zone is stored in the form of RFC 9557; a day later it has the other offset."""
    text, back = through(datetime, datetime(2026, 3, 28, 12, tzinfo=BERLIN))
    assert text == '"2026-03-28T12:00:00+01:00[Europe/Berlin]"'
    assert back.tzinfo is BERLIN
    assert (back + timedelta(days=1)).isoformat() == "2026-03-29T12:00:00+02:00"


# Twice, never, and once.
WALLS = [datetime(2026, 10, 25, 2, 30), datetime(2026, 3, 29, 2, 30), datetime(2026, 1, 1, 12)]


@pytest.mark.parametrize(("wall", "fold", "zone"), list(itertools.product(WALLS, (0, 1), (BERLIN, None))))
def test_fold_is_kept(wall: datetime, fold: int, zone: ZoneInfo | None) -> None:
    """Which of two equal times is meant survives, also where the clocks do not repeat it."""
    value = wall.replace(fold=fold, tzinfo=zone)
    _, back = through(datetime, value)
    assert (back.replace(fold=0), back.fold, back.tzinfo) == (value.replace(fold=0), fold, zone)
    assert back.utcoffset() == value.utcoffset()


@pytest.mark.parametrize(("value", "text"), [
    (datetime(2026, 1, 1, 12), "2026-01-01T12:00:00"),
    (datetime(2026, 1, 1, 12, tzinfo=timezone.utc), "2026-01-01T12:00:00+00:00"),
    (datetime(2026, 1, 1, 12, tzinfo=FIXED, fold=1), "2026-01-01T12:00:00+02:00"),
    (datetime(2026, 1, 1, 12, tzinfo=ZoneInfo("UTC")), "2026-01-01T12:00:00+00:00"),
    (time(12, 30), "12:30:00"),
    (time(12, 30, tzinfo=FIXED), "12:30:00+02:00"),
], ids=repr)  # fmt: skip
def test_times_without_a_zone_have_the_plain_text(value: datetime | time, text: str) -> None:
    """Naive times, fixed offsets and UTC are stored as they always were, and such texts are read."""
    assert through(type(value), value)[0] == f'"{text}"'
    assert Codec().coder(type(value), "here").unpack(f'"{text}"') == value


def test_zone_survives_wherever_a_time_may_stand() -> None:
    """In times of day, fields, keys and unions."""
    noon = datetime(2026, 7, 1, 12, tzinfo=BERLIN)
    opens = time(8, 30, tzinfo=BERLIN, fold=1)
    text, back = through(Meeting, Meeting(noon, opens))
    assert '"opens":"08:30:00[Europe/Berlin][_fold=1]"' in text
    assert (back.at.tzinfo, back.opens.tzinfo, back.opens.fold) == (BERLIN, BERLIN, 1)
    (key,) = through(dict[datetime, int], {noon: 1})[1]
    assert key.tzinfo is BERLIN
    assert through(datetime | time | None, opens)[1].tzinfo is BERLIN


def test_instant_stays_when_the_rules_of_a_zone_change() -> None:
    """A text whose offset the zone no longer has gives the same instant."""
    back = Codec().coder(datetime, "here").unpack('"2026-07-01T12:00:00+05:00[Europe/Berlin]"')
    assert back == datetime(2026, 7, 1, 7, tzinfo=timezone.utc)
    assert back.tzinfo is BERLIN


@pytest.mark.parametrize(
    "key", ["Europe/Atlantis", "Europe", "../../etc/passwd", "", "/etc/localtime", "x" * 500, "a]["]
)
def test_unknown_zone_is_refused_by_name(key: str) -> None:
    """A zone that this machine does not have, or an invalid name, is a `CodecError` that says so."""
    with pytest.raises(CodecError, match="time zone") as caught:
        Codec().coder(datetime, "activity charge: parameter 'at'").unpack(f'"2026-07-01T12:00:00+02:00[{key}]"')
    assert str(caught.value).startswith("activity charge: parameter 'at'")
    if key == "Europe/Atlantis":
        assert "install the package tzdata" in str(caught.value)


def test_zone_without_a_name_is_refused() -> None:
    """A zone that was read from a file has no name, so only its offset could be stored: that is refused."""
    with resources.files("tzdata.zoneinfo.Europe").joinpath("Berlin").open("rb") as file:
        nameless = ZoneInfo.from_file(file)
    with pytest.raises(CodecError, match="came back as"):
        through(datetime, datetime(2026, 7, 1, 12, tzinfo=nameless))

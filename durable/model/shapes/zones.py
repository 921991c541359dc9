"""Times with a zone as text and back, in the form of RFC 9557: `2026-03-28T12:00:00+01:00[Europe/Berlin]`.

Only the zone makes "the same time tomorrow" correct across a change of the clocks; an offset is not enough. Times
without a zone, with a fixed offset or in UTC have the plain ISO form. Knows times and zones only.
"""

from __future__ import annotations

import re
from datetime import datetime, time, tzinfo
from zoneinfo import ZoneInfo

# Marks the second of two equal wall-clock times, if the offset in the text does not. RFC 9557 reserves names with an
# underscore for private use.
_FOLD = "[_fold=1]"
# A key becomes the path of a file below the folder of zones, so it is checked before it gets there.
_KEY = re.compile(r"[A-Za-z0-9_+-]{1,64}(/[A-Za-z0-9_+-]{1,64}){0,3}", re.ASCII)


def zone_key(value: datetime | time) -> str | None:
    """The name of the zone of a time; None if it has no zone, or one that its offset fully describes."""
    zone = value.tzinfo
    return zone.key if isinstance(zone, ZoneInfo) and zone.key not in (None, "UTC") else None


def is_nameless(value: datetime | time) -> bool:
    """Whether a time has a zone without a name, which cannot be stored."""
    return isinstance(value.tzinfo, ZoneInfo) and value.tzinfo.key is None


def write_datetime(value: datetime) -> str:
    """The text of a datetime, in the form of RFC 9557 if it has a named zone."""
    text = value.isoformat()
    if not value.fold and not isinstance(value.tzinfo, ZoneInfo):
        return text
    key = zone_key(value)
    if key is not None:
        offset_is_enough = not value.fold or value.utcoffset() != value.replace(fold=0).utcoffset()
        return f"{text}[{key}]{'' if offset_is_enough else _FOLD}"
    return f"{text}{_FOLD}" if value.tzinfo is None and value.fold else text


def read_datetime(text: str) -> datetime:
    """The datetime in a text. Raises `ValueError`, also for a zone that this machine does not have."""
    plain, is_folded, zone = _split(text)
    value = datetime.fromisoformat(plain)
    if zone is None:
        return value.replace(fold=1) if is_folded else value
    wall = value.replace(tzinfo=zone)
    for fold in (1,) if is_folded else (0, 1):
        if wall.replace(fold=fold).utcoffset() == value.utcoffset():
            return wall.replace(fold=fold)
    # The rules of the zone have changed since it was written. Keep the instant and change the wall-clock time.
    return value.astimezone(zone)


def write_time(value: time) -> str:
    """The text of a time of day."""
    text = value.isoformat()
    key = zone_key(value)
    text = text if key is None else f"{text}[{key}]"
    is_fixed = value.tzinfo is not None and key is None
    return f"{text}{_FOLD}" if value.fold and not is_fixed else text


def read_time(text: str) -> time:
    """The time of day in a text. Raises `ValueError`, also for a zone that this machine does not have."""
    plain, is_folded, zone = _split(text)
    value = time.fromisoformat(plain)
    value = value if zone is None else value.replace(tzinfo=zone)
    return value.replace(fold=1) if is_folded else value


def _split(text: str) -> tuple[str, bool, tzinfo | None]:
    """The ISO text, whether the text is marked as folded, and the zone of a text; the zone is None without a suffix."""
    is_folded = text.endswith(_FOLD)
    text = text.removesuffix(_FOLD)
    if not text.endswith("]"):
        return text, is_folded, None
    plain, _, key = text[:-1].partition("[")
    if _KEY.fullmatch(key) is None:
        raise ValueError(f"{key[:100]!r} is not the name of a time zone")
    try:
        return plain, is_folded, ZoneInfo(key)
    except (LookupError, OSError, ValueError) as error:
        problem = f"this machine does not have the time zone {key!r}: install the package tzdata, or update it"
        raise ValueError(problem) from error

"""Times with a zone as text and back, in the form of RFC 9557: `2026-03-28T12:00:00+01:00[Europe/Berlin]`.

The zone is what makes "the same time tomorrow" right across a change of the clocks; an offset alone cannot. Times
without a zone, with a fixed offset or in UTC have the plain ISO form. Knows times and zones only.
"""

from __future__ import annotations

import re
from datetime import datetime, time, tzinfo
from zoneinfo import ZoneInfo

# The second of two equal times, where the text does not say so by its offset. RFC 9557 leaves names with an
# underscore to whoever writes them.
_FOLD = "[_fold=1]"
# A key names a file below the folder of zones. Nothing else gets that far.
_KEY = re.compile(r"[A-Za-z0-9_+-]{1,64}(/[A-Za-z0-9_+-]{1,64}){0,3}", re.ASCII)


def zone_key(value: datetime | time) -> str | None:
    """The name of the zone that a time carries; None if it has none, or one that its offset says as well."""
    zone = value.tzinfo
    return zone.key if isinstance(zone, ZoneInfo) and zone.key not in (None, "UTC") else None


def is_nameless(value: datetime | time) -> bool:
    """Whether a time carries a zone that has no name, and so cannot be stored."""
    return isinstance(value.tzinfo, ZoneInfo) and value.tzinfo.key is None


def write_datetime(value: datetime) -> str:
    """The text of a datetime."""
    text = value.isoformat()
    if not value.fold and not isinstance(value.tzinfo, ZoneInfo):
        return text
    key = zone_key(value)
    if key is not None:
        is_said = not value.fold or value.utcoffset() != value.replace(fold=0).utcoffset()
        return f"{text}[{key}]{'' if is_said else _FOLD}"
    return f"{text}{_FOLD}" if value.tzinfo is None and value.fold else text


def read_datetime(text: str) -> datetime:
    """The datetime of a text. Raises `ValueError`, also for a zone that this machine does not have."""
    plain, is_folded, zone = _split(text)
    value = datetime.fromisoformat(plain)
    if zone is None:
        return value.replace(fold=1) if is_folded else value
    wall = value.replace(tzinfo=zone)
    for fold in (1,) if is_folded else (0, 1):
        if wall.replace(fold=fold).utcoffset() == value.utcoffset():
            return wall.replace(fold=fold)
    # The rules of the zone have changed since: the instant stays, the clock on the wall moves.
    return value.astimezone(zone)


def write_time(value: time) -> str:
    """The text of a time of day."""
    text = value.isoformat()
    key = zone_key(value)
    text = text if key is None else f"{text}[{key}]"
    is_fixed = value.tzinfo is not None and key is None
    return f"{text}{_FOLD}" if value.fold and not is_fixed else text


def read_time(text: str) -> time:
    """The time of day of a text. Raises `ValueError`, also for a zone that this machine does not have."""
    plain, is_folded, zone = _split(text)
    value = time.fromisoformat(plain)
    value = value if zone is None else value.replace(tzinfo=zone)
    return value.replace(fold=1) if is_folded else value


def _split(text: str) -> tuple[str, bool, tzinfo | None]:
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
        problem = f"the time zone {key!r} is not known on this machine: install the package tzdata, or update it"
        raise ValueError(problem) from error

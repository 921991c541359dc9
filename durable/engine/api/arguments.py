"""Checks of what people pass to the groups."""

from __future__ import annotations

from durable.errors import InvalidValue, WrongType

_LIMIT_MAX = 1_000


def _limit(limit: int) -> int:
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise WrongType("limit", f"must be an int, not {type(limit).__name__}")
    if not 1 <= limit <= _LIMIT_MAX:
        raise InvalidValue("limit", f"must be 1 to {_LIMIT_MAX}, not {limit}; page on with after=")
    return limit


def _letter_id(what: str, value: int) -> int:
    return _number(what, "id of a dead letter", value)


def _number(what: str, meaning: str, value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise WrongType(what, f"must be the {meaning}, not {value!r}")
    if not 0 <= value < 1 << 63:
        raise InvalidValue(what, f"{value} is no {meaning}")
    return value


def _count(what: str, value: int, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise WrongType(what, f"must be an int, not {type(value).__name__}")
    if not least <= value <= most:
        raise InvalidValue(what, f"must be {least} to {most}, not {value}")
    return value

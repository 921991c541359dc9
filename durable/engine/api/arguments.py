"""Checks of the numbers that people pass to the groups. A wrong type is `WrongType`, a wrong value `InvalidValue`."""

from __future__ import annotations

from durable.errors import InvalidValue, WrongType

_LIMIT_MAX = 1_000


def _limit(limit: int) -> int:
    """The size of a page."""
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise WrongType("limit", f"must be an int, not {type(limit).__name__}")
    if not 1 <= limit <= _LIMIT_MAX:
        raise InvalidValue("limit", f"must be 1 to {_LIMIT_MAX}, not {limit}; use after= for the next page")
    return limit


def _letter_id(parameter: str, value: int) -> int:
    return _number(parameter, "id of a dead letter", value)


def _number(parameter: str, meaning: str, value: int) -> int:
    """A number that the engine gave out. `meaning` says of what: "id of an event"."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise WrongType(parameter, f"must be the {meaning}, not {value!r}")
    if not 0 <= value < 1 << 63:
        raise InvalidValue(parameter, f"{value} cannot be the {meaning}")
    return value


def _count(parameter: str, value: int, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise WrongType(parameter, f"must be an int, not {type(value).__name__}")
    if not least <= value <= most:
        raise InvalidValue(parameter, f"must be {least} to {most}, not {value}")
    return value

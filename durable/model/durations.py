"""Durations as people write them: `90s`, `2h`, `1h30m`, `7d`. On the command line, and in the environment."""

from __future__ import annotations

import re
from datetime import timedelta

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[smhdw])+", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])", re.ASCII)
# The longest duration that is subtracted from now: further back there are no runs.
_LONGEST = timedelta(days=365 * 100)


def is_duration(text: str) -> bool:
    """Whether a text is written like a duration."""
    return _DURATION.fullmatch(text) is not None


def parse_duration(text: str) -> timedelta:
    """The duration that a text such as `90s`, `2h`, `1h30m` or `7d` says. Raises `ValueError`."""
    if not is_duration(text):
        raise ValueError(f"{text!r} is not a duration: write 90s, 30m, 2h, 1h30m, 7d or 2w")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    if seconds > _LONGEST.total_seconds():
        raise ValueError(f"{text!r} is longer than a hundred years")
    return timedelta(seconds=seconds)

"""Durations, instants and statuses in words, and back. Pure: the present time is always an argument."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo

from durable.model.durations import is_duration, parse_duration
from durable.model.statuses import WorkflowStatus

_TABLE_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def parse_moment(text: str, now: datetime, zone: tzinfo | None) -> datetime:
    """The instant that a text says: a duration counts back from now, a date or time without zone is in `zone`.

    Raises `ValueError`.
    """
    if is_duration(text):
        return now - parse_duration(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither a duration, such as 2h, nor a time, such as 2026-03-01T14:30") from None
    if moment.tzinfo is not None:
        return moment
    return moment.astimezone() if zone is None else moment.replace(tzinfo=zone)


def parse_status(text: str) -> WorkflowStatus:
    """The status with this name. Raises `ValueError`."""
    try:
        return WorkflowStatus(text.lower())
    except ValueError:
        names = ", ".join(status.value for status in WorkflowStatus)
        raise ValueError(f"{text!r} is not a status: the statuses are {names}") from None


def duration(value: timedelta) -> str:
    """A duration in at most two units: `350 ms`, `4.2 s`, `1m 03s`, `2h 14m`, `3d 4h`."""
    seconds = abs(value.total_seconds())
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if hours < 1:
        return f"{minutes}m {whole % 60:02}s"
    if days < 1:
        return f"{hours}h {minutes % 60:02}m"
    return f"{days}d {hours % 24}h"


def ago(moment: datetime, now: datetime) -> str:
    """An instant seen from now: `2h 14m ago`, `in 45.0 s`, `now`."""
    gap = now - moment
    if abs(gap.total_seconds()) < 0.5:
        return "now"
    return f"{duration(gap)} ago" if gap.total_seconds() > 0 else f"in {duration(gap)}"


def age(moment: datetime, now: datetime) -> str:
    """An instant seen from now in one unit, for tables: `2h ago`, `in 3d`, `now`."""
    seconds = (now - moment).total_seconds()
    whole = round(abs(seconds))
    if not whole:
        return "now"
    unit, size = next((unit, size) for unit, size in _TABLE_UNITS if whole >= size)
    return f"{whole // size}{unit} ago" if seconds > 0 else f"in {whole // size}{unit}"


def clock_time(moment: datetime, now: datetime, zone: tzinfo | None) -> str:
    """An instant as people note it: the time alone if it is today, else with its date."""
    local, today = moment.astimezone(zone), now.astimezone(zone)
    return f"{local:%H:%M:%S}" if local.date() == today.date() else f"{local:%Y-%m-%d %H:%M:%S}"


def plural(count: int, noun: str) -> str:
    """A count with its noun: `1 run`, `1,200 runs`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"

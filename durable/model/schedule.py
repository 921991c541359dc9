"""A schedule: what is stored of it, and when it ticks.

A `Plan` is pure: given an instant it says when the next tick comes. It knows cron expressions (through cronsim) and
time zones, and must not know runs, stores or what the time is now. Instants are integers, as in `durable.model.clock`.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import os
import re
import zoneinfo
from collections.abc import Iterator
from datetime import timezone, tzinfo
from importlib import resources

import attrs
from cronsim import CronSim

from durable.errors import InvalidValue, WrongType
from durable.model.clock import LATEST, SECOND, from_datetime, from_duration, to_datetime
from durable.model.ids import check_text

# Leaves room in a run's id for the instant of its tick.
NAME_LENGTH_MAX = 200
_TAG = "schedule:"
_ZONE = re.compile(r"[\w+-]+(/[\w+-]+)*", re.ASCII)
_ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class Overlap(enum.Enum):
    """What becomes of a tick that comes while the schedule's last run is unfinished."""

    SKIP = "skip"
    QUEUE = "queue"
    ALLOW = "allow"


class CatchUp(enum.Enum):
    """What becomes of ticks that were missed, because no engine was running or the clock was set forward."""

    SKIP = "skip"
    LAST = "last"
    ALL = "all"


# --- when it ticks --------------------------------------------------------------------------------------------------


@attrs.frozen
class Plan:
    """When a schedule ticks: by a cron expression in a time zone, or every so many microseconds from an anchor on."""

    cron: str | None = None
    every: int | None = None
    timezone: str = "UTC"

    @classmethod
    def of(cls, cron: object = None, every: object = None, timezone: object = None) -> Plan:
        """The plan that a caller asks for; `every` is a duration. Raises `WrongType` or `InvalidValue`."""
        if (cron is None) == (every is None):
            raise InvalidValue("schedule", "needs either cron= or every=, one of them")
        if every is not None:
            if timezone is not None:
                raise InvalidValue("schedule: timezone", "goes with cron=; every= is the same in all zones")
            micros = from_duration("schedule: every", every)
            if micros < SECOND:
                raise InvalidValue("schedule: every", f"must be at least one second, not {every}")
            return cls(every=micros)
        text = " ".join(check_text("schedule: cron", cron).split())
        name = "UTC" if timezone is None else check_text("schedule: timezone", timezone)
        zone_of(name)
        try:
            CronSim(_ALIASES.get(text, text), to_datetime(0))
        except Exception as error:
            # It also stumbles over some texts in ways of its own: a ValueError, an AssertionError.
            raise InvalidValue(
                "schedule: cron",
                f"{text!r} is no cron expression ({error}): write minute, hour, day, month and weekday, "
                f"such as '0 3 * * MON-FRI', or one of {', '.join(_ALIASES)}",
            ) from None
        return cls(cron=text, timezone=name)

    def zone(self) -> tzinfo:
        """The time zone it is meant in."""
        return zone_of(self.timezone)

    def ticks(self, after: int, anchor: int) -> Iterator[int]:
        """Every tick after an instant, in order. It ends with the calendar, or where none comes for fifty years."""
        if self.cron is not None:
            yield from _cron_ticks(_ALIASES.get(self.cron, self.cron), self.zone(), after)
            return
        assert self.every is not None
        tick = anchor + max(1, (after - anchor) // self.every + 1) * self.every
        while tick <= LATEST:
            yield tick
            tick += self.every

    def next(self, after: int, anchor: int) -> int | None:
        """The first tick after an instant, if there is one."""
        return next(self.ticks(after, anchor), None)

    def last(self, after: int, until: int, anchor: int) -> int | None:
        """The last tick after one instant and not after another; found by halving, without going through them all."""
        low, high = self.next(after, anchor), until
        if low is None or low > until:
            return None
        while (following := self.next(low, anchor)) is not None and following <= until:
            # Never before the following one, or a plan that is uneven in a strange zone could go in a circle.
            middle = max(following, (following + high) // 2)
            found = self.next(middle, anchor)
            if found is not None and found <= until:
                low = found
            else:
                low, high = following, middle
        return low


def zone_of(name: str) -> tzinfo:
    """The time zone of this name. Raises `InvalidValue`."""
    if name == "UTC":
        # cronsim takes a short way for this one, and not for the zone of the same name.
        return timezone.utc
    # Not simply tried: for a name that is no file Python imports a package of that name, and names come from the store.
    is_file = any(os.path.isfile(os.path.join(folder, name)) for folder in zoneinfo.TZPATH)
    if _ZONE.fullmatch(name) and (is_file or name in _packaged_zones()):
        # A file may hold something else.
        with contextlib.suppress(ValueError, OSError):
            return zoneinfo.ZoneInfo(name)
    raise InvalidValue(
        "schedule: timezone",
        f"{name!r} is no time zone that this machine knows: use a name such as 'Europe/Berlin'; "
        "where there are none, pip install tzdata",
    )


@functools.cache
def _packaged_zones() -> frozenset[str]:
    """The zones of the package tzdata, for machines that have none of their own."""
    try:
        return frozenset(resources.files("tzdata").joinpath("zones").read_text().split())
    except (ModuleNotFoundError, FileNotFoundError):
        return frozenset()


def _cron_ticks(expression: str, zone: tzinfo, after: int) -> Iterator[int]:
    last = after
    try:
        for tick in CronSim(expression, to_datetime(after).astimezone(zone)):
            # Compared as instants: datetimes of one zone are compared by what the clock on the wall shows, and in the
            # second of the hours that come twice in autumn cronsim begins with ticks of the first.
            instant = from_datetime("tick", tick)
            if instant > last:
                yield instant
                last = instant
    except (OverflowError, ValueError):
        # The end of the calendar.
        return


# --- what is stored -------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Job:
    """What a caller asks for: which call is started, when, and by which policies."""

    plan: Plan
    workflow: str
    version: int = 1
    input: str
    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUp = CatchUp.SKIP


@attrs.frozen(kw_only=True)
class ScheduleRecord:
    """One schedule: its job, and how far it has come."""

    # Below zero, so that it is no workflow's key: both stand in one line of timers.
    key: int
    name: str
    job: Job
    created_at: int
    # What `every` is counted from.
    anchor: int
    is_paused: bool = False
    # Every tick up to here is done with: started, queued or left out. It never goes back, whatever the clock does.
    done_until: int
    # The first tick after that, None when there is none.
    next_at: int | None = None
    # When the engine looks at it: at its next tick, or at once because the run that a tick waits for has ended. None
    # while it is paused, or while ticks wait in line.
    wake_at: int | None = None
    # The tick that waits for the end of the last run.
    queued: int | None = None
    # Ticks that were left out because the last run was unfinished.
    skipped: int = 0
    last_tick: int | None = None
    last_key: int | None = None
    last_id: str | None = None
    # The ticks that were missed and left out, the last time that there were some: from here, up to the one that came
    # next.
    missed_from: int | None = None
    missed_until: int | None = None

    def next_after(self, instant: int) -> int | None:
        """The first tick after an instant, if there is one."""
        return self.job.plan.next(instant, self.anchor)


def run_id(name: str, tick: int) -> str:
    """The id of the run that a tick starts; no other tick has it."""
    return f"{name}@{to_datetime(tick).isoformat()}"


def run_tag(name: str) -> str:
    """The tag of all runs of a schedule."""
    return f"{_TAG}{name}"


def schedule_of(tags: tuple[str, ...]) -> str | None:
    """The name of the schedule whose run has these tags, if it is one."""
    return next((tag.removeprefix(_TAG) for tag in tags if tag.startswith(_TAG)), None)


def check_name(name: object) -> str:
    """The name of a schedule. Raises `WrongType` or `InvalidValue`."""
    return check_text("schedule: name", name, length_max=NAME_LENGTH_MAX)


def check_policies(overlap: object, catch_up: object) -> None:
    """Raises `WrongType`."""
    if not isinstance(overlap, Overlap):
        raise WrongType("schedule: overlap", f"must be an Overlap, such as Overlap.SKIP, not {overlap!r}")
    if not isinstance(catch_up, CatchUp):
        raise WrongType("schedule: catch_up", f"must be a CatchUp, such as CatchUp.SKIP, not {catch_up!r}")

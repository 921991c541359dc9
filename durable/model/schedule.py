"""Schedules: when they tick, and what is stored of them.

A `Plan` is pure: for an instant it returns the next tick. It knows cron expressions (through cronsim) and time zones.
It knows nothing about runs, stores or the current time. Instants are integers, as in `durable.model.clock`.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import importlib
import os
import re
import zoneinfo
from collections.abc import Iterator
from datetime import timezone, tzinfo

import attrs
from cronsim import CronSim

from durable.errors import InvalidValue, WrongType
from durable.model.clock import LATEST, SECOND, from_datetime, from_duration, to_datetime
from durable.model.ids import check_text
from durable.model.timers import ScheduleKey

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
    """What happens to a tick that comes while the last run of the schedule is unfinished.

    SKIP counts it and drops it. QUEUE starts a run when the last one has ended. ALLOW starts a run at once.
    """

    SKIP = "skip"
    QUEUE = "queue"
    ALLOW = "allow"


class CatchUp(enum.Enum):
    """What happens to ticks that were missed because no engine was running or the clock was set forward.

    SKIP drops them, LAST starts one run for the last of them, ALL starts a run for each.
    """

    SKIP = "skip"
    LAST = "last"
    ALL = "all"


# --- when it ticks --------------------------------------------------------------------------------------------------


@attrs.frozen
class Plan:
    """When a schedule ticks: by a cron expression in a time zone, or every `every` microseconds after an anchor."""

    cron: str | None = None
    every: int | None = None
    timezone: str = "UTC"

    @classmethod
    def of(cls, cron: object = None, every: object = None, timezone: object = None) -> Plan:
        """The plan for the arguments of a call; `every` is a duration. Raises `WrongType` or `InvalidValue`."""
        if (cron is None) == (every is None):
            raise InvalidValue("schedule", "pass either cron= or every=, and not both")
        if every is not None:
            if timezone is not None:
                raise InvalidValue("schedule: timezone", "is for cron= only; every= is the same in all zones")
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
            # cronsim raises more than its own error for some texts: ValueError, AssertionError.
            raise InvalidValue(
                "schedule: cron",
                f"{text!r} is not a cron expression ({error}): write minute, hour, day, month and weekday, "
                f"such as '0 3 * * MON-FRI', or one of {', '.join(_ALIASES)}",
            ) from None
        return cls(cron=text, timezone=name)

    def zone(self) -> tzinfo:
        """The time zone of the cron expression."""
        return zone_of(self.timezone)

    def ticks(self, after: int, anchor: int) -> Iterator[int]:
        """Every tick after an instant, in order. It stops in the year 9999, or after fifty years without a tick."""
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
        """The last tick after `after` and not later than `until`, by bisection rather than tick by tick."""
        low, high = self.next(after, anchor), until
        if low is None or low > until:
            return None
        while (following := self.next(low, anchor)) is not None and following <= until:
            # Not before `following`: a plan with uneven gaps, in an unusual zone, could make the search loop.
            middle = max(following, (following + high) // 2)
            tick = self.next(middle, anchor)
            if tick is not None and tick <= until:
                low = tick
            else:
                low, high = following, middle
        return low


def zone_of(name: str) -> tzinfo:
    """The time zone with this name. Raises `InvalidValue`."""
    if name == "UTC":
        # cronsim has a fast path for this object, and not for ZoneInfo("UTC").
        return timezone.utc
    # Check before trying: for a name without a file `ZoneInfo` imports a package by that name, and names come from the
    # store.
    is_file = any(os.path.isfile(os.path.join(folder, name)) for folder in zoneinfo.TZPATH)
    if _ZONE.fullmatch(name) and (is_file or name in _packaged_zones()):
        # The file may not be a time zone.
        with contextlib.suppress(ValueError, OSError):
            return zoneinfo.ZoneInfo(name)
    raise InvalidValue(
        "schedule: timezone",
        f"{name!r} is not a time zone on this machine: use a name such as 'Europe/Berlin'; "
        "if the machine has no time zones, pip install tzdata",
    )


@functools.cache
def _packaged_zones() -> frozenset[str]:
    """The zones of the package tzdata, for machines without a time zone database."""
    # Imported on use: it loads a dozen modules, and few machines need this package.
    resources = importlib.import_module("importlib.resources")
    try:
        return frozenset(resources.files("tzdata").joinpath("zones").read_text().split())
    except (ModuleNotFoundError, FileNotFoundError):
        return frozenset()


def _cron_ticks(expression: str, zone: tzinfo, after: int) -> Iterator[int]:
    """The ticks of a cron expression after an instant, as instants in strictly ascending order."""
    last = after
    try:
        for tick in CronSim(expression, to_datetime(after).astimezone(zone)):
            # Compared as instants: Python compares two datetimes of one zone by their wall-clock time, and in the
            # repeated hour of autumn cronsim starts again with ticks of the first pass.
            instant = from_datetime("tick", tick)
            if instant > last:
                yield instant
                last = instant
    except (OverflowError, ValueError):
        # A tick after the year 9999.
        return


# --- what is stored -------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Job:
    """What a caller asks for: which call to start, when, and by which policies. `input` is the packed arguments."""

    plan: Plan
    workflow: str
    version: int = 1
    input: str
    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUp = CatchUp.SKIP


@attrs.frozen(kw_only=True)
class ScheduleRecord:
    """One schedule: its job, and which ticks are done."""

    key: ScheduleKey
    name: str
    job: Job
    created_at: int
    # The instant from which `every` counts.
    anchor: int
    is_paused: bool = False
    # Every tick up to here is handled: started, queued or skipped. It never goes back, even if the clock does.
    done_until: int
    # The first tick after `done_until`; None if there is none.
    next_at: int | None = None
    # When the engine handles the schedule next: at its next tick, or at once after the run that a queued tick waits for
    # has ended. None while the schedule is paused, or while a tick is queued.
    wake_at: int | None = None
    # The tick that waits for the end of the last run.
    queued: int | None = None
    # How many ticks were skipped because the last run was unfinished.
    skipped: int = 0
    last_tick: int | None = None
    last_key: int | None = None
    last_id: str | None = None
    # The most recent gap of missed ticks: the first dropped tick, and the first later tick that was not dropped, or the
    # instant of the check if there is none.
    missed_from: int | None = None
    missed_until: int | None = None

    def next_after(self, instant: int) -> int | None:
        """The first tick after an instant, if there is one."""
        return self.job.plan.next(instant, self.anchor)


def run_id(name: str, tick: int) -> str:
    """The id of the run that a tick starts. It is unique to the tick, so a tick cannot start two runs."""
    return f"{name}@{to_datetime(tick).isoformat()}"


def run_tag(name: str) -> str:
    """The tag that marks all runs of a schedule."""
    return f"{_TAG}{name}"


def schedule_of(tags: tuple[str, ...]) -> str | None:
    """The name of the schedule that started the run with these tags; None if none did."""
    return next((tag.removeprefix(_TAG) for tag in tags if tag.startswith(_TAG)), None)


def check_name(name: object) -> str:
    """The name of a schedule, checked. Raises `WrongType` or `InvalidValue`."""
    return check_text("schedule: name", name, length_max=NAME_LENGTH_MAX)


def check_policies(overlap: object, catch_up: object) -> None:
    """Check the types of both policies. Raises `WrongType`."""
    if not isinstance(overlap, Overlap):
        raise WrongType("schedule: overlap", f"must be an Overlap, such as Overlap.SKIP, not {overlap!r}")
    if not isinstance(catch_up, CatchUp):
        raise WrongType("schedule: catch_up", f"must be a CatchUp, such as CatchUp.SKIP, not {catch_up!r}")

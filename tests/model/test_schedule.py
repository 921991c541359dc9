"""When schedules tick: cron expressions, time zones, the hours that are missing or come twice; and what is refused."""

from __future__ import annotations

import sys
import zoneinfo
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable import CatchUp, InvalidValue, Overlap, WrongType
from durable.model.clock import LATEST, SECOND, from_datetime, to_datetime
from durable.model.schedule import Plan, _packaged_zones, check_name, check_policies, run_id, run_tag, schedule_of

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"


def instant(text: str) -> int:
    """The instant of a text; UTC unless it says otherwise."""
    value = datetime.fromisoformat(text)
    return from_datetime("instant", value if value.tzinfo else value.replace(tzinfo=timezone.utc))


def local(plan: Plan, after: str, count: int) -> list[str]:
    """The next ticks in local time, with the offset from UTC in hours."""
    ticks = (to_datetime(tick).astimezone(plan.zone()) for tick in islice(plan.ticks(instant(after), 0), count))
    return [f"{tick:%m-%d %H:%M} {(tick.utcoffset() or timedelta()) // timedelta(hours=1)}" for tick in ticks]


# --- daylight saving time -------------------------------------------------------------------------------------------

# In spring the hour from two to three is missing, in autumn an hour comes twice. A job of a certain time runs once:
# when the gap is over, or in the first of the two hours. One that runs more often is simply run.
SUMMER_TIME: list[tuple[str, str, str, list[str]]] = [
    ("30 2 * * *", BERLIN, "2026-03-28T12:00", ["03-29 03:00 2", "03-30 02:30 2", "03-31 02:30 2"]),
    ("30 2 * * *", NEW_YORK, "2026-03-07T12:00", ["03-08 03:00 -4", "03-09 02:30 -4", "03-10 02:30 -4"]),
    ("0 2,3 * * *", BERLIN, "2026-03-28T12:00", ["03-29 03:00 2", "03-30 02:00 2", "03-30 03:00 2"]),
    ("*/30 * * * *", BERLIN, "2026-03-29T00:20", ["03-29 01:30 1", "03-29 03:00 2", "03-29 03:30 2"]),
    ("15 * * * *", NEW_YORK, "2026-03-08T06:00", ["03-08 01:15 -5", "03-08 03:15 -4", "03-08 04:15 -4"]),
    ("30 2 * * *", BERLIN, "2026-10-24T12:00", ["10-25 02:30 2", "10-26 02:30 1", "10-27 02:30 1"]),
    ("30 1 * * *", NEW_YORK, "2026-10-31T12:00", ["11-01 01:30 -4", "11-02 01:30 -5", "11-03 01:30 -5"]),
    ("*/30 * * * *", BERLIN, "2026-10-25T00:20", ["10-25 02:30 2", "10-25 02:00 1", "10-25 02:30 1"]),
    ("0 30 2 * * *", BERLIN, "2026-03-28T12:00", ["03-30 02:30 2", "03-31 02:30 2", "04-01 02:30 2"]),
    ("0 30 2 * * *", BERLIN, "2026-10-24T12:00", ["10-25 02:30 2", "10-25 02:30 1", "10-26 02:30 1"]),
    ("0 * * * *", NEW_YORK, "2026-11-01T04:30", ["11-01 01:00 -4", "11-01 01:00 -5", "11-01 02:00 -5"]),
]


@pytest.mark.parametrize(("cron", "zone", "after", "expected"), SUMMER_TIME)
def test_change_of_the_clock(cron: str, zone: str, after: str, expected: list[str]) -> None:
    """Around a missing hour and one that comes twice a plan ticks as Debian's cron does."""
    assert local(Plan.of(cron, timezone=zone), after, 3) == expected


@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK])
@pytest.mark.parametrize("after", ["2026-10-25T01:10", "2026-11-01T06:10"])
def test_plan_made_in_the_second_of_two_equal_hours(zone: str, after: str) -> None:
    """A tick in the first of the two hours is past, and is not returned as the next one."""
    plan = Plan.of("20,40 1,2 * * *", timezone=zone)
    ticks = list(islice(plan.ticks(instant(after), 0), 5))
    assert ticks[0] > instant(after)
    assert ticks == sorted(set(ticks))


def test_zone_of_a_plan() -> None:
    """The same expression means another instant in another zone, and is in UTC without a zone."""
    assert local(Plan.of("0 3 * * *"), "2026-07-01", 1) == ["07-01 03:00 0"]
    assert Plan.of("0 3 * * *").next(instant("2026-07-01"), 0) == instant("2026-07-01T03:00")
    assert Plan.of("0 3 * * *", timezone=BERLIN).next(instant("2026-07-01"), 0) == instant("2026-07-01T01:00")


@pytest.fixture
def zones(tmp_path: Path) -> Iterator[Path]:
    """A machine whose time zones are in this folder, which is empty at first."""
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath(to=[tmp_path])
    _packaged_zones.cache_clear()
    yield tmp_path
    zoneinfo.reset_tzpath(to=before)
    _packaged_zones.cache_clear()


def test_machine_without_zones(zones: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without system time zones those of the package tzdata are used; without that package, only UTC."""
    assert Plan.of("@daily", timezone="Europe/Zurich").zone() == zoneinfo.ZoneInfo("Europe/Zurich")
    _packaged_zones.cache_clear()
    monkeypatch.setitem(sys.modules, "tzdata", None)
    with pytest.raises(InvalidValue, match="pip install tzdata"):
        Plan.of("@daily", timezone="Europe/Zurich")
    assert Plan.of("@daily", timezone="UTC").zone() is timezone.utc


def test_file_that_is_no_zone(zones: Path) -> None:
    """A file of another kind among the time zones is not a zone, and names cannot leave the folder."""
    (zones / "leapseconds").write_text("# none\n")
    (zones / "zone.tab").write_bytes(b"TZif")
    for name in ("leapseconds", "zone.tab", ".", "../zones", "Europe/"):
        with pytest.raises(InvalidValue, match="no time zone"):
            Plan.of("@daily", timezone=name)


# --- plans ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("@yearly", "2027-01-01"),
        ("@annually", "2027-01-01"),
        ("@monthly", "2026-08-01"),
        ("@weekly", "2026-07-05"),
        ("@daily", "2026-07-02"),
        ("@midnight", "2026-07-02"),
        ("@hourly", "2026-07-01T13:00"),
        ("0 0 L * *", "2026-07-31"),
        ("0 0 * * MON#1", "2026-07-06"),
        ("*/15 * * * * *", "2026-07-01T12:00:15"),
        ("  0   9 * * 1-5 ", "2026-07-02T09:00"),
    ],
)
def test_cron(cron: str, expected: str) -> None:
    """Expressions with five fields, with seconds before them, and by name."""
    assert Plan.of(cron).next(instant("2026-07-01T12:00"), 0) == instant(expected)


def test_next_is_always_later() -> None:
    """The next tick after a tick is another one; a part of a second does not count as past."""
    plan = Plan.of("* * * * *")
    noon = instant("2026-07-01T12:00")
    assert plan.next(noon - 1, 0) == noon
    assert plan.next(noon, 0) == noon + 60 * SECOND
    assert plan.next(noon + 1, 0) == noon + 60 * SECOND


def test_every_is_counted_from_its_anchor() -> None:
    """Ticks are whole multiples after the anchor, whenever the next one is computed."""
    plan = Plan.of(every=timedelta(seconds=90))
    anchor = instant("2026-07-01T12:00:07.000003")
    assert plan.next(anchor, anchor) == anchor + 90 * SECOND
    assert plan.next(anchor - 10**15, anchor) == anchor + 90 * SECOND
    assert plan.next(anchor + 90 * SECOND - 1, anchor) == anchor + 90 * SECOND
    assert plan.next(anchor + 90 * SECOND, anchor) == anchor + 180 * SECOND
    assert plan.next(anchor + 10**6 * 90 * SECOND, anchor) == anchor + (10**6 + 1) * 90 * SECOND


@pytest.mark.parametrize("plan", [Plan.of("@hourly"), Plan.of("@hourly", timezone=BERLIN), Plan.of(every=3600)])
def test_end_of_the_calendar(plan: Plan) -> None:
    """At the end of the year 9999 there is no next tick, and that is not an error."""
    late = LATEST - 2 * 3600 * SECOND
    assert len(list(plan.ticks(late, late))) <= 2
    assert plan.next(LATEST, LATEST) is None


def test_plan_that_never_ticks() -> None:
    """An expression without a date in the next fifty years has no next tick."""
    assert Plan.of("* * */20 * 1L").next(instant("2026-07-01"), 0) is None


# --- the last tick --------------------------------------------------------------------------------------------------

CRONS = ["* * * * *", "30 2 * * *", "0 0 1 * *", "*/7 1-3 * * *", "59 23 28-31 10,3 *", "*/20 * * * * *"]
PLANS = st.one_of(
    st.builds(
        Plan.of,
        st.sampled_from(CRONS),
        st.none(),
        st.sampled_from([None, BERLIN, NEW_YORK, "Australia/Lord_Howe", "Africa/Casablanca", "America/Havana"]),
    ),
    st.builds(Plan.of, st.none(), st.integers(1, 10**6)),
)  # fmt: skip


@settings(max_examples=300)
@given(PLANS, st.integers(instant("2026-01-01"), instant("2027-01-01")), st.integers(0, 3 * 86_400 * SECOND))
def test_last_tick_is_the_last(plan: Plan, after: int, span: int) -> None:
    """It equals the result of stepping through all ticks."""
    until = after + min(span, 400 * (plan.every or 60 * SECOND))
    every = list(takewhile(lambda tick: tick <= until, plan.ticks(after, after - 1)))
    assert plan.last(after, until, after - 1) == (every[-1] if every else None)


@settings(max_examples=300)
@given(PLANS, st.integers(instant("2026-01-01"), instant("2027-01-01")))
def test_plan_has_no_memory(plan: Plan, after: int) -> None:
    """Computed one by one, as in an engine, or all at once, the ticks are the same and ascend."""
    expected = list(islice(plan.ticks(after, after - 1), 60))
    instants: list[int] = []
    for _ in expected:
        instants.append(plan.next(instants[-1] if instants else after, after - 1) or 0)
    assert instants == expected
    assert expected == sorted(set(expected))


def test_last_tick_of_many_years() -> None:
    """The last tick is found without stepping through thirty years of minutes."""
    plan = Plan.of("* * * * *", timezone=BERLIN)
    until = instant("2026-10-25T01:30:59")
    assert plan.last(instant("1996-01-01"), until, 0) == instant("2026-10-25T01:30")


# --- what is refused ------------------------------------------------------------------------------------------------

REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({}, InvalidValue, "either cron= or every="),
    ({"cron": "@daily", "every": 5}, InvalidValue, "either cron= or every="),
    ({"every": 5, "timezone": BERLIN}, InvalidValue, "is for cron= only"),
    ({"every": 0}, InvalidValue, "at least one second"),
    ({"every": 0.999}, InvalidValue, "at least one second"),
    ({"every": -5}, InvalidValue, "negative"),
    ({"every": float("nan")}, InvalidValue, "finite"),
    ({"every": "5"}, WrongType, "timedelta"),
    ({"cron": ""}, InvalidValue, "empty"),
    ({"cron": 5}, WrongType, "must be a str"),
    ({"cron": "61 * * * *"}, InvalidValue, "Bad minute"),
    ({"cron": "0 0 30 2 *"}, InvalidValue, "Bad day-of-month"),
    ({"cron": "* * * *"}, InvalidValue, "number of fields"),
    ({"cron": "@reboot"}, InvalidValue, "@hourly"),
    ({"cron": "* * * * MON#9"}, InvalidValue, "day-of-week"),
    ({"cron": "9" * 254 + " * * * *"}, InvalidValue, "limit is 255"),
    ({"cron": "@daily", "timezone": "Mars/Base"}, InvalidValue, "no time zone"),
    ({"cron": "@daily", "timezone": "Europe"}, InvalidValue, "no time zone"),
    ({"cron": "@daily", "timezone": "../UTC"}, InvalidValue, "no time zone"),
    ({"cron": "@daily", "timezone": ""}, InvalidValue, "empty"),
    ({"cron": "@daily", "timezone": timezone.utc}, WrongType, "must be a str"),
]


@pytest.mark.parametrize(("asked", "error", "message"), REFUSED, ids=lambda value: str(value)[:40])
def test_bad_plans(asked: dict[str, Any], error: type[Exception], message: str) -> None:
    """An impossible plan is refused by our error, which says what is wrong with it."""
    with pytest.raises(error) as caught:
        Plan.of(**asked)
    assert message in str(caught.value)


@settings(max_examples=500)
@given(st.text("0123456789*/,-#LWADMON? \n²٣", max_size=30))
def test_any_text_is_a_plan_or_is_refused(text: str) -> None:
    """Whatever an expression contains, it either ticks or is refused by our error."""
    try:
        plan = Plan.of(text)
    except InvalidValue:
        return
    tick = plan.next(instant("2026-07-01"), 0)
    assert tick is None or tick > instant("2026-07-01")


def test_bad_names_and_policies() -> None:
    """A name leaves room for the tick in a run's id, and policies are members of their enums."""
    with pytest.raises(InvalidValue, match="limit is 200"):
        check_name("n" * 201)
    with pytest.raises(WrongType, match=r"Overlap\.SKIP"):
        check_policies("skip", CatchUp.ALL)
    with pytest.raises(WrongType, match=r"CatchUp\.SKIP"):
        check_policies(Overlap.SKIP, Overlap.SKIP)
    check_policies(Overlap.QUEUE, CatchUp.LAST)


def test_names_of_runs() -> None:
    """A run's id says which tick it is for, to the microsecond if needed; its tag names the schedule."""
    assert run_id("nightly", instant("2026-11-16T03:00")) == "nightly@2026-11-16T03:00:00+00:00"
    assert run_id("a", instant("2026-11-16T03:00:00.000007")) == "a@2026-11-16T03:00:00.000007+00:00"
    assert len(run_id("n" * 200, LATEST)) <= 255
    assert schedule_of(("eu", run_tag("nightly"))) == "nightly"
    assert schedule_of(("eu", "nightly")) is None

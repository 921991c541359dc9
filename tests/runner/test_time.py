"""Sleeps, deadlines and limits: a workflow sees only recorded time."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from durable.model.clock import LATEST
from durable.runner.combinators import gather
from durable.runner.definitions import Durable, WorkflowDef, workflow
from durable.runner.determinism import now
from durable.runner.ops import Op, Timer, sleep, sleep_until
from tests.runner.builders import (
    NEW_YEAR,
    START,
    a_session,
    activity_ok,
    activity_retry,
    charge,
    hours,
    instant,
    opened,
    run,
    seconds,
    timer_fired,
    value_of,
)


@workflow(name="runner.time.at_once.generator")
def at_once(count: int) -> Durable[int]:
    """Many sleeps that are over before they begin."""
    for _ in range(count):
        yield from sleep(0)
        yield from sleep_until(NEW_YEAR)
    return count


@workflow(name="runner.time.at_once.coroutine")
async def async_at_once(count: int) -> int:
    """The same as a coroutine."""
    for _ in range(count):
        await sleep(0)
        await sleep_until(NEW_YEAR)
    return count


@pytest.mark.parametrize("definition", [at_once, async_at_once], ids=["generator", "async def"])
def test_sleep_that_is_over_never_suspends(definition: WorkflowDef[[int], int]) -> None:
    """`sleep(0)` and a past `sleep_until` continue at once, and 100,000 of them do not grow the stack."""
    assert value_of(a_session(definition, 50_000).start()) == 50_000


def test_groups_that_are_over_do_not_grow_the_stack() -> None:
    """Gathers that end at once are driven by the same loop, so many of them in a row do not grow the stack."""

    @workflow(name="w")
    def body() -> Durable[int]:
        for _ in range(10_000):
            yield from gather()
            yield from gather(sleep(0), gather(sleep(0)))
        return 1

    assert value_of(run(body)) == 1


@pytest.mark.parametrize("op", [sleep(0), sleep(timedelta()), sleep_until(NEW_YEAR), sleep_until(NEW_YEAR - hours(1))])
def test_sleep_that_is_over_gives_the_recorded_time(op: Op[datetime]) -> None:
    """A sleep that never suspended returns the workflow's own time."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        yield from charge(1)
        return (yield from op), now()

    assert value_of(run(body, activity_ok(7, "0", "charge", 1))) == (instant(7), instant(7))


def test_sleep_until_in_the_past_does_not_swallow_the_next_sleep() -> None:
    """A past `sleep_until` uses a position but no entry, so the sleep after it really waits."""

    @workflow(name="w")
    def body() -> Durable[datetime]:
        yield from sleep_until(NEW_YEAR - hours(1))
        return (yield from sleep(60))

    session = a_session(body)
    assert opened(session.start()) == ["1"]
    assert session.wake_at() == seconds(60)
    assert value_of(session.feed(timer_fired(61, "1"))) == instant(61)


def test_sleep_gives_the_instant_at_which_it_fired() -> None:
    """The result of a sleep is the time at which its entry was recorded, not its deadline."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        return (yield from sleep(hours(1))), now()

    assert value_of(run(body, timer_fired(4000, "0"))) == (instant(4000), instant(4000))


def test_deadline_is_counted_from_the_recorded_time() -> None:
    """A sleep counts from the last entry that the workflow received, also on a replay."""

    @workflow(name="w")
    def body() -> Durable[None]:
        yield from charge(1)
        yield from sleep(10)

    for _ in range(2):
        session = a_session(body)
        session.replay([activity_ok(5, "0", "charge", 1)])
        assert (session.wake_at(), session.waits["1"].opened_at) == (seconds(15), seconds(5))


def test_deadline_never_moves() -> None:
    """Entries after the start of a sleep move the workflow's clock, but not the deadline."""

    @workflow(name="w")
    def body() -> Durable[None]:
        yield from gather(sleep(10), gather(charge(1), charge(2)))

    session = a_session(body)
    session.start()
    session.feed(activity_retry(3, "0.1.0.0.0", "charge", seconds(100)))
    session.feed(activity_ok(8, "0.1.0.0.0", "charge", 1))
    assert session.wake_at() == session.waits["0.0.0"].deadline == seconds(10)
    assert session.now == seconds(8)


def test_time_never_goes_back() -> None:
    """An entry recorded after the wall clock was set back does not set the workflow's time back."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        yield from charge(1)
        before = now()
        yield from charge(2)
        return before, now()

    entries = [activity_ok(9, "0", "charge", 1), activity_ok(4, "1", "charge", 2)]
    assert value_of(run(body, *entries)) == (instant(9), instant(9))


def test_sleep_until_waits_for_the_instant() -> None:
    """The deadline of `sleep_until` is the instant itself, whatever its time zone."""

    @workflow(name="w")
    def body() -> Durable[datetime]:
        return (yield from sleep_until((NEW_YEAR + hours(1)).astimezone(timezone(hours(-9)))))

    session = a_session(body)
    session.start()
    assert session.wake_at() == seconds(3600)


def test_due_gives_open_deadlines_in_their_order() -> None:
    """`due` returns the timers and retries that are due, the earliest first, and no others."""

    @workflow(name="w")
    def body() -> Durable[Any]:
        return (yield from gather(sleep(30), sleep(10), charge(1), charge(2), sleep(50)))

    session = a_session(body)
    session.start()
    session.feed(activity_retry(1, "0.2.0", "charge", seconds(20)))
    session.feed(activity_retry(1, "0.3.0", "charge", None))
    assert [wait.position for wait in session.due(seconds(30))] == ["0.1.0", "0.2.0", "0.0.0"]
    assert session.due(seconds(9)) == []
    assert session.wake_at() == seconds(10)


def test_wake_at_is_none_without_a_deadline() -> None:
    """A workflow without a deadline has no wake-up."""

    @workflow(name="w")
    def body() -> Durable[int]:
        return (yield from charge(1))

    session = a_session(body)
    session.start()
    assert session.wake_at() is None


SENSELESS: list[tuple[str, Any, type[Exception]]] = [
    ("sleep", -1, ValueError),
    ("sleep", timedelta(microseconds=-1), ValueError),
    ("sleep", math.nan, ValueError),
    ("sleep", math.inf, ValueError),
    ("sleep", -math.inf, ValueError),
    ("sleep", timedelta.max, ValueError),
    ("sleep", timedelta(days=365 * 7999), ValueError),
    ("sleep", "1", TypeError),
    ("sleep", None, TypeError),
    ("sleep", True, TypeError),
    ("sleep_until", datetime(2030, 1, 1), TypeError),
    ("sleep_until", 5, TypeError),
    ("sleep_until", NEW_YEAR.date(), TypeError),
]


@pytest.mark.parametrize("flavour", ["generator", "async def"])
@pytest.mark.parametrize(("verb", "value", "expected"), SENSELESS, ids=repr)
def test_senseless_time_is_refused_in_the_body(
    verb: str, value: Any, expected: type[Exception], flavour: str
) -> None:  # fmt: skip
    """An invalid duration or instant raises in the body, which may catch it and continue."""
    makers: dict[str, Callable[[Any], Op[datetime]]] = {"sleep": sleep, "sleep_until": sleep_until}
    make, messages = makers[verb], []

    @workflow(name="w")
    def body() -> Durable[int]:
        try:
            yield from make(value)
        except expected as error:
            messages.append(str(error))
        return (yield from charge(1))

    @workflow(name="w")
    async def async_body() -> int:
        try:
            await make(value)
        except expected as error:
            messages.append(str(error))
        return await charge(1)

    session = a_session(body if flavour == "generator" else async_body)
    [position] = opened(session.start())
    assert value_of(session.feed(activity_ok(1, position, "charge", 5))) == 5
    assert [message.split(":")[0] for message in messages] == [verb]


def test_sleep_to_the_end_of_the_calendar_is_possible() -> None:
    """The last microsecond that a datetime can hold is a valid deadline; one more is refused."""

    @workflow(name="w")
    def body() -> Durable[str]:
        try:
            yield from sleep(timedelta(microseconds=LATEST - START + 1))
        except ValueError:
            yield from sleep(timedelta(microseconds=LATEST - START))
        return "over"

    session = a_session(body)
    assert opened(session.start()) == ["1"]
    assert session.wake_at() == LATEST


def test_timer_is_the_same_value_every_time() -> None:
    """One operation may be yielded twice: each time it counts from the recorded time."""
    op = Timer(duration=10_000_000)

    @workflow(name="w")
    def body() -> Durable[Any]:
        return (yield from op), (yield from op)

    session = a_session(body)
    session.start()
    session.feed(timer_fired(12, "0"))
    assert session.wake_at() == seconds(22)
    assert value_of(session.feed(timer_fired(22, "1"))) == (instant(12), instant(22))

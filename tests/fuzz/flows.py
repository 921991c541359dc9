"""Workflows whose stored rows are of every kind, and the store that they leave.

This file knows the public engine. It must not know how rows are corrupted.
"""

from __future__ import annotations

import enum
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import attrs

from durable import (
    ChildWorkflowFailed,
    Codec,
    Durable,
    Event,
    InvalidValue,
    NonRetryable,
    OnParentClose,
    Retry,
    WorkflowEngine,
    WorkflowFailed,
    activity,
    gather,
    publish,
    sleep,
    spawn,
    workflow,
)
from durable.model.clock import Clock

# One for all engines of the process: creating converters compiles code, and reading stored texts must not.
CODEC = Codec()
COUNT = 12


class Size(enum.Enum):
    """A size."""

    SMALL = "small"
    LARGE = "large"


@attrs.frozen
class Line:
    """A line of an order."""

    what: str | int
    price: Decimal
    options: dict[int, tuple[str, ...]] = attrs.field(factory=dict)


@attrs.frozen
class Order:
    """A class with every type of field."""

    number: int
    id: UUID
    at: datetime
    within: timedelta
    photo: bytes
    size: Size
    lines: list[Line]
    marks: set[int]
    choice: Line | Size | None
    note: str | None = None


def an_order(number: int) -> Order:
    """An order that follows from its number."""
    line = Line("tea", Decimal("1.50"), {1: ("a", "b")})
    at = datetime(2031, 1, 1, tzinfo=timezone.utc)
    return Order(
        number, UUID(int=number), at, timedelta(days=number), b"\0\xff", Size.LARGE,
        [line, Line(7, Decimal(number))], {3, 1}, line,
    )  # fmt: skip


class Declined(NonRetryable):
    """The original class of a stored error."""


early = Event[Order]("fuzz.early")
go = Event[int]("fuzz.go")
mail = Event[Order]("fuzz.mail")
news = Event[str]("fuzz.news", consume_on_read=False)
shared = Event[int]("fuzz.shared")


@activity(name="fuzz.work")
async def work(order: Order) -> Order:
    """Succeeds."""
    return order


@activity(name="fuzz.decline", retry=Retry(max_attempts=2, first_delay=0, jitter=0))
async def decline(number: int) -> int:
    """Fails twice."""
    raise KeyError("declined", number)


@workflow(name="fuzz.child")
def child(number: int) -> Durable[Order]:
    """Ends at once."""
    return (yield from work(an_order(number)))


@workflow(name="fuzz.failing_child")
def failing_child(number: int) -> Durable[Order]:
    """Fails at once."""
    try:
        yield from decline(number)
    except KeyError as error:
        raise Declined(f"no {number}") from error
    raise AssertionError


@workflow(name="fuzz.patient")
def patient(order: Order) -> Durable[Order]:
    """Has an entry of every kind when it waits for its last event."""
    first = yield from work(order)
    with suppress(KeyError):
        yield from decline(order.number)
    second = yield from early.wait()
    text = yield from news.wait()
    third, _ = yield from gather(child(first.number), sleep(0))
    with suppress(ChildWorkflowFailed):
        yield from failing_child(first.number)
    number = yield from go.wait()
    last = yield from mail.wait()
    return attrs.evolve(last, number=first.number + second.number + third.number + number, note=text)


@workflow(name="fuzz.sharing")
def sharing(order: Order) -> Durable[int]:
    """Waits, with others, for one of many equal events."""
    return order.number + (yield from shared.wait())


@workflow(name="fuzz.sleeping")
def sleeping(order: Order) -> Durable[int]:
    """Wakes up by itself."""
    yield from sleep(timedelta(hours=1))
    return (yield from work(order)).number


@workflow(name="fuzz.waiting_child")
def waiting_child(order: Order) -> Durable[int]:
    """Waits, and so does its parent."""
    return order.number + (yield from go.wait())


@workflow(name="fuzz.parent")
def parent(order: Order) -> Durable[int]:
    """Waits for a child that it spawned."""
    handle = yield from spawn(waiting_child(order), on_parent_close=OnParentClose.CANCEL)
    publish(order)
    return (yield from handle.result())


ALL = (child, failing_child, patient, sharing, sleeping, waiting_child, parent)


def expected(number: int) -> Order:
    """What a patient returns."""
    return attrs.evolve(an_order(number), number=4 * number, note="news")


async def fill(path: Path, clock: Clock) -> None:
    """Fill the store: for every number a patient at its last wait, and some ended workflows."""
    async with WorkflowEngine(path, workflows=ALL, codec=CODEC, clock=clock) as engine:
        await engine.send_event(news, "news")
        for number in range(COUNT):
            tags = [f"tag {number}", "all"]
            await engine.start(patient(an_order(number)), id=f"p{number}", tags=tags)
            await engine.start(sharing(an_order(number)), id=f"s{number}", tags=tags)
            await engine.start(sleeping(an_order(number)), id=f"t{number}")
            await engine.start(parent(an_order(number)), id=f"q{number}")
            await engine.start(patient(an_order(number)), id=f"c{number}")
            for id in (f"p{number}", f"c{number}"):
                await engine.send_event(early, an_order(number), to=id, event_id=f"early {id}")
                await engine.send_event(mail, an_order(number), to=id, event_id=f"mail {id}")
            done = await engine.start(child(number), id=f"d{number}")
            await engine.start(failing_child(number), id=f"f{number}")
            await engine.send_event(mail, an_order(number), to=f"c{number}")
            await done.result()
            with suppress(WorkflowFailed):
                await engine.handle(f"f{number}").result()
        for number in range(COUNT):
            # Ends with untaken mail, which becomes dead letters.
            await _waits_for(engine, f"p{number}", "fuzz.go")
            await _waits_for(engine, f"c{number}", "fuzz.go")
            await engine.terminate(f"c{number}", "over")
        for number in range(COUNT):
            timezone = ("Europe/Berlin", "America/New_York", "UTC")[number % 3]
            await engine.schedules.create(f"s{number}", child(number), cron=f"{number} * * * *", timezone=timezone)
            await engine.schedules.create(f"e{number}", child(number), every=1000 + number)
        with suppress(InvalidValue):
            # Loads the list of zones now, because reading a stored text must not.
            await engine.schedules.create("nowhere", child(0), cron="@daily", timezone="Nowhere/At_All")


async def _waits_for(engine: WorkflowEngine, id: str, name: str) -> None:
    while name not in [wait.name for wait in (await engine.runs.describe(id)).waits]:
        pass

"""Workflows that leave one of everything in a store: each kind of entry, wait, ending and letter.

The stores beside this file were written by these workflows in earlier versions of durable. Do not change a workflow
here: its stored runs must finish as they are. A new kind of entry gets a new workflow.
"""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any

import attrs

from durable import (
    ActivityFailed,
    Break,
    Cancelled,
    ChildWorkflowFailed,
    Continue,
    Durable,
    Event,
    OnParentClose,
    PauseExpired,
    Retry,
    TimedOut,
    activity,
    fan_out,
    gather,
    info,
    loop,
    patched,
    pause,
    publish,
    race,
    random,
    saga,
    settle,
    sleep,
    spawn,
    uuid,
    workflow,
)

go = Event[str]("formats.go")
news = Event[str]("formats.news", consume_on_read=False)


class Size(Enum):
    """An enum in a payload."""

    SMALL = "small"
    LARGE = "large"


@attrs.frozen
class Item:
    """A value with parts of many types."""

    name: str
    price: Decimal
    size: Size
    made: datetime
    parts: tuple[int, ...] = ()
    raw: bytes = b""


LAMP = Item("lamp", Decimal("12.50"), Size.LARGE, datetime(2031, 1, 2, 3, 4, 5, 6, timezone.utc), (1, 2), b"\x00\xff")


class Declined(Exception):
    """An error of a user, with a field."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@activity(name="formats.work")
def work(number: int) -> int:
    """A step."""
    return number * 10


@activity(name="formats.describe")
def describe(item: Item) -> Item:
    """A step with a rich value."""
    return attrs.evolve(item, name=item.name.upper())


@activity(name="formats.decline", retry=Retry.never())
def decline(code: int) -> int:
    """A step that fails."""
    raise Declined(code)


@activity(name="formats.flaky", retry=Retry(max_attempts=3, first_delay=3600, jitter=0))
def flaky(is_mended: bool) -> str:
    """A step that fails, and whose next attempt is an hour away."""
    raise ConnectionError("the line is dead")


@activity(name="formats.undo")
def undo(number: int) -> None:
    """The undo of a step."""


@workflow(name="formats.waiting")
def waiting(item: Item) -> Durable[list[Any]]:
    """Values, an error that was caught, draws, a patch and progress; then an event from the mailbox, and another."""
    described = yield from describe(item)
    code = 0
    try:
        yield from decline(7)
    except Declined as error:
        code = error.code
    publish({"done": 2})
    is_new = patched("formats-change")
    first = yield from go.wait()
    second = yield from go.wait("key")
    return [described.name, str(described.price), code, is_new, str(uuid()), random().random(), first, second]


@workflow(name="formats.sleeping")
def sleeping(seconds: float) -> Durable[str]:
    """A timer."""
    woken = yield from sleep(seconds)
    return woken.isoformat()


@workflow(name="formats.branches")
def branches() -> Durable[list[Any]]:
    """A race with names, a gather, a settle and a fan-out, each with something recorded."""
    pages = yield from fan_out(work, [1, 2, 3], limit=2)
    ended = yield from settle(work(4), decline(8))
    failed = [type(outcome).__name__ for outcome in ended]
    won = yield from race(left=go.wait("left"), right=go.wait("right"), timer=sleep(timedelta(days=9)))
    both = yield from gather(work(5), go.wait("both"))
    return [pages, failed, won.key, won.value, *both]


@workflow(name="formats.child")
def child(name: str) -> Durable[str]:
    """Waits for an event under its own name."""
    return (yield from go.wait(name))


@workflow(name="formats.family")
def family() -> Durable[list[str]]:
    """A child that was awaited and failed, a child that is awaited, and two that were spawned."""
    cause = ""
    try:
        yield from failing_child()
    except ChildWorkflowFailed as error:
        cause = type(error.__cause__).__name__
    kept = yield from spawn(child("kept"), id="family-kept", on_parent_close=OnParentClose.KEEP)
    yield from spawn(child("tied"), id="family-tied", on_parent_close=OnParentClose.CANCEL)
    awaited = yield from child("awaited").with_id("family-awaited")
    return [cause, awaited, (yield from kept.result())]


@workflow(name="formats.failing_child")
def failing_child() -> Durable[int]:
    """A child that fails."""
    return (yield from decline(9))


@workflow(name="formats.rounds")
def rounds() -> Durable[int]:
    """A loop in its third round."""

    def body(total: int) -> Durable[Continue[int] | Break[int]]:
        done = yield from work(total + 1)
        if total >= 2:
            yield from go.wait("rounds")
            return Break(done)
        return Continue(total + 1)

    return (yield from loop(body, 0))


@workflow(name="formats.endless")
def endless(left: int) -> Durable[str]:
    """Continues as itself, and waits in its last round."""
    if left:
        yield from work(left)
        raise endless.continue_as(left - 1)
    answer = yield from go.wait("endless")
    return f"round {info().round}: {answer}"


@workflow(name="formats.asking")
def asking() -> Durable[list[Any]]:
    """A pause that has expired, and one that is open."""
    late = ""
    try:
        yield from pause(returns=int, prompt="too late", expires_after=1)
    except PauseExpired as error:
        late = type(error).__name__
    answer = yield from pause(returns=Item, prompt=LAMP)
    return [late, answer.name]


@workflow(name="formats.owing")
def owing() -> Durable[str]:
    """A saga that was undone, then steps that owe their undos."""

    def inner() -> Durable[None]:
        yield from work(1).undo(undo)
        yield from decline(1)

    with contextlib.suppress(Declined):
        yield from saga(inner())
    yield from work(2).undo(undo)
    try:
        answer = yield from go.wait("owing").within(timedelta(days=30))
    except TimedOut:
        raise Declined(3) from None
    except Cancelled:
        yield from work(4)
        raise
    return answer


@workflow(name="formats.retrying")
def retrying() -> Durable[str]:
    """A step between two attempts."""
    return (yield from flaky(False))


@workflow(name="formats.mended")
def mended() -> Durable[list[int]]:
    """Was retried, repaired or forked after a step."""
    first = yield from work(1)
    second = yield from work(2)
    yield from go.wait("mended")
    return [first, second]


@workflow(name="formats.stumbling")
def stumbling() -> Durable[int]:
    """Fails until its step is repaired."""
    done = yield from work(1)
    if done == 10:
        raise Declined(10)
    return done


@workflow(name="formats.listening")
def listening() -> Durable[list[str]]:
    """Takes a broadcast, then the next one."""
    first = yield from news.wait()
    second = yield from news.wait()
    return [first, second]


@workflow(name="formats.foreign")
def foreign() -> Durable[str]:
    """An error that is caught whether or not its class is loaded."""
    with contextlib.suppress(Declined, ActivityFailed):
        yield from decline(11)
    return (yield from go.wait("foreign"))


WORKFLOWS = (
    waiting, sleeping, branches, child, family, failing_child, rounds, endless, asking, owing, retrying, mended,
    stumbling, listening, foreign,
)  # fmt: skip

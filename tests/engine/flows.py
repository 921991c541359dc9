"""Small workflows that the tests of decisions and races share."""

from __future__ import annotations

import contextlib
from typing import Any

from durable import (
    Cancelled,
    DeliveryMode,
    Durable,
    Event,
    NonRetryable,
    Retry,
    activity,
    gather,
    race,
    sleep,
    workflow,
)
from durable.runner.definitions import WorkflowDef

go = Event[int]("go")
news = Event[int]("news", consume_on_read=False)
other = Event[int]("other")


class Refused(NonRetryable):
    """An error that ends the retries."""


@activity(name="engine.work", retry=Retry(max_attempts=3, first_delay=10, factor=2, jitter=0))
def work(number: int) -> int:
    """Never runs: the tests answer for it."""
    raise NotImplementedError


@activity(name="engine.clean", retry=Retry.never())
def clean() -> None:
    """Never runs either."""
    raise NotImplementedError


@workflow(name="engine.nothing")
def nothing(value: int = 0) -> Durable[int]:
    """Ends at once."""
    yield from sleep(0)
    return value


@workflow(name="engine.failing")
def failing() -> Durable[None]:
    """Fails at once."""
    yield from sleep(0)
    raise LookupError("nothing there")


@workflow(name="engine.worker")
def worker(number: int = 1) -> Durable[int]:
    """Does one activity."""
    return (yield from work(number))


@workflow(name="engine.sleeper")
def sleeper(seconds: float = 60) -> Durable[str]:
    """Sleeps, and returns when the timer fired."""
    fired = yield from sleep(seconds)
    return fired.isoformat()


@workflow(name="engine.waiter")
def waiter() -> Durable[int]:
    """Waits for one event."""
    return (yield from go.wait())


@workflow(name="engine.late_waiter")
def late_waiter() -> Durable[int]:
    """Does an activity, then waits for an event."""
    yield from work(1)
    return (yield from go.wait())


@workflow(name="engine.collector")
def collector(count: int, key: str | None = None) -> Durable[list[int]]:
    """Waits for some events in a row."""
    taken = []
    for _ in range(count):
        taken.append((yield from go.wait(key)))
    return taken


@workflow(name="engine.reader")
def reader(count: int = 1) -> Durable[list[int]]:
    """Reads some broadcasts in a row."""
    taken = []
    for _ in range(count):
        taken.append((yield from news.wait()))
    return taken


@workflow(name="engine.patient")
def patient(seconds: float = 60) -> Durable[list[int]]:
    """Waits for an event with a timeout (-1 if it is late), then for another without one."""
    first = yield from go.wait().within(seconds).or_default(-1)
    second = yield from go.wait()
    return [first, second]


@workflow(name="engine.steady")
def steady() -> Durable[int]:
    """Does an activity, waits for an event, sleeps."""
    yield from work(1)
    taken = yield from go.wait()
    yield from sleep(1000)
    return taken


@workflow(name="engine.hesitant")
def hesitant() -> Durable[list[int]]:
    """Waits for an event with a timeout (-1 if it is late), does an activity, waits for another event, sleeps."""
    first = yield from go.wait().within(60).or_default(-1)
    yield from work(1)
    second = yield from go.wait()
    yield from sleep(1000)
    return [first, second]


@workflow(name="engine.work_rounds")
def work_rounds(number: int) -> Durable[int]:
    """Does one activity per round, and ends after the third."""
    done = yield from work(number)
    if number == 3:
        return done
    raise work_rounds.continue_as(number + 1)


@workflow(name="engine.tidy")
def tidy() -> Durable[int]:
    """Does an activity. When cancelled, cleans up with another one."""
    try:
        return (yield from work(1))
    except Cancelled:
        yield from clean()
        raise


@workflow(name="engine.stubborn")
def stubborn(then: str) -> Durable[int]:
    """Does an activity. When cancelled, ignores the cancel."""
    with contextlib.suppress(Cancelled):
        yield from work(1)
    if then == "fail":
        raise ValueError("after all")
    if then == "suspend":
        yield from go.wait()
    if then == "continue":
        raise stubborn.continue_as("return")
    return 7


@workflow(name="engine.parent")
def parent(seconds: float = 60) -> Durable[str]:
    """Waits for a child that sleeps."""
    return (yield from sleeper(seconds))


@workflow(name="engine.parent_of_waiter")
def parent_of_waiter(id: str | None = None) -> Durable[Any]:
    """Waits for a child that waits for an event. Returns an error of the child as its result."""
    try:
        return (yield from (waiter() if id is None else waiter().with_id(id)))
    except Exception as error:
        return [type(error).__name__, str(error), type(error.__cause__).__name__]


@workflow(name="engine.parent_of_nothing")
def parent_of_nothing(busy: bool = False) -> Durable[int]:
    """Waits for a child that ends at once. If busy, does an activity first."""
    if busy:
        yield from work(1)
    return (yield from nothing(5))


@workflow(name="engine.parent_of_failing")
def parent_of_failing() -> Durable[None]:
    """Waits for a child that fails, and lets its error through."""
    yield from failing()


@workflow(name="engine.racer")
def racer() -> Durable[Any]:
    """Races a child against an event, then sleeps."""
    won = yield from race(child=waiter(), event=other.wait())
    yield from sleep(60)
    return won.key


@workflow(name="engine.both")
def both() -> Durable[tuple[int, int]]:
    """Waits for two events at once."""
    return (yield from gather(go.wait(), other.wait()))


@workflow(name="engine.deep")
def deep(levels: int) -> Durable[int]:
    """Nests this many levels of children."""
    return 0 if levels == 0 else 1 + (yield from deep(levels - 1))


@workflow(name="engine.rounds")
def rounds(left: int, so_far: int = 0) -> Durable[int]:
    """Takes one event per round."""
    if left == 0:
        return so_far
    raise rounds.continue_as(left - 1, so_far + (yield from go.wait()))


@workflow(name="engine.spinner")
def spinner(left: int) -> Durable[int]:
    """Continues as a new round at once, again and again."""
    yield from sleep(0)
    if left == 0:
        return 99
    raise spinner.continue_as(left - 1)


def waits_for(name: str, mode: DeliveryMode = DeliveryMode.ALL, **more: Any) -> WorkflowDef[[], int]:
    """A workflow that does an activity and then waits for the event `name`."""
    event = Event[int](name, delivery_mode=mode, **more)

    @workflow(name=f"engine.waits_for_{name}")
    def waits() -> Durable[int]:
        yield from work(1)
        return (yield from event.wait())

    return waits


EVERY: tuple[WorkflowDef[Any, Any], ...] = (
    nothing, failing, worker, sleeper, waiter, late_waiter, collector, reader, patient, steady, hesitant, work_rounds,
    tidy, stubborn, parent, parent_of_waiter, parent_of_nothing, parent_of_failing, racer, both, deep, rounds, spinner,
)  # fmt: skip

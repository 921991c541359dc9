"""Workflows that work together across shards. The tests choose ids and keys, so that each lives where it must."""

from __future__ import annotations

from typing import Any

from durable import (
    DeliveryMode,
    Durable,
    Event,
    OnParentClose,
    TimedOut,
    WorkflowNotFound,
    activity,
    gather,
    race,
    sleep,
    spawn,
    workflow,
)
from durable.runner.definitions import WorkflowDef

go = Event[int]("go")
news = Event[int]("news", consume_on_read=False)
fresh = Event[int]("fresh", delivery_mode=DeliveryMode.AFTER_CREATE)
brief = Event[int]("brief", expire_after=60)


@activity(name="cluster.work")
def work(number: int) -> int:
    """Never runs: the tests answer for it."""
    raise NotImplementedError


@workflow(name="cluster.child")
def child(number: int = 1) -> Durable[int]:
    """Does one activity."""
    return (yield from work(number))


@workflow(name="cluster.instant")
def instant(value: int = 0) -> Durable[int]:
    """Ends at once."""
    return value
    yield


@workflow(name="cluster.failing")
def failing() -> Durable[None]:
    """Fails at once."""
    raise LookupError("nothing there")
    yield


@workflow(name="cluster.caller")
def caller(child_id: str, kind: str = "child") -> Durable[Any]:
    """Calls a child and waits for its end."""
    if kind == "failing":
        return (yield from failing().with_id(child_id))
    return (yield from (child() if kind == "child" else instant()).with_id(child_id))


@workflow(name="cluster.broken")
def broken(child_id: str) -> Durable[Any]:
    """Waits for a child and an activity, and fails with the first that does."""
    return list((yield from gather(child().with_id(child_id), work(1))))


@workflow(name="cluster.impatient")
def impatient(child_id: str) -> Durable[Any]:
    """Waits for a child with a timeout."""
    return (yield from child().with_id(child_id).within(10).or_default(-1))


@workflow(name="cluster.spawner")
def spawner(child_id: str, closes: str = "keep", waits: bool = True) -> Durable[Any]:
    """Spawns a child, sleeps, then waits for its end."""
    handle = yield from spawn(child(), child_id, OnParentClose(closes))
    yield from sleep(5)
    return (yield from handle.result()) if waits else handle.id


@workflow(name="cluster.hasty")
def hasty(child_id: str, closes: str = "keep") -> Durable[Any]:
    """Spawns a child, waits for its end with a timeout, then does an activity."""
    handle = yield from spawn(child(), child_id, OnParentClose(closes))
    ended = yield from handle.result().within(10).or_default(-1)
    return [ended, (yield from work(2))]


@workflow(name="cluster.shy")
def shy(child_id: str) -> Durable[Any]:
    """Spawns a child with a timeout."""
    won = yield from race(spawn(child(), child_id), sleep(1))
    return won.key


@workflow(name="cluster.stopper")
def stopper(child_id: str) -> Durable[bool]:
    """Spawns a child, sleeps, then cancels it."""
    handle = yield from spawn(child(), child_id)
    yield from sleep(5)
    return (yield from handle.cancel("enough"))


@workflow(name="cluster.waiter")
def waiter(key: str, event: str = "go") -> Durable[int]:
    """Waits for one event."""
    kinds: dict[str, Event[int]] = {"go": go, "news": news, "fresh": fresh, "brief": brief}
    return (yield from kinds[event].wait(key))


@workflow(name="cluster.timid")
def timid(key: str, seconds: float = 0) -> Durable[int]:
    """Waits for one event with a timeout."""
    try:
        return (yield from go.wait(key).within(seconds))
    except TimedOut:
        return -1


@workflow(name="cluster.fickle")
def fickle(key: str) -> Durable[list[Any]]:
    """Withdraws a wait and opens it again whenever its timer fires first."""
    taken: list[Any] = []
    for _ in range(3):
        won = yield from race(go.wait(key), sleep(10))
        taken.append(won.value if won.key == 0 else None)
    return taken


@workflow(name="cluster.twice")
def twice(key: str) -> Durable[list[int]]:
    """Takes two broadcasts in a row."""
    return [(yield from news.wait(key)), (yield from news.wait(key))]


@workflow(name="cluster.patient")
def patient(key: str) -> Durable[list[int]]:
    """Opens two waits for the same broadcast at once: each takes a different one."""
    return sorted((yield from gather(news.wait(key), news.wait(key))))


@workflow(name="cluster.sender")
def sender(key: str, to: str | None = None) -> Durable[str]:
    """Sends an event and says whether it was accepted."""
    try:
        yield from go.send(7, to=to, key=key)
    except WorkflowNotFound:
        return "nobody"
    return "sent"


EVERY: tuple[WorkflowDef[Any, Any], ...] = (
    child, instant, failing, caller, broken, impatient, hasty, shy, spawner, stopper, waiter, timid, fickle, twice,
    patient, sender,
)  # fmt: skip

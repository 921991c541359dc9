"""Workflows that are asked about from another process."""

from __future__ import annotations

import anyio

from durable import Durable, Event, activity, publish, workflow

go = Event[int]("remote-go")


@workflow(name="remote.waits")
def waits(number: int) -> Durable[int]:
    """Waits for an event and adds to it."""
    publish(number)
    got = yield from go.wait()
    return number + got


class Work:
    """An activity that a test holds back."""

    def __init__(self) -> None:
        self.has_begun = anyio.Event()
        self.may_end = anyio.Event()


WORK: list[Work] = []


@activity(name="remote.hold")
async def hold() -> int:
    """Ends when the test says so."""
    WORK[-1].has_begun.set()
    await WORK[-1].may_end.wait()
    return 1


@workflow(name="remote.works")
def works() -> Durable[int]:
    """Runs the activity."""
    return (yield from hold())

"""Workflows that are asked about from another process."""

from __future__ import annotations

from durable import Durable, Event, publish, workflow

go = Event[int]("remote-go")


@workflow(name="remote.waits")
def waits(number: int) -> Durable[int]:
    """Waits for an event and adds to it."""
    publish(number)
    got = yield from go.wait()
    return number + got

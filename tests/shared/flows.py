"""The workflows of a service that runs in several processes."""

from __future__ import annotations

import os
from pathlib import Path

import anyio

from durable import Durable, Event, activity, activity_info, workflow

go = Event[int]("shared.go")


class Gate:
    """Holds an activity back, and says that it runs."""

    def __init__(self) -> None:
        self.entered, self.opened = anyio.Event(), anyio.Event()


gates: dict[str, Gate] = {}


@activity(name="shared.pass_gate")
async def pass_gate(name: str) -> str:
    """Waits until the test opens its gate."""
    gates[name].entered.set()
    await gates[name].opened.wait()
    return name


@activity(name="shared.write_down")
def write_down(ledger: str, text: str) -> int:
    """Adds a line to a file, with the key that is the same for every attempt. Returns the process that did it."""
    line = f"{activity_info().idempotency_key} {text} {os.getpid()}\n"
    descriptor = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)
    return os.getpid()


@workflow(name="shared.waits")
def waits(number: int = 0) -> Durable[int]:
    """Adds the payload of one event."""
    return number + (yield from go.wait())


@workflow(name="shared.gated")
def gated(name: str) -> Durable[str]:
    """Runs an activity that the test holds back, and then another."""
    first = yield from pass_gate(name)
    second = yield from pass_gate(f"{name}-2")
    return first + second


@workflow(name="shared.order")
def order(ledger: str, sku: str) -> Durable[str]:
    """Writes two lines."""
    yield from write_down(ledger, "paid")
    yield from write_down(ledger, "sent")
    return sku


WORKFLOWS = (waits, gated, order)


def lines(ledger: Path) -> list[list[str]]:
    """What was written down: key, text, process."""
    return [line.split() for line in ledger.read_text().splitlines()]

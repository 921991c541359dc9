"""Helpers of the tests about observers: one that takes notes, and the workflows that they watch."""

from __future__ import annotations

import threading
from collections.abc import Callable

from durable import Durable, Event, Retry, activity, workflow
from durable.telemetry import Fact

# Longer than anything here takes; reached only when something hangs.
SOON = 10.0
approval = Event[str]("telemetry.approval")


class Notes:
    """An observer that keeps the facts."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self._changed = threading.Condition()

    def observe(self, fact: Fact) -> None:
        """Keep a fact."""
        with self._changed:
            self.facts.append(fact)
            self._changed.notify_all()

    def tell(self, *facts: Fact) -> None:
        """Keep facts, in the place of a reporter."""
        for fact in facts:
            self.observe(fact)

    def until(self, is_enough: Callable[[list[Fact]], bool]) -> list[Fact]:
        """Wait in this thread until enough has been told."""
        with self._changed:
            assert self._changed.wait_for(lambda: is_enough(self.facts), SOON), self.names()
            return list(self.facts)

    def names(self, *, without: tuple[str, ...] = ()) -> list[str]:
        """The classes of the facts, in order."""
        return [name for fact in self.facts if (name := type(fact).__name__) not in without]


@activity(name="telemetry.charge")
async def charge(amount: int) -> int:
    """Succeeds."""
    return amount


@activity(name="telemetry.print")
def print_label(text: str) -> str:
    """Succeeds, in a thread."""
    return text


@activity(name="telemetry.decline", retry=Retry(max_attempts=2, first_delay=0.001))
async def decline() -> None:
    """Fails twice."""
    raise ValueError("declined")


@workflow(name="telemetry.order")
def order(amount: int) -> Durable[str]:
    """Takes money, waits for a person, prints."""
    paid = yield from charge(amount)
    who = yield from approval.wait()
    return (yield from print_label(f"{who} {paid}"))


@workflow(name="telemetry.declined")
def declined() -> Durable[None]:
    """Fails after two attempts."""
    yield from decline()


@workflow(name="telemetry.child")
def child() -> Durable[int]:
    """Takes money."""
    return (yield from charge(1))


@workflow(name="telemetry.parent")
def parent() -> Durable[int]:
    """Has two children, one after the other."""
    return (yield from child()) + (yield from child())

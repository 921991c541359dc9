"""Who is told the facts: what an observer is, and one that also carries the context of a trace."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

from durable.engine.operations.facts import AttemptBegun, Fact

# How many facts may wait for one observer. Further ones are dropped and counted (`FactsDropped`).
FACTS_MAX = 10_000


class Observer(Protocol):
    """Is told what happens in an engine. Pass it as `WorkflowEngine(..., observers=[...])`.

    Each observer has a thread of its own, which calls it with one fact at a time, in order. It may be slow, block or
    raise: the engine never waits for it. While 10,000 facts wait for it, further ones are dropped, and the log says so.
    """

    def observe(self, fact: Fact, /) -> None:
        """Something has happened."""
        ...


@runtime_checkable
class Carrier(Protocol):
    """An observer that also carries the context of a trace: from a caller into what is stored, and into activities.

    Both methods are called where the caller and the activity run, so they must be quick. If one raises, there is no
    context.
    """

    def capture(self, action: str, name: str) -> str | None:
        """The context to store with a call, as one line of text. `action` is "start" or "send"."""
        ...

    def enter(self, attempt: AttemptBegun, /) -> AbstractContextManager[object]:
        """Make the context of a workflow the current one while an attempt of its activity runs."""
        ...


class Tell(Protocol):
    """Hands facts to the observers. It returns at once and never raises; any thread may call it."""

    def __call__(self, *facts: Fact) -> None: ...


def split_trace(trace: str | None) -> tuple[str | None, str | None]:
    """The `traceparent` and the `tracestate` in a stored trace context."""
    parent, _, state = (trace or "").partition(" ")
    return parent or None, state or None

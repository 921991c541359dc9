"""Live bodies: what the state keeps in memory for a loaded workflow, and the interface of the watchdog.

A live body is a cache. It can be thrown away between two decisions and rebuilt from the history.
"""

from __future__ import annotations

from typing import Protocol

import attrs

from durable.model.records import EventWait, WorkflowRecord
from durable.runner.session import WorkflowSessionRunner

# An activity that was handed to the loop: the round and the attempt it was decided for. There is one for every running
# activity, so it is a plain pair of numbers, which the garbage collector stops tracking. Nearly all are FIRST_FLIGHT.
Flight = tuple[int, int]
FIRST_FLIGHT: Flight = (0, 1)


@attrs.define(eq=False)
class Loaded:
    """A workflow in memory: its record, its live body, and the rows of its waits."""

    record: WorkflowRecord
    session: WorkflowSessionRunner
    # The number of the last entry in its history.
    seq: int
    # Its registered waits for events and answers, by position.
    rows: dict[str, EventWait] = attrs.field(factory=dict)
    # How many events are in its mailbox; None until they are counted for the first time.
    mail: int | None = None


class Watch(Protocol):
    """Is called before and after every step of a body. The watchdog uses this to name a slow or stuck body."""

    def enter(self, record: WorkflowRecord, session: WorkflowSessionRunner) -> None:
        """A body begins a step."""
        ...

    def leave(self) -> None:
        """The step has ended, normally or with an exception."""
        ...


class Unwatched:
    """The watch of a state without a watchdog."""

    def enter(self, record: WorkflowRecord, session: WorkflowSessionRunner) -> None:
        """Do nothing."""

    def leave(self) -> None:
        """Do nothing."""

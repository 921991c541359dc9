"""Live bodies: workflows in memory, the activities in flight for them, and who watches a body that is being stepped."""

from __future__ import annotations

from typing import Protocol

import attrs

from durable.model.records import EventWait, WorkflowRecord
from durable.runner.session import WorkflowSessionRunner

# An activity that was handed to the loop: the round and attempt it was decided for. A plain pair of numbers, which the
# garbage collector soon leaves alone: there is one for every running activity. Nearly all of them are the same pair.
Flight = tuple[int, int]
FIRST_FLIGHT: Flight = (0, 1)


@attrs.define(eq=False)
class Loaded:
    """A workflow in memory: its record and its live body."""

    record: WorkflowRecord
    session: WorkflowSessionRunner
    # The number of its last entry.
    seq: int
    # Its registered waits for events and answers, by position.
    rows: dict[str, EventWait] = attrs.field(factory=dict)
    # How many events lie in its mailbox; None until somebody counts them.
    mail: int | None = None


class Watch(Protocol):
    """Wants to know which body is being stepped."""

    def enter(self, record: WorkflowRecord, session: WorkflowSessionRunner) -> None:
        """A body begins a step."""
        ...

    def leave(self) -> None:
        """The step has ended."""
        ...


class Unwatched:
    """Nobody watches."""

    def enter(self, record: WorkflowRecord, session: WorkflowSessionRunner) -> None:
        """Do nothing."""

    def leave(self) -> None:
        """Do nothing."""

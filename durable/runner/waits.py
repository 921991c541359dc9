"""What a body waits for: the open waits, which of them have a deadline, and what has changed since the last answer.

Plain bookkeeping. Who opens a wait, and what is recorded of it, is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Container

from durable.model.records import EntryKind
from durable.runner.agenda import arranged, due_by, earliest
from durable.runner.fibers import WaitCondition

# Bound once: Python 3.11 takes as long for a member of an enum as for a call, and every step passes here.
_ACTIVITY = EntryKind.ACTIVITY


class Waits(dict[str, WaitCondition]):
    """The open waits by position, in the order in which they were opened."""

    __slots__ = ("open_activities", "opened", "timed", "withdrawn")

    def __init__(self) -> None:
        # Those with a deadline, or with a next attempt that has its time.
        self.timed: dict[str, WaitCondition] = {}
        self.open_activities = 0
        # Since the last answer. None instead of an empty list: a list of every body is an object for the collector.
        self.opened: list[WaitCondition] | None = None
        self.withdrawn: list[WaitCondition] | None = None

    def open(self, wait: WaitCondition) -> None:
        """The body waits here from now on."""
        wait.fiber.wait = self[wait.position] = wait
        if wait.kind is _ACTIVITY:
            self.open_activities += 1
        elif wait.deadline is not None:
            self.timed[wait.position] = wait
        if self.opened is None:
            self.opened = [wait]
        else:
            self.opened.append(wait)

    def drop(self, wait: WaitCondition) -> None:
        """The wait is over: its entry has come."""
        del self[wait.position]
        if wait.kind is _ACTIVITY:
            self.open_activities -= 1
        if self.timed:
            self.timed.pop(wait.position, None)
        wait.fiber.wait = None

    def withdraw(self, wait: WaitCondition) -> None:
        """The body gives the wait up; whoever works on it is to be told."""
        self.drop(wait)
        if self.withdrawn is None:
            self.withdrawn = []
        self.withdrawn.append(wait)

    def wake_at(self, in_flight: Container[str]) -> int | None:
        """The earliest deadline, except for those of activities that are in flight."""
        if not self.timed:
            return None
        self.timed = arranged(self.timed)
        return earliest(self.timed, in_flight)

    def due(self, now: int) -> list[WaitCondition]:
        """The waits whose time has come, the earliest first."""
        self.timed = arranged(self.timed)
        return due_by(self.timed, now)

    def deadlines_moved(self) -> None:
        """Deadlines have changed: sort them again when somebody asks."""
        self.timed = dict(self.timed)

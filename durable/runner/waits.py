"""The open waits of a body, those with a deadline, and the changes since the last result.

Plain bookkeeping: the interpreter opens and withdraws waits, and the session drops those whose entry has arrived.
"""

from __future__ import annotations

from collections.abc import Container

from durable.model.records import EntryKind
from durable.runner.agenda import arranged, due_by, earliest
from durable.runner.fibers import WaitCondition

# Bound once: attribute access on an enum costs a call on Python 3.11, and every step passes here.
_ACTIVITY = EntryKind.ACTIVITY


class Waits(dict[str, WaitCondition]):
    """The open waits by position, in the order in which they were opened.

    `timed` is a subset: waits with a deadline, and activities whose next attempt has a time. It becomes an `Agenda`
    when it is large.
    """

    __slots__ = ("open_activities", "opened", "timed", "withdrawn")

    def __init__(self) -> None:
        self.timed: dict[str, WaitCondition] = {}
        self.open_activities = 0
        # Changes since the last result. None instead of an empty list: fewer objects for the garbage collector.
        self.opened: list[WaitCondition] | None = None
        self.withdrawn: list[WaitCondition] | None = None

    def open(self, wait: WaitCondition) -> None:
        """Add a wait, and report it with the next result."""
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
        """Remove a wait whose entry has arrived."""
        del self[wait.position]
        if wait.kind is _ACTIVITY:
            self.open_activities -= 1
        if self.timed:
            self.timed.pop(wait.position, None)
        wait.fiber.wait = None

    def withdraw(self, wait: WaitCondition) -> None:
        """Remove a wait that the body has given up, and report it, so that the engine stops serving it."""
        self.drop(wait)
        if self.withdrawn is None:
            self.withdrawn = []
        self.withdrawn.append(wait)

    def wake_at(self, in_flight: Container[str]) -> int | None:
        """The earliest deadline, without those of activities in flight."""
        if not self.timed:
            return None
        self.timed = arranged(self.timed)
        return earliest(self.timed, in_flight)

    def due(self, now: int) -> list[WaitCondition]:
        """The waits that are due at `now`, the earliest first. They stay open."""
        self.timed = arranged(self.timed)
        return due_by(self.timed, now)

    def deadlines_moved(self) -> None:
        """Forget the order of deadlines after they have changed: the next query sorts them again."""
        self.timed = dict(self.timed)

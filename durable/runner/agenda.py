"""Which deadline of one body comes first.

Every step of a body asks for its earliest deadline. With a few waits it is found by looking at all of them. With many
that would make a gather of n branches take n * n looks, so then the table of waits keeps a heap beside it.
"""

from __future__ import annotations

from collections.abc import Container
from heapq import heapify, heappop, heappush
from typing import Any

from durable.runner.fibers import WaitCondition

# Up to so many waits a heap is not worth its memory.
_FEW = 16
# A deadline, a number that keeps equal ones in the order in which they were set, and the wait.
_Item = tuple[int, int, WaitCondition]
_Waits = dict[str, WaitCondition]


class Agenda(dict[str, WaitCondition]):
    """A table of many waits by position. A wait whose deadline has changed must be set again."""

    __slots__ = ("_heap", "_number")

    def __init__(self, waits: _Waits) -> None:
        super().__init__(waits)
        # Items of waits that are over stay in it until they come to the top.
        self._heap = _items(self)
        self._number = len(self._heap)
        heapify(self._heap)

    def __setitem__(self, position: str, wait: WaitCondition) -> None:
        super().__setitem__(position, wait)
        if (due := wait.due) is not None:
            self._number += 1
            heappush(self._heap, (due, self._number, wait))

    def pop(self, position: str, *default: Any) -> Any:
        """Take a wait out."""
        wait = super().pop(position, *default)
        if not self:
            # Nobody may ask again before the body ends, in a year perhaps.
            self._heap.clear()
        return wait

    def is_worth_it(self) -> bool:
        """Whether there are still many waits, and not too many in the heap that are over."""
        return len(self) > _FEW and len(self._heap) <= 4 * len(self)

    def first(self) -> _Item | None:
        """The wait with the earliest deadline."""
        heap = self._heap
        while heap and not self._is_open(heap[0]):
            heappop(heap)
        return heap[0] if heap else None

    def due(self, now: int) -> list[WaitCondition]:
        """The waits whose time has come, the earliest first."""
        items: list[_Item] = []
        while self._heap and self._heap[0][0] <= now:
            item = heappop(self._heap)
            if self._is_open(item):
                items.append(item)
        # Back again: they are open until somebody has dealt with them.
        for item in items:
            heappush(self._heap, item)
        return [wait for _, _, wait in items]

    def _is_open(self, item: _Item) -> bool:
        due, _, wait = item
        return self.get(wait.position) is wait and wait.due == due


def arranged(waits: _Waits) -> _Waits:
    """The same table, as an `Agenda` if there are many waits in it."""
    if isinstance(waits, Agenda):
        if waits.is_worth_it():
            return waits
        waits = dict(waits)
    return waits if len(waits) <= _FEW else Agenda(waits)


def earliest(waits: _Waits, in_flight: Container[str]) -> int | None:
    """The earliest deadline, but for those of activities that are in flight."""
    if isinstance(waits, Agenda) and (first := waits.first()) is not None and first[2].position not in in_flight:
        return first[0]
    open_deadlines = (wait.due for wait in waits.values() if wait.position not in in_flight)
    return min((due for due in open_deadlines if due is not None), default=None)


def due_by(waits: _Waits, now: int) -> list[WaitCondition]:
    """The waits whose time has come, the earliest first."""
    if isinstance(waits, Agenda):
        return waits.due(now)
    return [wait for _, _, wait in sorted(item for item in _items(waits) if item[0] <= now)]


def _items(waits: _Waits) -> list[_Item]:
    return [(due, number, wait) for number, wait in enumerate(waits.values()) if (due := wait.due) is not None]

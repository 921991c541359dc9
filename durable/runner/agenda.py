"""Finds the earliest deadline of one body.

Every step of a body asks for it. With few waits, a scan of all of them is fastest. With many, a scan per step would
make a gather of n branches cost n * n, so the table of waits then keeps a heap as well.

`Waits` calls `arranged` before each query and keeps the table that it returns. Times are microseconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Container
from heapq import heapify, heappop, heappush
from typing import Any

from durable.runner.fibers import WaitCondition

# With this many waits or fewer, a heap is not worth its memory.
_FEW = 16
# A deadline, a number that keeps equal deadlines in insertion order, and the wait.
_Item = tuple[int, int, WaitCondition]
_Waits = dict[str, WaitCondition]


class Agenda(dict[str, WaitCondition]):
    """Many waits by position, with a heap of their deadlines.

    The heap does not notice when a wait's deadline changes: the caller must set the wait again, or rebuild the table.
    """

    __slots__ = ("_heap", "_number")

    def __init__(self, waits: _Waits) -> None:
        super().__init__(waits)
        # Removal is lazy: the item of a closed wait stays in the heap until it reaches the top.
        self._heap = _items(self)
        self._number = len(self._heap)
        heapify(self._heap)

    def __setitem__(self, position: str, wait: WaitCondition) -> None:
        super().__setitem__(position, wait)
        if (due := wait.due) is not None:
            self._number += 1
            heappush(self._heap, (due, self._number, wait))

    def pop(self, position: str, *default: Any) -> Any:
        """Remove and return a wait. Its heap item stays until `first` or `due` meets it."""
        wait = super().pop(position, *default)
        if not self:
            # The next query may be a year away; do not keep dead items in memory until then.
            self._heap.clear()
        return wait

    def is_worth_it(self) -> bool:
        """Whether there are still many waits, and closed ones do not dominate the heap."""
        return len(self) > _FEW and len(self._heap) <= 4 * len(self)

    def first(self) -> _Item | None:
        """The item with the earliest deadline; None without any."""
        heap = self._heap
        while heap and not self._is_open(heap[0]):
            heappop(heap)
        return heap[0] if heap else None

    def due(self, now: int) -> list[WaitCondition]:
        """The waits that are due, the earliest first. They stay in the table until the caller closes them."""
        items: list[_Item] = []
        while self._heap and self._heap[0][0] <= now:
            item = heappop(self._heap)
            if self._is_open(item):
                items.append(item)
        for item in items:
            heappush(self._heap, item)
        return [wait for _, _, wait in items]

    def _is_open(self, item: _Item) -> bool:
        due, _, wait = item
        return self.get(wait.position) is wait and wait.due == due


def arranged(waits: _Waits) -> _Waits:
    """The same waits, in an `Agenda` if they are many and in a plain dict if they are few."""
    if isinstance(waits, Agenda):
        if waits.is_worth_it():
            return waits
        waits = dict(waits)
    return waits if len(waits) <= _FEW else Agenda(waits)


def earliest(waits: _Waits, in_flight: Container[str]) -> int | None:
    """The earliest deadline, without those of activities in flight: an attempt that runs needs no wake-up."""
    if isinstance(waits, Agenda) and (first := waits.first()) is not None and first[2].position not in in_flight:
        return first[0]
    open_deadlines = (wait.due for wait in waits.values() if wait.position not in in_flight)
    return min((due for due in open_deadlines if due is not None), default=None)


def due_by(waits: _Waits, now: int) -> list[WaitCondition]:
    """The waits that are due at `now`, the earliest first."""
    if isinstance(waits, Agenda):
        return waits.due(now)
    return [wait for _, _, wait in sorted(item for item in _items(waits) if item[0] <= now)]


def _items(waits: _Waits) -> list[_Item]:
    return [(due, number, wait) for number, wait in enumerate(waits.values()) if (due := wait.due) is not None]

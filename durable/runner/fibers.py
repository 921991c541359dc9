"""The data of a live session: fibers (the body and its branches), the groups that join them, and open waits.

Plain bookkeeping; only the session and its parts change it. A fiber is in one of three places: at a leaf (`wait`), at
an operation with branches (`group`), or in the queue of the interpreter. Groups and fibers form a tree: a group knows
the fiber that waits for it, and each branch knows its group (`owner`).

Positions are paths: the root's operations are `0, 1, 2`; those of branch *i* of a gather at 4 are `4.i.0, 4.i.1`; those
of branch `left` of a race at 4 are `4.left.0, 4.left.1`.

`Waits` has all open waits of a body, and the changes since the last result. The interpreter opens and withdraws waits,
and the session drops those whose entry has arrived. Every step also asks for the earliest deadline. With few waits, a
scan of all of them is fastest. With many, a scan per step would make a gather of n branches cost n * n, so the table of
waits with a deadline then keeps a heap as well (`Agenda`). Times are microseconds since the epoch.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice
from types import FrameType, MappingProxyType
from typing import Any

from durable.errors import SessionClosed
from durable.model.position import branch_prefix
from durable.model.records import EntryKind
from durable.runner.ops import Leaf, Op, OrDefault, Tally, Undo

# With this many waits or fewer, a heap is not worth its memory.
_FEW = 16
# Bound once: attribute access on an enum costs a call on Python 3.11, and every step passes here.
_ACTIVITY = EntryKind.ACTIVITY


class Fiber:
    """One running generator or coroutine.

    `prefix` plus `count` is the position of its next operation. `index` is its number among the branches of `owner`;
    the root has no owner. Once it has ended or was closed, `is_live` is False, and it must not be stepped.
    """

    __slots__ = ("body", "count", "group", "index", "is_live", "owner", "prefix", "started", "wait")

    def __init__(self, body: Any, prefix: str, owner: Group | None, index: int) -> None:
        self.body = body
        self.prefix = prefix
        self.owner = owner
        self.index = index
        self.count = 0
        self.started = False
        self.is_live = True
        self.wait: WaitCondition | None = None
        self.group: Group | None = None


class Group:
    """The branches of one operation, and the fiber that waits for them."""

    __slots__ = (
        "count", "depth", "fiber", "fibers", "is_cancelling", "labels", "position", "rivals", "tally", "unopened",
    )  # fmt: skip

    def __init__(
        self, tally: Tally, unopened: Iterator[Any], fiber: Fiber, position: str, labels: Sequence[str] = ()
    ) -> None:
        self.fiber = fiber
        self.position = position
        self.tally = tally
        # The part of a position that identifies each branch. Without labels, branches use their numbers.
        self.labels = labels
        self.is_cancelling = False
        # Branches not opened yet (None if there are none left), the number opened so far, and those still running.
        self.unopened: Iterator[Any] | None = unopened
        self.count = 0
        self.fibers: dict[int, Fiber] = {}
        # The nesting depth of helpers around the branches: see `limits`.
        self.depth = 0
        # The operations of a race, by branch; empty for other groups.
        self.rivals: tuple[Any, ...] = ()

    def open(self, limit: int | None) -> Iterator[Fiber]:
        """Open up to `limit` more branches, or all that are left. Yields each before it makes the next one."""
        assert self.unopened is not None, "there is nothing left to open"
        for branch in islice(self.unopened, limit):
            body = iter(branch) if isinstance(branch, Op) else branch
            label = self.labels[self.count] if self.labels else self.count
            fiber = Fiber(body, branch_prefix(self.position, label), self, self.count)
            self.fibers[self.count] = fiber
            self.count += 1
            yield fiber
        if limit is None:
            self.unopened = None


def groups_around(fiber: Fiber) -> Iterator[Group]:
    """The groups that a fiber runs in, the innermost first."""
    while fiber.owner is not None:
        yield fiber.owner
        fiber = fiber.owner.fiber


class WaitCondition:
    """One open wait: the operation, its position, and what the engine needs to serve it.

    The row in `kinds` fills in the fields below before the wait opens. Times are microseconds since the epoch.
    """

    # The deadline of a timer, or of a pause that expires.
    deadline: int | None = None
    # For an activity: the arguments (copied, so that the body cannot change them), the number of the current or next
    # attempt, and after a failed attempt the earliest time of the next one and the error.
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = MappingProxyType({})
    attempt = 1
    retry_at: int | None = None
    error: str | None = None
    # JSON: the arguments of a child, the prompt of a pause, the payload of a sent event, or the state of a loop.
    input = ""

    def __init__(self, position: str, op: Leaf[Any], fiber: Fiber, opened_at: int) -> None:
        self.position = position
        self.op = op
        self.kind: EntryKind = op.kind
        self.name = op.name
        self.fiber = fiber
        self.opened_at = opened_at

    @property
    def due(self) -> int | None:
        """When the engine must act on it: at the deadline, or at the next attempt of a failed activity."""
        return self.deadline if self.deadline is not None else self.retry_at

    def __str__(self) -> str:
        return f"{self.kind.value} {self.name}"


_OP_CODES = {Op.__iter__.__code__, OrDefault.__iter__.__code__, Undo.__iter__.__code__}


def frames(body: Any) -> Iterator[FrameType]:
    """The suspended frames of user code in a generator or coroutine, the outermost first."""
    while body is not None:
        code = getattr(body, "gi_code", None) or getattr(body, "cr_code", None)
        frame = getattr(body, "gi_frame", None) or getattr(body, "cr_frame", None)
        if frame is None or code in _OP_CODES:
            return
        yield frame
        body = getattr(body, "gi_yieldfrom", None) or getattr(body, "cr_await", None)


def source_line(body: Any) -> str | None:
    """File and line at which a suspended body waits; None without a frame of user code."""
    suspended = list(frames(body))
    return f"{suspended[-1].f_code.co_filename}:{suspended[-1].f_lineno}" if suspended else None


def source_around(fiber: Fiber) -> str | None:
    """File and line at which a fiber waits.

    A branch that is a bare operation has no line; it was written on the line where its owner waits.
    """
    line = source_line(fiber.body)
    while line is None and fiber.owner is not None:
        fiber = fiber.owner.fiber
        line = source_line(fiber.body)
    return line


def ending(fiber: Fiber, withdraw: Callable[[WaitCondition], object]) -> Iterator[Fiber]:
    """Mark a fiber and all below it as ended, and yield them, the innermost first. The caller closes their bodies.

    A loop instead of recursion: branches may be nested deeper than Python's stack, and an error here would stop the
    coordinator.
    """
    todo = [(fiber, False)]
    while todo:
        fiber, is_innermost = todo.pop()
        if is_innermost:
            yield fiber
        elif fiber.is_live:
            fiber.is_live = False
            if fiber.wait is not None:
                withdraw(fiber.wait)
            todo.append((fiber, True))
            if fiber.group is not None:
                todo += ((branch, False) for branch in reversed(fiber.group.fibers.values()))


def close_body(body: Any) -> BaseException | None:
    """Close a generator or coroutine. Returns the error if the body raises one, or refuses to end."""
    try:
        body.close()
    except SessionClosed:
        # Raised by an operation in a `finally` block, because operations must not run there.
        return None
    except BaseException as error:
        if (getattr(body, "gi_frame", None) or getattr(body, "cr_frame", None)) is not None:
            # It refuses to end, so leak it on purpose. Collecting it would throw GeneratorExit into it again, at the
            # latest when the process ends, and a body in an endless loop would keep the process from exiting.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(body))
        return error
    return None


# A deadline, a number that keeps equal deadlines in insertion order, and the wait.
_Item = tuple[int, int, WaitCondition]
_Waits = dict[str, WaitCondition]


# --- deadlines --------------------------------------------------------------------------------------------------------


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


# --- all open waits ---------------------------------------------------------------------------------------------------


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

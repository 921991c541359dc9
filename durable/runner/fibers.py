"""The parts of a live session: fibers (the root body and its branches), the groups that join them, and open waits.

Plain bookkeeping, changed by the session only. Positions are paths: the root's operations are `0, 1, 2`, those of
branch *i* of a gather at 4 are `4.i.0, 4.i.1`, those of branch `left` of a race `4.left.0`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from types import FrameType, MappingProxyType
from typing import Any

from durable.errors import SessionClosed
from durable.model.position import branch_prefix
from durable.model.records import EntryKind
from durable.runner.ops import Leaf, Op, OrDefault, Tally, Undo


class Fiber:
    """One generator or coroutine, waiting at a leaf, at a group, or about to run."""

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
    """Branches that run at once, and the fiber that waits for them."""

    __slots__ = ("count", "depth", "fiber", "fibers", "is_cancelling", "labels", "position", "rest", "rivals", "tally")

    def __init__(
        self, tally: Tally, rest: Iterator[Any], fiber: Fiber, position: str, labels: Sequence[str] = ()
    ) -> None:
        self.fiber = fiber
        self.position = position
        self.tally = tally
        # What stands for each branch in positions; its number where there is nothing.
        self.labels = labels
        self.is_cancelling = False
        # Those that are not opened yet, how many are, and those of them that have not ended.
        self.rest: Iterator[Any] | None = rest
        self.count = 0
        self.fibers: dict[int, Fiber] = {}
        # How deep helpers are nested around its branches.
        self.depth = 0
        # The branches of a race.
        self.rivals: tuple[Any, ...] = ()

    def open(self, limit: int | None) -> Iterator[Fiber]:
        """Up to so many more branches; without a limit all that are left."""
        assert self.rest is not None, "there is nothing left to open"
        for branch in islice(self.rest, limit):
            body = iter(branch) if isinstance(branch, Op) else branch
            label = self.labels[self.count] if self.labels else self.count
            fiber = Fiber(body, branch_prefix(self.position, label), self, self.count)
            self.fibers[self.count] = fiber
            self.count += 1
            yield fiber
        if limit is None:
            self.rest = None


def groups_around(fiber: Fiber) -> Iterator[Group]:
    """The groups that a fiber runs in, the innermost first."""
    while fiber.owner is not None:
        yield fiber.owner
        fiber = fiber.owner.fiber


class WaitCondition:
    """What a workflow waits for at one position."""

    # The deadline of a timer, or of a pause that expires.
    deadline: int | None = None
    # An activity's arguments (a copy that the body does not share), the attempt that runs next or now, when it may run
    # if one has failed before, and what that one failed with.
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = MappingProxyType({})
    attempt = 1
    retry_at: int | None = None
    error: str | None = None
    # A child's arguments, the prompt of a pause, or the state of a loop, as JSON.
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
        """When it needs attention: at its deadline, or at the next attempt of an activity that has failed."""
        return self.deadline if self.deadline is not None else self.retry_at

    def __str__(self) -> str:
        return f"{self.kind.value} {self.name}"


_OP_CODES = {Op.__iter__.__code__, OrDefault.__iter__.__code__, Undo.__iter__.__code__}


def frames(body: Any) -> Iterator[FrameType]:
    """The user's suspended frames of a generator or coroutine, the outermost first."""
    while body is not None:
        code = getattr(body, "gi_code", None) or getattr(body, "cr_code", None)
        frame = getattr(body, "gi_frame", None) or getattr(body, "cr_frame", None)
        if frame is None or code in _OP_CODES:
            return
        yield frame
        body = getattr(body, "gi_yieldfrom", None) or getattr(body, "cr_await", None)


def source_line(body: Any) -> str | None:
    """File and line at which a suspended body waits."""
    found = list(frames(body))
    return f"{found[-1].f_code.co_filename}:{found[-1].f_lineno}" if found else None


def source_around(fiber: Fiber) -> str | None:
    """File and line at which a fiber waits.

    A branch that is a bare operation has no line of its own: the line of its owner is where it was written.
    """
    line = source_line(fiber.body)
    while line is None and fiber.owner is not None:
        fiber = fiber.owner.fiber
        line = source_line(fiber.body)
    return line


def ending(fiber: Fiber, withdraw: Callable[[WaitCondition], object]) -> Iterator[Fiber]:
    """A fiber and all below it, the innermost first. Each has ended, and its body is to be closed.

    A loop, because branches may be nested deeper than Python's stack: an error here would stop the coordinator.
    """
    left = [(fiber, False)]
    while left:
        fiber, is_innermost = left.pop()
        if is_innermost:
            yield fiber
        elif fiber.is_live:
            fiber.is_live = False
            if fiber.wait is not None:
                withdraw(fiber.wait)
            left.append((fiber, True))
            if fiber.group is not None:
                left += ((branch, False) for branch in reversed(fiber.group.fibers.values()))


def close_body(body: Any) -> BaseException | None:
    """Close a generator or coroutine; the error if it does not let itself be closed."""
    try:
        body.close()
    except SessionClosed:
        # An operation in its `finally` has raised it, because it must not run.
        return None
    except BaseException as error:
        if (getattr(body, "gi_frame", None) or getattr(body, "cr_frame", None)) is not None:
            # It refuses to end. It must never be collected: that would throw GeneratorExit into it again, at the latest
            # when the process ends, and a body that loops would keep the process from ending.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(body))
        return error
    return None

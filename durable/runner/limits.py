"""When a workflow asks for too much at once, or goes too deep.

What a body sees must not depend on a setting that may be another one when it is rebuilt. So it is not told: the
workflow fails, and what it did under another limit is not questioned. Only depth is Python's own limit: a body that
went deeper than this process allows cannot be rebuilt here, so its workflow is parked until a process allows it.
"""

from __future__ import annotations

import inspect
import sys

from durable.errors import HelpersTooDeep, TooDeepHere, TooManyWaits
from durable.runner.ambient import Ambient
from durable.runner.changes import record_answer
from durable.runner.fibers import Fiber

UNLIMITED = sys.maxsize
# The share of Python's recursion limit that helpers may take. The rest is for what runs below a body and above its
# innermost helper. What lies below is deeper on a replay than on the first run, and deeper still under a test runner;
# and under a debugger or a coverage tool every frame counts twice.
_SHARE = 0.4
_IS_HELPER = inspect.CO_GENERATOR | inspect.CO_COROUTINE


def is_beyond(session: Ambient, waits: int, depth: int) -> bool:
    """Whether so many open waits, or helpers nested so deep, are too much: then the workflow must fail.

    On a replay only the depth counts: raises `TooDeepHere`.
    """
    name, problem = session.who.name, _nesting_problem(session.who.name, depth)
    if not session.is_live:
        if problem is not None:
            raise TooDeepHere(name, sys.getrecursionlimit())
        return False
    session.overrun = TooManyWaits(name, session.max_waits) if waits > session.max_waits else problem
    return session.overrun is not None


def note_recursion(session: Ambient, position: str, error: RecursionError) -> None:
    """A body has failed before this position because Python goes no deeper.

    How deep it goes differs from process to process, and between a first run and a replay. So the failure is recorded,
    like an answer of `patched`. Raises `TooDeepHere` on a replay that comes to one which is not recorded.
    """
    note = f"too deep at {position}"
    if note not in session.past.patches:
        if not session.is_live:
            raise TooDeepHere(session.who.name, sys.getrecursionlimit()) from error
        record_answer(session, note, True)


def too_deep(name: str, error: BaseException) -> HelpersTooDeep | None:
    """Why a body has failed whose helpers are nested deeper than Python goes at all; None for any other error."""
    if not isinstance(error, RecursionError):
        return None
    limit, depth, trace = _limit(), 0, error.__traceback__
    while trace is not None:
        depth += bool(trace.tb_frame.f_code.co_flags & _IS_HELPER)
        trace = trace.tb_next
    problem = HelpersTooDeep(name, depth, limit)
    problem.__cause__ = error
    return problem if depth > limit else None


def _limit() -> int:
    return int(sys.getrecursionlimit() * _SHARE)


def depth_of(fiber: Fiber) -> int:
    """How deep helpers are nested where a fiber waits: its own, and those around the branches that it runs in."""
    depth, body = 0 if fiber.owner is None else fiber.owner.depth, fiber.body
    while body is not None:
        body = getattr(body, "gi_yieldfrom", None) or getattr(body, "cr_await", None)
        depth += 1
    return depth


def depth_around(fiber: Fiber) -> int:
    """How deep helpers are nested around the branches that a fiber opens.

    The operation that opens them counts only where it is a branch itself: a helper that calls itself through `gather`
    may go as deep as one that calls itself.
    """
    around = 0 if fiber.owner is None else fiber.owner.depth
    return max(around + 1, depth_of(fiber) - 1)


def _nesting_problem(name: str, depth: int) -> HelpersTooDeep | None:
    """Why a workflow must fail whose helpers are nested so deep; None for nearly every workflow."""
    limit = _limit()
    return HelpersTooDeep(name, depth, limit) if depth > limit else None

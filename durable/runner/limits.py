"""Limits on open waits and on nesting depth.

A limit is a setting, and it may differ when the body is rebuilt. So a body must never see it: raising an error in the
body would make the history depend on the setting. Instead the workflow fails as a whole (`overrun`), and a replay does
not apply the limit to what has already happened.

Depth is different, because it is Python's own limit. If a body went deeper than this process allows, it cannot be
rebuilt here. Its workflow is parked (`TooDeepHere`) until a process allows the depth.
"""

from __future__ import annotations

import inspect
import sys

from durable.errors import HelpersTooDeep, TooDeepHere, TooManyWaits
from durable.runner.ambient import Ambient
from durable.runner.changes import record_answer
from durable.runner.fibers import Fiber

UNLIMITED = sys.maxsize
# The share of Python's recursion limit that helpers may use. The remainder is for the frames below the body and those
# above its innermost helper. A replay has more frames below than the first run, a test runner adds more, and under a
# debugger or a coverage tool every frame counts twice.
_SHARE = 0.4
_IS_HELPER = inspect.CO_GENERATOR | inspect.CO_COROUTINE


def is_beyond(session: Ambient, waits: int, depth: int) -> bool:
    """Whether this number of open waits, or this depth, is over the limit. If so, sets `overrun`.

    On a replay only the depth counts, and it raises `TooDeepHere` instead.
    """
    name, problem = session.who.name, _nesting_problem(session.who.name, depth)
    if not session.is_live:
        if problem is not None:
            raise TooDeepHere(name, sys.getrecursionlimit())
        return False
    session.overrun = TooManyWaits(name, session.max_waits) if waits > session.max_waits else problem
    return session.overrun is not None


def note_recursion(session: Ambient, position: str, error: RecursionError) -> None:
    """Record that a body hit Python's recursion limit before this position.

    The depth at which that happens differs between processes, and between a first run and a replay. So the failure is
    recorded like an answer of `patched`. Raises `TooDeepHere` if a replay hits the limit where none is recorded.
    """
    note = f"too deep at {position}"
    if note not in session.past.patches:
        if not session.is_live:
            raise TooDeepHere(session.who.name, sys.getrecursionlimit()) from error
        record_answer(session, note, True)


def too_deep(name: str, error: BaseException) -> HelpersTooDeep | None:
    """A `HelpersTooDeep` for a `RecursionError` that nested helpers caused; None for any other error.

    The traceback tells: it holds more frames of generators and coroutines than helpers may use.
    """
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
    """The depth of nested helpers where a fiber waits: its own, plus those around the branches that it runs in."""
    depth, body = 0 if fiber.owner is None else fiber.owner.depth, fiber.body
    while body is not None:
        body = getattr(body, "gi_yieldfrom", None) or getattr(body, "cr_await", None)
        depth += 1
    return depth


def depth_around(fiber: Fiber) -> int:
    """The depth of nested helpers around the branches that a fiber opens.

    The operation that opens them counts only if it is a branch itself. So a helper that calls itself through `gather`
    may go as deep as one that calls itself directly.
    """
    around = 0 if fiber.owner is None else fiber.owner.depth
    return max(around + 1, depth_of(fiber) - 1)


def _nesting_problem(name: str, depth: int) -> HelpersTooDeep | None:
    """The error for helpers nested this deep; None within the limit."""
    limit = _limit()
    return HelpersTooDeep(name, depth, limit) if depth > limit else None

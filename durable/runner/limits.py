"""When a workflow asks for too much at once. Looked at only where it does something for the first time.

What a body sees must not depend on a setting that may be another one when it is rebuilt. So it is not told: the
workflow fails, and what it did under another limit is not questioned.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

from durable.limit_errors import HelpersTooDeep, TooManyWaits
from durable.runner.ambient import Ambient

UNLIMITED = sys.maxsize
# The share of Python's recursion limit that helpers may take. The rest is for what runs below a body and above its
# innermost helper. What lies below is deeper on a replay than on the first run, and deeper still under a test runner;
# and under a debugger or a coverage tool every frame counts twice.
_SHARE = 0.4
_IS_HELPER = inspect.CO_GENERATOR | inspect.CO_COROUTINE


def is_beyond(session: Ambient, waits: int, body: Any = None) -> bool:
    """Whether so many open waits, or the nesting of a body, are too much: then the workflow must fail."""
    if waits > session.max_waits:
        session.overrun = TooManyWaits(session.who.name, session.max_waits)
    elif body is not None:
        session.overrun = _nesting_problem(session.who.name, body)
    return session.overrun is not None


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


def _nesting_problem(name: str, body: Any) -> HelpersTooDeep | None:
    """Why a body must fail whose helpers are nested too deep; None for nearly every body."""
    limit, depth = _limit(), 0
    while body is not None:
        body = getattr(body, "gi_yieldfrom", None) or getattr(body, "cr_await", None)
        depth += 1
    return HelpersTooDeep(name, depth, limit) if depth > limit else None

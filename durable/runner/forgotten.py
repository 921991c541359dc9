"""Who dropped an operation that nobody used: the code, by mistake, or an error that passed by?

An operation that is freed unused is a mistake of the workflow, unless an error dropped it. Python does not say why an
object is freed, but the frame that runs at that moment tells: its current instruction, and whether a handler would
catch an error that is raised there. In doubt the code is not blamed, so that no sound workflow fails.
"""

from __future__ import annotations

import dis
import gc
import re
import sys
from functools import lru_cache
from itertools import takewhile
from types import CodeType, FrameType, ModuleType
from typing import Any, Protocol

import attrs

from durable.runner.kept_errors import cleanups, may_keep_errors

# The only frames of durable that run a body or an activity: what is freed there was left in a variable.
_RUNS_BODIES = ("durable.runner.interpreter", "_step")
_RUNS_ACTIVITIES = "durable.engine.host.attempts"
# What to do instead of running an operation inside an activity.
PLAIN = "call the plain function (.fn), or hand the call to an engine"
# Instructions that cannot raise: no error is under way when one of them drops something.
_QUIET = re.compile(r"POP_TOP|IS_OP|STORE_(FAST|DEREF|NAME|GLOBAL)|DELETE_|POP_JUMP\w*_NONE|RETURN_|END_FOR|POP_ITER")
# Those of them that ask whether something is None. What they drop has just been made.
_ASKS = re.compile(r"IS_OP|POP_JUMP\w*_NONE")
_LOOKS_UP = ("LOAD_ATTR", "LOAD_METHOD")
# Instructions of `yield from op` and `await op`, and of `return`; and what stands for one that names what is sought.
_RUNS = frozenset({"GET_YIELD_FROM_ITER", "GET_AWAITABLE"})
_RETURNS = frozenset({"RETURN_VALUE", "RETURN_CONST"})
_NAMED = "named"
# Where an error goes that is raised in a handler.
_ENDS_OF_HANDLERS = frozenset({"COPY", "LOAD_CONST"})
# Instructions that let go of an error that was handled, and of all that its traceback held.
_ENDS_HANDLING = frozenset({"POP_EXCEPT", "RERAISE", "CHECK_EXC_MATCH", "CHECK_EG_MATCH", "WITH_EXCEPT_START"})


@attrs.frozen
class _Facts:
    """What the code of a function says about errors."""

    # From and to (exclusive) where a raised error finds a handler.
    guarded: tuple[tuple[int, int], ...]
    # Where a handler forgets the name of its error.
    forgets: frozenset[int]
    # From and to (exclusive) where an error is being handled.
    handling: tuple[tuple[int, int], ...]


@lru_cache(maxsize=512)
def _facts(code: CodeType) -> _Facts:
    steps = list(dis.get_instructions(code))
    names = {step.offset: step.opname for step in steps}
    entries = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]  # unknown to the stubs
    guarded = tuple((entry.start, entry.end) for entry in entries if names.get(entry.target) == "PUSH_EXC_INFO")
    # What is raised in a handler goes where the handler ends: `error = None; del error`, then back to what was before.
    handling = tuple(
        (entry.start, entry.end) for entry in entries if entry.lasti and names.get(entry.target) in _ENDS_OF_HANDLERS
    )
    return _Facts(guarded, frozenset(offset for offset, _ in cleanups(steps)), handling)


def _is_collecting() -> bool:
    """Whether the garbage collector is at work. It may bring operations that other workflows rightly never reached.

    It does not begin again while it is at work, which its count of collections shows. A callback of `gc` would tell as
    well, but Python drops a Ctrl-C that arrives in one.
    """
    before = gc.get_stats()[0]["collections"]
    gc.collect(0)
    return bool(gc.get_stats()[0]["collections"] == before)


# By the id of an activity that runs: the activity, and what its code has dropped. Only attempts with this mistake.
IN_ACTIVITIES: dict[int, tuple[object, str]] = {}


class Body(Protocol):
    """What is seen here of the session whose body runs."""

    closing: int
    dropped: list[str] | None
    # The fiber that runs; its body is a generator or a coroutine.
    stepped: Any


def report(session: Body | None, activity: object, dropped: object, fix: str) -> None:
    """Called by something that is freed and was never used: tell the body or activity that runs, if it is to blame."""
    if (activity is None if session is None else session.closing) or _is_collecting():
        return
    # Past ourselves and the `__del__` that has called us.
    place = _place_of_drop(sys._getframe(2))
    if place is None:
        return
    try:
        what = str(dropped)
    except AttributeError:
        # Its own constructor refused it, so it never was an operation.
        return
    if session is None:
        instead = getattr(dropped, "instead", PLAIN)
        place = place or f"created{_in_activity(activity, what)}"
        note(None, activity, f"{what} was {place} inside an activity, where it does nothing: {instead}")
        return
    if not place:
        body = session.stepped.body
        code = getattr(body, "gi_code", None) or body.cr_code
        if may_keep_errors(code):
            return
        place = f"created at {likely_place(code, what)}, kept in a variable,"
    note(session, activity, f"{what} was {place} {fix}")


def _in_activity(activity: Any, what: str) -> str:
    """Where an activity has made what it left in a variable; nothing for one without code of Python."""
    code = getattr(activity.definition.fn, "__code__", None)
    return "" if code is None else f" at {likely_place(code, what)}"


def note(session: Body | None, activity: object, problem: str) -> None:
    """Tell of a mistake at the end of the step or of the attempt, so that no handler hides it."""
    if session is None:
        IN_ACTIVITIES.setdefault(id(activity), (activity, problem))
    elif session.dropped is None:
        session.dropped = [problem]
    else:
        session.dropped.append(problem)


def _place_of_drop(frame: FrameType) -> str | None:
    """What code did to that which is freed while `frame` runs; empty if it was left in a variable at the end.

    None if an error may have dropped it.
    """
    module = frame.f_globals.get("__name__")
    if (module, frame.f_code.co_name) == _RUNS_BODIES or module == _RUNS_ACTIVITIES:
        return None if _is_let_go(frame) else ""
    if _is_ours(frame) or not _is_blamed(frame):
        return None
    verb = "created" if _instruction(frame) == "POP_TOP" else "dropped"
    return f"{verb} at {frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


def _is_blamed(frame: FrameType) -> bool:
    """Whether the code of a frame drops something now, and no error can have done it."""
    instruction = _instruction(frame)
    if instruction == "POP_TOP" and _makes_operation(frame):
        return True
    if _is_let_go(frame) or (not _ASKS.match(instruction) and _is_in(frame, _facts(frame.f_code).handling)):
        return False
    # An error may be under way: it would be caught here, or further out in the body.
    is_quiet = _QUIET.match(instruction)
    outer: FrameType | None = frame
    while outer is not None and not _is_ours(outer):
        if not is_quiet and _is_in(outer, _facts(outer.f_code).guarded):
            return False
        if may_keep_errors(outer.f_code, outer.f_globals):
            return False
        outer = outer.f_back
    return True


def _is_in(frame: FrameType, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(start <= frame.f_lasti < end for start, end in ranges)


def _makes_operation(frame: FrameType) -> bool:
    """Whether the statement that ends here, like `charge(1)`, calls what makes operations: then it dropped that one."""
    steps = [step for step in dis.get_instructions(frame.f_code) if step.offset < frame.f_lasti]
    depth, start = 0, len(steps)
    while depth < 1 and start:
        # Back to where the value that is dropped began.
        start -= 1
        depth += dis.stack_effect(steps[start].opcode, steps[start].arg, jump=False)
    first, *rest = steps[start:]
    value = frame.f_globals.get(first.argval) if first.opname in ("LOAD_GLOBAL", "LOAD_NAME") else None
    names = [step.argval for step in takewhile(lambda step: step.opname.startswith(_LOOKS_UP), rest)]
    while names and isinstance(value, (ModuleType, type)):
        value = vars(value).get(names.pop(0))
    # The plain function of an activity makes no operation.
    return names[:1] != ["fn"] and _is_durables(value)


def _is_durables(value: object) -> bool:
    """Whether something is made by durable: an activity, a workflow, an event, or one of its own functions."""
    module = getattr(value, "__module__", None) if callable(value) else None
    return str(module or type(value).__module__).partition(".")[0] == "durable"


def _is_let_go(frame: FrameType) -> bool:
    return _instruction(frame) in _ENDS_HANDLING or frame.f_lasti in _facts(frame.f_code).forgets


def _instruction(frame: FrameType) -> str:
    code, offset = frame.f_code.co_code, frame.f_lasti
    # Python 3.11 points behind a call of a Python function, at one of the caches that follow it.
    while offset > 0 and code[offset] == 0:
        offset -= 2
    return dis.opname[code[offset]]


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] == "durable"


@lru_cache(maxsize=512)
def likely_place(code: CodeType, text: str, *, returned: bool = False) -> str:
    """File, function and the lines on which it names what a text names: `charge(...)` is made where `charge` stands.

    If others remain, lines that run what they make are left out, and for what was returned all lines that return
    nothing.
    """
    words = set(re.findall(r"[^\W\d]\w*", text))
    line = code.co_firstlineno
    starts = dict(dis.findlinestarts(code))
    lines: dict[int, set[str]] = {}
    for step in dis.get_instructions(code):
        line = starts.get(step.offset) or line
        is_named = isinstance(step.argval, str) and step.argval in words and step.opname.startswith("LOAD_")
        lines.setdefault(line, set()).update((step.opname, _NAMED) if is_named else (step.opname,))
    named = [line for line, names in lines.items() if _NAMED in names]
    unrun = [line for line in named if not lines[line] & _RUNS] or named
    likely = [line for line in unrun if returned and lines[line] & _RETURNS] or unrun
    shown = " or ".join(map(str, likely[:3])) or str(code.co_firstlineno)
    more = " or below" if len(likely) > 3 else ""
    return f"{code.co_filename}:{shown}{more} in {code.co_name}"

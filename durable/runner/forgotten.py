"""Decides whether an operation that was freed unused is a mistake in the code, and where the mistake is.

`charge(1)` without `yield from` makes an operation, does nothing, and frees it. That is a mistake, and the workflow
fails with the line. But an error may also free operations that the body was about to use, and that is fine. Python does
not say why an object is freed. The frame that runs at that moment does: its current bytecode instruction, and whether a
handler would catch an error raised there. In doubt the code is not blamed, so that no correct workflow fails.

`Op.__del__` calls `report`. It finds the frame, asks `_place_of_drop`, and notes the problem for the workflow or the
activity. The interpreter reads the note at the end of the step, the engine at the end of the attempt.
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

# The only frames of durable that run a body or an activity. What is freed in them was left in a variable of the body.
_RUNS_BODIES = ("durable.runner.interpreter", "_step")
_RUNS_ACTIVITIES = "durable.engine.host.attempts"
# The advice for an operation that is used inside an activity.
PLAIN = "call the plain function (.fn), or hand the call to an engine"
# Instructions that cannot raise: if one of them frees something, no error is propagating.
_QUIET = re.compile(r"POP_TOP|IS_OP|STORE_(FAST|DEREF|NAME|GLOBAL)|DELETE_|POP_JUMP\w*_NONE|RETURN_|END_FOR|POP_ITER")
# Those of them that test for None. What they free was created in the same expression.
_ASKS = re.compile(r"IS_OP|POP_JUMP\w*_NONE")
_LOOKS_UP = ("LOAD_ATTR", "LOAD_METHOD")
# Instructions of `yield from op` and `await op`, and of `return`. `_NAMED` marks a line that loads one of the names
# looked for.
_RUNS = frozenset({"GET_YIELD_FROM_ITER", "GET_AWAITABLE"})
_RETURNS = frozenset({"RETURN_VALUE", "RETURN_CONST"})
_NAMED = "named"
# The first instruction of the clean-up that Python runs when a handler raises.
_ENDS_OF_HANDLERS = frozenset({"COPY", "LOAD_CONST"})
# Instructions that release a handled error, and with it everything that its traceback holds.
_ENDS_HANDLING = frozenset({"POP_EXCEPT", "RERAISE", "CHECK_EXC_MATCH", "CHECK_EG_MATCH", "WITH_EXCEPT_START"})


@attrs.frozen
class _Facts:
    """What the bytecode of a function says about errors. Ranges are offsets; their end is exclusive."""

    # Where a raised error is caught by a handler.
    guarded: tuple[tuple[int, int], ...]
    # Where a handler clears the name of its error.
    forgets: frozenset[int]
    # Where an error is being handled.
    handling: tuple[tuple[int, int], ...]


@lru_cache(maxsize=512)
def _facts(code: CodeType) -> _Facts:
    steps = list(dis.get_instructions(code))
    names = {step.offset: step.opname for step in steps}
    entries = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]  # unknown to the stubs
    guarded = tuple((entry.start, entry.end) for entry in entries if names.get(entry.target) == "PUSH_EXC_INFO")
    # An error raised in a handler jumps to the handler's clean-up: `error = None; del error`, then the outer state.
    handling = tuple(
        (entry.start, entry.end) for entry in entries if entry.lasti and names.get(entry.target) in _ENDS_OF_HANDLERS
    )
    return _Facts(guarded, frozenset(offset for offset, _ in cleanups(steps)), handling)


def _is_collecting() -> bool:
    """Whether the garbage collector is running. It may free operations that other workflows correctly never reached.

    A running collector ignores a call of `gc.collect`, so its count of collections stays the same. A callback of `gc`
    would also show it, but Python loses a Ctrl-C that arrives inside such a callback.
    """
    before = gc.get_stats()[0]["collections"]
    gc.collect(0)
    return bool(gc.get_stats()[0]["collections"] == before)


# By the `id()` of a running activity: the activity, and its mistake. Only attempts with a mistake are in it.
IN_ACTIVITIES: dict[int, tuple[object, str]] = {}


class Body(Protocol):
    """The part of the interpreter (`Stepping` in `ops`) that this module uses."""

    closing: int
    dropped: list[str] | None
    # The fiber that runs; its body is a generator or a coroutine.
    stepped: Any


def report(interpreter: Body | None, activity: object, dropped: object, fix: str) -> None:
    """Note the mistake if the body or activity that runs has dropped an operation. Called by `__del__` of `dropped`.

    Call it from `__del__` itself: it takes the frame that called `__del__` for the code in question.
    """
    if (activity is None if interpreter is None else interpreter.closing) or _is_collecting():
        return
    place = _place_of_drop(sys._getframe(2))
    if place is None:
        return
    try:
        text = str(dropped)
    except AttributeError:
        # Its constructor raised, so it was never a complete operation.
        return
    if interpreter is None:
        instead = getattr(dropped, "instead", PLAIN)
        place = place or f"created{_in_activity(activity, text)}"
        note(None, activity, f"{text} was {place} inside an activity, where it does nothing: {instead}")
        return
    if not place:
        body = interpreter.stepped.body
        code = getattr(body, "gi_code", None) or body.cr_code
        if may_keep_errors(code):
            return
        place = f"created at {likely_place(code, text)}, kept in a variable,"
    note(interpreter, activity, f"{text} was {place} {fix}")


def _in_activity(activity: Any, text: str) -> str:
    """Where an activity likely created an operation that it left in a variable; empty if it has no Python code."""
    code = getattr(activity.definition.fn, "__code__", None)
    return "" if code is None else f" at {likely_place(code, text)}"


def note(interpreter: Body | None, activity: object, problem: str) -> None:
    """Keep a mistake for the end of the step or attempt, where no handler of the user's code can hide it."""
    if interpreter is None:
        IN_ACTIVITIES.setdefault(id(activity), (activity, problem))
    elif interpreter.dropped is None:
        interpreter.dropped = [problem]
    else:
        interpreter.dropped.append(problem)


def _place_of_drop(frame: FrameType) -> str | None:
    """How and where the object was dropped, if the frame that runs dropped it by mistake.

    Empty if it was left in a variable until the function ended. None if an error may have freed it.
    """
    module = frame.f_globals.get("__name__")
    if (module, frame.f_code.co_name) == _RUNS_BODIES or module == _RUNS_ACTIVITIES:
        return None if _is_let_go(frame) else ""
    if _is_ours(frame) or not _is_blamed(frame):
        return None
    verb = "created" if _instruction(frame) == "POP_TOP" else "dropped"
    return f"{verb} at {frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


def _is_blamed(frame: FrameType) -> bool:
    """Whether the current instruction of a frame drops an object, and no error can be the cause."""
    instruction = _instruction(frame)
    if instruction == "POP_TOP" and _makes_operation(frame):
        return True
    if _is_let_go(frame) or (not _ASKS.match(instruction) and _is_in(frame, _facts(frame.f_code).handling)):
        return False
    # An error may be propagating if it would be caught here, or further out in the body.
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
    """Whether the statement that ends here is a bare call such as `charge(1)`: it makes an operation and drops it."""
    steps = [step for step in dis.get_instructions(frame.f_code) if step.offset < frame.f_lasti]
    depth, start = 0, len(steps)
    while depth < 1 and start:
        # Walk back to the instruction that begins the expression.
        start -= 1
        depth += dis.stack_effect(steps[start].opcode, steps[start].arg, jump=False)
    first, *following = steps[start:]
    value = frame.f_globals.get(first.argval) if first.opname in ("LOAD_GLOBAL", "LOAD_NAME") else None
    names = [step.argval for step in takewhile(lambda step: step.opname.startswith(_LOOKS_UP), following)]
    while names and isinstance(value, (ModuleType, type)):
        value = vars(value).get(names.pop(0))
    # `charge.fn(1)` calls the plain function of an activity, which makes no operation.
    return names[:1] != ["fn"] and _is_durables(value)


def _is_durables(value: object) -> bool:
    """Whether an object belongs to durable: an activity, a workflow, an event, or one of its functions."""
    module = getattr(value, "__module__", None) if callable(value) else None
    return str(module or type(value).__module__).partition(".")[0] == "durable"


def _is_let_go(frame: FrameType) -> bool:
    return _instruction(frame) in _ENDS_HANDLING or frame.f_lasti in _facts(frame.f_code).forgets


def _instruction(frame: FrameType) -> str:
    code, offset = frame.f_code.co_code, frame.f_lasti
    # During a call of a Python function, Python 3.11 points at one of the caches after the call instruction.
    while offset > 0 and code[offset] == 0:
        offset -= 2
    return dis.opname[code[offset]]


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] == "durable"


@lru_cache(maxsize=512)
def likely_place(code: CodeType, text: str, *, returned: bool = False) -> str:
    """Where an object with this text was likely made, as file, up to three lines, and function.

    For `charge(...)` these are the lines that mention `charge`. Lines that also run what they make are left out if
    other lines remain. If the object was returned, lines without a `return` are left out in the same way.
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

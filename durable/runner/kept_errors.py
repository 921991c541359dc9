"""Decides from bytecode whether code may keep a caught error beyond its handler.

A kept error keeps its traceback, and the traceback keeps operations that the error stopped before they were used. When
the error is released later, far from its handler, those operations are freed unused. That is not a mistake. Python does
not say what holds an object, so this module reads the code of the functions that run and of everything that they name.
If any of it may keep an error, `forgotten` does not blame the code where an operation was freed.

A wrong yes only hides a mistake. A wrong no fails a correct workflow, so every doubt is a yes.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, partial
from inspect import CO_VARARGS
from itertools import takewhile
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

# Uses that do not keep an error: reading an attribute, formatting it, raising another error from it.
_LOOKS_AT = ("LOAD_ATTR", "LOAD_METHOD", "FORMAT_", "CONVERT_VALUE", "RAISE_VARARGS")
_READERS = frozenset({"str", "repr", "type", "isinstance", "hasattr", "getattr"})
# Instructions between the argument of a new error and its raise: more arguments, the call, the cause.
_BUILDS_ERROR = ("PRECALL", "CALL", "CACHE", "KW_NAMES", "LOAD_CONST", "LOAD_FAST")
# Calls that take an error and do not keep it: the methods of a logger, and `print`.
_LOG_CALLS = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log", "print"})
# Methods that receive an error although no code names them.
_EXITS = ("__exit__", "__aexit__")
# The number of functions to look into. Beyond that the answer is yes.
_FUNCTIONS_MAX = 1000
# A cache, by the code of a function: whether it, or anything that it names, may keep an error.
_VERDICTS: WeakKeyDictionary[CodeType, bool] = WeakKeyDictionary()


def cleanups(steps: list[dis.Instruction]) -> list[tuple[int, Any]]:
    """Where handlers clear their error: offset and name. `except Problem as error` ends with `error = None; del error`.

    The compiler emits this clean-up for every `as` name; user code that writes the same counts too, which does no harm.
    """
    return [
        (store.offset, store.argval)
        for load, store, delete in zip(steps, steps[1:], steps[2:], strict=False)
        if load.argval is None
        and load.opname.startswith("LOAD_")
        and store.opname.startswith("STORE_")
        and delete.opname.startswith("DELETE_")
        and store.argval == delete.argval
    ]


@lru_cache(maxsize=2000)
def keeps_errors(code: CodeType) -> bool:
    """Whether the code of a function may keep an error beyond its handler."""
    steps = list(dis.get_instructions(code))
    errors = {name for _, name in cleanups(steps)}
    if code.co_name in _EXITS:
        # The arguments that hold the error and its traceback.
        last = code.co_argcount + bool(code.co_flags & CO_VARARGS)
        errors.update(code.co_varnames[2:last] if code.co_argcount > 1 else code.co_varnames[1:last])
    return any(
        (errors.intersection(_names(step)) and _is_kept(steps, index))
        or (step.argval == "exc_info" and step.opname.startswith(("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL")))
        for index, step in enumerate(steps)
        if step.opname.startswith("LOAD_")
    )


def _names(step: dis.Instruction) -> tuple[Any, ...]:
    """The names that an instruction loads. Since Python 3.13 some load two."""
    return step.argval if isinstance(step.argval, tuple) else (step.argval,)


def _is_kept(steps: list[dis.Instruction], index: int) -> bool:
    """Whether the code may keep an error that it loads here."""
    if index + 1 < len(steps) and steps[index + 1].opname.startswith(_LOOKS_AT):
        return False
    if index and steps[index - 1].opname == "LOAD_GLOBAL" and steps[index - 1].argval in _READERS:
        return False
    return not (_is_logged(steps, index) or _is_raised(steps, index))


def _is_logged(steps: list[dis.Instruction], index: int) -> bool:
    """Whether the value loaded here is an argument of a call that only logs it, like `log.warning("%s", error)`."""
    # Back to the end of the previous statement or call.
    before = takewhile(
        lambda step: not step.opname.startswith(("CALL", "PRECALL", "STORE_", "POP_")), reversed(steps[:index])
    )
    named = (step for step in before if step.opname.startswith(("LOAD_METHOD", "LOAD_ATTR")) or step.argval == "print")
    return any(step.argval in _LOG_CALLS for step in named)


def _is_raised(steps: list[dis.Instruction], index: int) -> bool:
    """Whether the value loaded here goes into an error that is raised at once, like `raise Problem(error)`."""
    following = (step.opname for step in steps[index + 1 :])
    return next((name for name in following if not name.startswith(_BUILDS_ERROR)), "") == "RAISE_VARARGS"


# --- what a function reaches --------------------------------------------------------------------------------------


def may_keep_errors(code: CodeType, space: Mapping[str, Any] | None = None) -> bool:
    """Whether a function, or anything that it names, directly or not, may keep an error.

    `space` holds the globals of its module. Without it, the module is looked up by the file of the code.
    """
    verdict = _VERDICTS.get(code)
    if verdict is None:
        verdict = _VERDICTS[code] = _look(code, _space_of(code) if space is None else space)
    return verdict


def _space_of(code: CodeType) -> Mapping[str, Any]:
    loaded = list(sys.modules.values())
    spaces = (vars(module) for module in loaded if getattr(module, "__file__", None) == code.co_filename)
    return next(spaces, vars(sys.modules["__main__"]))


def _look(code: CodeType, space: Mapping[str, Any]) -> bool:
    """Search everything that a function reaches by name, without following values at run time."""
    todo = [(code, space)]
    if "<locals>" in code.co_qualname:
        # A nested function may call the other functions nested beside it, which no global names.
        todo += _functions(space.get(code.co_qualname.partition(".")[0]), ())
    seen: set[CodeType] = set()
    while todo:
        code, space = todo.pop()
        if code in seen:
            continue
        seen.add(code)
        if keeps_errors(code) or len(seen) > _FUNCTIONS_MAX:
            return True
        todo += [(constant, space) for constant in code.co_consts if isinstance(constant, CodeType)]
        if not _is_library(space):
            for name in code.co_names:
                todo += _functions(space.get(name), code.co_names)
    return False


def _functions(value: object, names: Iterable[str]) -> Iterator[tuple[CodeType, Mapping[str, Any]]]:
    """The functions behind a value, as code and globals: of a function, the methods of a class, the names of a module.

    From a module, and from a class of an installed library, only members in `names`. Nothing from the standard library
    or durable.
    """
    while isinstance(value, (partial, MethodType, staticmethod, classmethod)):
        value = value.func if isinstance(value, partial) else value.__func__
    if isinstance(value, ModuleType):
        # Not modules inside modules: the same names exist in nearly all of them, so too much code would be read.
        members = [] if _is_silent(vars(value)) else [vars(value).get(name) for name in names]
        for member in members:
            yield from () if isinstance(member, ModuleType) else _functions(member, names)
    elif isinstance(value, type):
        yield from _methods(value, names)
    elif value is not None:
        fields = getattr(value, "__dict__", {})
        # Activities and workflows hold their function in `fn`; `functools.wraps` leaves it in `__wrapped__`.
        yield from _functions(fields.get("fn") or fields.get("__wrapped__"), names)
        if not isinstance(value, FunctionType):
            yield from _methods(type(value), names)
        elif not _is_silent(value.__globals__):
            yield value.__code__, value.__globals__


def _methods(cls: type, names: Iterable[str]) -> Iterator[tuple[CodeType, Mapping[str, Any]]]:
    """The methods of a class and its bases; from a library only those in `names` and those that Python calls itself."""
    for base in cls.__mro__:
        space = vars(sys.modules[base.__module__]) if base.__module__ in sys.modules else {}
        wanted: Iterable[str] = (*names, "__init__", "__call__", *_EXITS) if _is_library(space) else vars(base)
        for name in () if _is_silent(space) else wanted:
            if isinstance(method := vars(base).get(name), (FunctionType, staticmethod, classmethod)):
                yield from _functions(method, ())


def _is_silent(space: Mapping[str, Any]) -> bool:
    """Whether a module is known not to keep errors of its callers: the standard library's, and durable's."""
    top = str(space.get("__name__")).partition(".")[0]
    return top == "durable" or top in sys.stdlib_module_names


def _is_library(space: Mapping[str, Any]) -> bool:
    return "-packages" in str(space.get("__file__"))

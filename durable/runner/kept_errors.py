"""Can a caught error be kept, and with it, in its traceback, operations that it stopped before they were used?

Whoever lets go of such an error later frees these operations, far from the place where it was caught, and that is not
a mistake. Python does not say what holds an object. So the code tells: that of the functions which run, and of all that
they name. Where some of it keeps an error, nobody is blamed on the strength of where an operation was freed.
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

# What does not keep an error: a look at its attributes, its text, or raising another error from it.
_LOOKS_AT = ("LOAD_ATTR", "LOAD_METHOD", "FORMAT_", "CONVERT_VALUE", "RAISE_VARARGS")
_READERS = frozenset({"str", "repr", "type", "isinstance", "hasattr", "getattr"})
# What stands between the argument of an error that is raised and the raise: further arguments, the call, the cause.
_BUILDS_ERROR = ("PRECALL", "CALL", "CACHE", "KW_NAMES", "LOAD_CONST", "LOAD_FAST")
# Calls that take an error and do not keep it: those of a logger, and `print`.
_TELLERS = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log", "print"})
# Methods that run without being named, and get an error.
_EXITS = ("__exit__", "__aexit__")
# How many functions are looked into. Beyond that it is not known.
_FUNCTIONS_MAX = 1000
# By the code of a function: whether it, or what it names, may keep an error.
_KNOWN: WeakKeyDictionary[CodeType, bool] = WeakKeyDictionary()


def cleanups(steps: list[dis.Instruction]) -> list[tuple[int, Any]]:
    """Where a handler forgets its error, by name: `except Problem as error` ends with `error = None; del error`."""
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
        # The error and its traceback.
        last = code.co_argcount + bool(code.co_flags & CO_VARARGS)
        errors.update(code.co_varnames[2:last] if code.co_argcount > 1 else code.co_varnames[1:last])
    return any(
        (errors.intersection(_names(step)) and _is_kept(steps, index))
        or (step.argval == "exc_info" and step.opname.startswith(("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL")))
        for index, step in enumerate(steps)
        if step.opname.startswith("LOAD_")
    )


def _names(step: dis.Instruction) -> tuple[Any, ...]:
    """The names that an instruction loads; some load two."""
    return step.argval if isinstance(step.argval, tuple) else (step.argval,)


def _is_kept(steps: list[dis.Instruction], index: int) -> bool:
    """Whether an error that is loaded here may be kept."""
    if index + 1 < len(steps) and steps[index + 1].opname.startswith(_LOOKS_AT):
        return False
    if index and steps[index - 1].opname == "LOAD_GLOBAL" and steps[index - 1].argval in _READERS:
        return False
    return not (_is_told(steps, index) or _is_raised(steps, index))


def _is_told(steps: list[dis.Instruction], index: int) -> bool:
    """Whether what is loaded here is an argument of a call that only tells of it, like `log.warning("%s", error)`."""
    # Back to the end of the statement, or the call, before this one.
    before = takewhile(
        lambda step: not step.opname.startswith(("CALL", "PRECALL", "STORE_", "POP_")), reversed(steps[:index])
    )
    named = (step for step in before if step.opname.startswith(("LOAD_METHOD", "LOAD_ATTR")) or step.argval == "print")
    return any(step.argval in _TELLERS for step in named)


def _is_raised(steps: list[dis.Instruction], index: int) -> bool:
    """Whether what is loaded here goes into an error that is raised at once, like `raise Problem(error)`."""
    rest = (step.opname for step in steps[index + 1 :])
    return next((name for name in rest if not name.startswith(_BUILDS_ERROR)), "") == "RAISE_VARARGS"


# --- what a function reaches --------------------------------------------------------------------------------------


def may_keep_errors(code: CodeType, space: Mapping[str, Any] | None = None) -> bool:
    """Whether a function, or anything that it names, directly or not, may keep an error.

    `space` holds the globals of its module; they are found by its file if they are not given.
    """
    known = _KNOWN.get(code)
    if known is None:
        known = _KNOWN[code] = _look(code, _space_of(code) if space is None else space)
    return known


def _space_of(code: CodeType) -> Mapping[str, Any]:
    modules = (vars(one) for one in list(sys.modules.values()) if getattr(one, "__file__", None) == code.co_filename)
    return next(modules, vars(sys.modules["__main__"]))


def _look(code: CodeType, space: Mapping[str, Any]) -> bool:
    todo = [(code, space)]
    if "<locals>" in code.co_qualname:
        # Its neighbours are functions of the function around it.
        todo += _functions(space.get(code.co_qualname.partition(".")[0]), ())
    seen: set[CodeType] = set()
    while todo:
        code, space = todo.pop()
        if code in seen:
            continue
        seen.add(code)
        if keeps_errors(code) or len(seen) > _FUNCTIONS_MAX:
            return True
        todo += [(one, space) for one in code.co_consts if isinstance(one, CodeType)]
        if not _is_library(space):
            for name in code.co_names:
                todo += _functions(space.get(name), code.co_names)
    return False


def _functions(value: object, names: Iterable[str]) -> Iterator[tuple[CodeType, Mapping[str, Any]]]:
    """The code of what a name stands for, with its globals: a function, the methods of a class, the names of a module.

    Of a module, and of a class of a library, only what the names say. Nothing of Python's own library, nor of durable.
    """
    while isinstance(value, (partial, MethodType, staticmethod, classmethod)):
        value = value.func if isinstance(value, partial) else value.__func__
    if isinstance(value, ModuleType):
        # Not modules in modules: only what is used of them would count, and names are soon in all of them.
        inside = [] if _is_silent(vars(value)) else [vars(value).get(name) for name in names]
        for one in inside:
            yield from () if isinstance(one, ModuleType) else _functions(one, names)
    elif isinstance(value, type):
        yield from _methods(value, names)
    elif value is not None:
        fields = getattr(value, "__dict__", {})
        # An activity and a workflow have a function, and so has one that `functools.wraps` was used on.
        yield from _functions(fields.get("fn") or fields.get("__wrapped__"), names)
        if not isinstance(value, FunctionType):
            yield from _methods(type(value), names)
        elif not _is_silent(value.__globals__):
            yield value.__code__, value.__globals__


def _methods(cls: type, names: Iterable[str]) -> Iterator[tuple[CodeType, Mapping[str, Any]]]:
    for base in cls.__mro__:
        space = vars(sys.modules[base.__module__]) if base.__module__ in sys.modules else {}
        wanted: Iterable[str] = (*names, "__init__", "__call__", *_EXITS) if _is_library(space) else vars(base)
        for name in () if _is_silent(space) else wanted:
            if isinstance(method := vars(base).get(name), (FunctionType, staticmethod, classmethod)):
                yield from _functions(method, ())


def _is_silent(space: Mapping[str, Any]) -> bool:
    top = str(space.get("__name__")).partition(".")[0]
    return top == "durable" or top in sys.stdlib_module_names


def _is_library(space: Mapping[str, Any]) -> bool:
    return "-packages" in str(space.get("__file__"))

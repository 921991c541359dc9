"""Detects two activities or workflows with the same name in one module: the second would silently hide the first.

A module that runs again (`importlib.reload`, a notebook cell) defines its names again, and that is fine. Each import or
reload gives the module a new `__spec__`. So two definitions under the same spec are two statements of one run. A script
has no spec, but its file runs only once in its globals, so the globals identify the run. In a notebook only the lint
finds the mistake.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

# By module and label: an object that identifies the run of the module, and the place of the definition.
_DEFINED: dict[tuple[str, str], tuple[object, str]] = {}


def note_definition(fn: Callable[..., Any], label: str) -> tuple[str, str] | None:
    """Note a definition. Returns both places if another function has the same label in this run of the module.

    Nested functions, and callables without Python code, are not checked.
    """
    code = getattr(fn, "__code__", None)
    space = getattr(fn, "__globals__", {})
    run = space.get("__spec__")
    if run is None and code is not None and _is_script(space, code.co_filename):
        run = space
    if code is None or run is None or "<locals>" in fn.__qualname__:
        return None
    place = f"{code.co_filename}:{code.co_firstlineno}"
    first_run, first = _DEFINED.setdefault((fn.__module__, label), (run, place))
    if first_run is run and first != place:
        return first, place
    _DEFINED[fn.__module__, label] = (run, place)
    return None


def _is_script(space: dict[str, Any], file: str) -> bool:
    """Whether these are the globals of a file that Python runs as a script, so only once.

    An interactive prompt and IPython may run a file again in the same globals.
    """
    may_run_again = hasattr(sys, "ps1") or "IPython" in sys.modules
    return space.get("__name__") == "__main__" and space.get("__file__") == file and not may_run_again

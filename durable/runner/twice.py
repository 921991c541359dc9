"""A name that one module gives to two functions: the second would hide the first in silence.

A module that is run again (`importlib.reload`, a notebook's cell) defines its names again, and that is no mistake. Each
import or reload gives the module another `__spec__`, so two definitions with one spec are two statements of one run. A
script has no spec, but its file is run once in its globals. In a notebook only the lint finds it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

# By module and label: what stands for the run of the module when it was defined, and the place of the function.
_DEFINED: dict[tuple[str, str], tuple[object, str]] = {}


def note_definition(fn: Callable[..., Any], label: str) -> tuple[str, str] | None:
    """Note that a module defines something; both places if another function of this run of it has the name."""
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
    """Whether these are the globals of a file that Python runs as a script. A prompt and IPython run a file again."""
    is_again = hasattr(sys, "ps1") or "IPython" in sys.modules
    return space.get("__name__") == "__main__" and space.get("__file__") == file and not is_again

"""A name that one module gives to two functions: the second would hide the first in silence.

A module that is run again (`importlib.reload`, a notebook's cell) defines its names again, and that is no mistake. Each
import or reload gives the module another `__spec__`, so two definitions with one spec are two statements of one run. A
script and a notebook have no spec: there the lint finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# By module and label: the spec of the module when it was defined, and the place of the function.
_DEFINED: dict[tuple[str, str], tuple[object, str]] = {}


def note_definition(fn: Callable[..., Any], label: str) -> tuple[str, str] | None:
    """Note that a module defines something; both places if another function of this run of it has the name."""
    code = getattr(fn, "__code__", None)
    spec = getattr(fn, "__globals__", {}).get("__spec__")
    if code is None or spec is None or "<locals>" in fn.__qualname__:
        return None
    place = f"{code.co_filename}:{code.co_firstlineno}"
    first_spec, first = _DEFINED.setdefault((fn.__module__, label), (spec, place))
    if first_spec is spec and first != place:
        return first, place
    _DEFINED[fn.__module__, label] = (spec, place)
    return None

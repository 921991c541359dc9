"""Whether a value came back the same, and how to show one that did not.

Stricter than `==`: 1, 1.0 and True are three values here, at any depth. Also copies of values that nobody can store.
Knows Python values only.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
import reprlib
from collections import deque
from collections.abc import Iterable
from datetime import datetime, time
from itertools import chain
from typing import Any

import attrs

from durable.model.shapes.zones import is_nameless, write_datetime, write_time, zone_key

NoneType = type(None)
SCALARS: frozenset[type] = frozenset({bool, int, float, str, NoneType})
# How deep a value of pydantic is searched for time zones.
_ZONE_DEPTH = 16
# The typing rules let a narrower number stand where a wider one is asked for.
_PROMOTIONS = frozenset({(bool, int), (bool, float), (int, float)})


def difference(given: Any, back: Any) -> str | None:
    """What became of the first part of a value that did not come back the same; None when all did."""
    kind = type(given)
    if kind is not type(back):
        return None if (kind, type(back)) in _PROMOTIONS and given == back else _became(given, back)
    if kind in SCALARS:
        return None if given == back else _became(given, back)
    names = field_names(kind)  # type: ignore[arg-type]  # mypy takes a class for unhashable
    pairs: Iterable[tuple[Any, Any]]
    if names is not None:
        pairs = [(getattr(given, name), getattr(back, name)) for name in names]
    elif issubclass(kind, list | tuple | dict | set | frozenset):
        if len(given) != len(back):
            return _became(given, back)
        pairs = _pairs(kind, given, back)
    else:
        return None if _is_same(kind, given, back) else _became(given, back)
    for one, other in pairs:
        problem = difference(one, other)
        if problem is not None:
            return problem
    return None


def _is_same(kind: type, given: Any, back: Any) -> bool:
    if kind in (datetime, time) and is_nameless(given):
        return False
    if kind is datetime:
        # Two zones may have one offset, and an hour that the clocks repeat equals nothing outside its zone.
        return write_datetime(given) == write_datetime(back)
    if kind is time:
        return write_time(given) == write_time(back)
    is_model = hasattr(kind, "__pydantic_fields__")
    return bool(given == back) and (not is_model or zones_in(given) == zones_in(back))


def zones_in(value: Any, depth: int = 0) -> list[str]:
    """The times with a named zone in a value of pydantic, as text: `==` of two models does not see the zone."""
    kind = type(value)
    if kind in (datetime, time):
        if zone_key(value) is None:
            return []
        return [write_datetime(value) if kind is datetime else write_time(value)]
    parts: Iterable[Any] = ()
    if kind in SCALARS or depth > _ZONE_DEPTH:
        return []
    if hasattr(kind, "__pydantic_fields__"):
        parts = [*vars(value).values(), *(getattr(value, "__pydantic_extra__", None) or {}).values()]
    elif issubclass(kind, list | tuple):
        parts = value
    elif issubclass(kind, dict):
        parts = chain(value, value.values())
    else:
        parts = [getattr(value, name, None) for name in field_names(kind) or ()]  # type: ignore[arg-type]  # see above
    return [zone for part in parts for zone in zones_in(part, depth + 1)]


def _pairs(kind: type, given: Any, back: Any) -> Iterable[tuple[Any, Any]]:
    if issubclass(kind, dict):
        return chain(zip(given, back, strict=True), zip(given.values(), back.values(), strict=True))
    if issubclass(kind, set | frozenset):
        twins = {one: one for one in back}
        return ((one, twins.get(one)) for one in given)
    return zip(given, back, strict=True)


@functools.lru_cache(maxsize=10_000)
def field_names(kind: type) -> tuple[str, ...] | None:
    """The fields of an attrs class or a dataclass; those that are neither arguments nor compared are caches."""
    if attrs.has(kind):
        return tuple(one.name for one in attrs.fields(kind) if one.init or one.eq)
    if dataclasses.is_dataclass(kind):
        return tuple(one.name for one in dataclasses.fields(kind) if one.init or one.compare)
    return None


def _became(given: Any, back: Any) -> str:
    hint = "; JSON has no NaN and no Infinity" if type(given) is float and not math.isfinite(given) else ""
    return f"{show(given)} ({type(given).__name__}) came back as {show(back)} ({type(back).__name__}){hint}"


# What can change and is only data. Anything else, a marker or a client, is what it is and stays the same object.
_CONTAINERS = (list, dict, set, frozenset, tuple, bytearray, deque)


def fresh(default: Any) -> Any:
    """A copy of a default that nobody can store; the default itself where it is not data, or holds what has no copy."""
    kind = type(default)
    if not issubclass(kind, _CONTAINERS) and field_names(kind) is None:  # type: ignore[arg-type]  # takes it for unhashable
        return default
    try:
        return copy.deepcopy(default)
    except Exception:
        return default


# --- showing ------------------------------------------------------------------------------------------------------

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 120
SHOWN_MAX = 200


def show(value: Any) -> str:
    """A short text of any value at all."""
    try:
        text = _SHORT.repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."

"""Whether a value came back unchanged, and how to show one that did not.

Stricter than `==`: 1, 1.0 and True are three values here, at any depth. Also copies defaults that cannot be stored.
Knows Python values only.

A value that came back changed would make the first run and a replay differ, so the comparison must not overlook
anything that a body could see: the class of a number in a list, the zone of a datetime, the class of a container.
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
# How deeply a value of pydantic is searched for time zones.
_ZONE_DEPTH = 16
# The typing rules accept a narrower number for a wider annotation: (class of the value, class that was read).
_PROMOTIONS = frozenset({(bool, int), (bool, float), (int, float)})


def difference(value: Any, back: Any) -> str | None:
    """The first part of a value that changed, and what it became, in words; None if all came back unchanged."""
    kind = type(value)
    if kind is not type(back):
        return None if (kind, type(back)) in _PROMOTIONS and value == back else _became(value, back)
    if kind in SCALARS:
        return None if value == back else _became(value, back)
    names = field_names(kind)  # type: ignore[arg-type]  # mypy takes a class for unhashable
    pairs: Iterable[tuple[Any, Any]]
    if names is not None:
        pairs = [(getattr(value, name), getattr(back, name)) for name in names]
    elif issubclass(kind, list | tuple | dict | set | frozenset):
        if len(value) != len(back):
            return _became(value, back)
        pairs = _pairs(kind, value, back)
    else:
        return None if _is_same(kind, value, back) else _became(value, back)
    for part, part_back in pairs:
        problem = difference(part, part_back)
        if problem is not None:
            return problem
    return None


def _is_same(kind: type, value: Any, back: Any) -> bool:
    """Whether two values of one class are the same, for classes without fields or members to compare."""
    if kind in (datetime, time) and is_nameless(value):
        return False
    if kind is datetime:
        # Compare the texts: two zones may share an offset, and a time in a repeated hour never equals one in another
        # zone.
        return write_datetime(value) == write_datetime(back)
    if kind is time:
        return write_time(value) == write_time(back)
    is_model = hasattr(kind, "__pydantic_fields__")
    return bool(value == back) and (not is_model or zones_in(value) == zones_in(back))


def zones_in(value: Any, depth: int = 0) -> list[str]:
    """The times with a named zone in a value of pydantic, as text, because `==` of two models ignores the zone."""
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


def _pairs(kind: type, value: Any, back: Any) -> Iterable[tuple[Any, Any]]:
    """The members of two containers of equal length, paired. Members of sets are paired by equality."""
    if issubclass(kind, dict):
        return chain(zip(value, back, strict=True), zip(value.values(), back.values(), strict=True))
    if issubclass(kind, set | frozenset):
        twins = {item: item for item in back}
        return ((item, twins.get(item)) for item in value)
    return zip(value, back, strict=True)


@functools.lru_cache(maxsize=10_000)
def field_names(kind: type) -> tuple[str, ...] | None:
    """The fields of an attrs class or a dataclass; None for any other class.

    Fields that are neither arguments nor compared are left out: they are caches.
    """
    if attrs.has(kind):
        return tuple(field.name for field in attrs.fields(kind) if field.init or field.eq)
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind) if field.init or field.compare)
    return None


def _became(value: Any, back: Any) -> str:
    """The change of a value, in words."""
    hint = "; JSON has no NaN and no Infinity" if type(value) is float and not math.isfinite(value) else ""
    return f"{show(value)} ({type(value).__name__}) came back as {show(back)} ({type(back).__name__}){hint}"


# Mutable containers of data. A default of any other class, such as a marker or a client, must stay the same object.
_CONTAINERS = (list, dict, set, frozenset, tuple, bytearray, deque)


def fresh(default: Any) -> Any:
    """A copy of a default that cannot be stored; the default itself if it is not data or cannot be copied."""
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
    """A short text for any value, whatever its `repr` does."""
    try:
        text = _SHORT.repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."

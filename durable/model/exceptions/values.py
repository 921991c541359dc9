"""The values inside an error, its arguments and attributes, as JSON data and back.

JSON values are written as they are, anything else as `{"$": kind, "v": data}`. Everything is bounded. A value that
cannot be stored becomes its text. Reading runs no constructor and imports nothing; data that no longer fits the loaded
code is returned as plain data. Knows values and JSON data, but not the form of an error: the caller passes a function
for errors inside an error.

The kinds are `float` for NaN and the infinities, `tuple`, `set`, `frozenset`, `dict` for keys that are not text,
`enum`, `object` for attrs classes and dataclasses, `error`, and the scalars of `_TEXTS`. A dict with the key `$` is
written as a `dict`, so that no value of a user can look like a tag.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from durable.model.exceptions.classes import ABSENT, fill, part_of, slots_of
from durable.model.exceptions.stored_names import stored_class, stored_name
from durable.model.shapes.sameness import show
from durable.model.shapes.zones import read_datetime, read_time, write_datetime, write_time

VALUES_LENGTH_MAX = 48_000
TEXT_LENGTH_MAX = 16_000
DEPTH_MAX = 16
# A tagged value takes up to three levels of JSON.
READ_DEPTH_MAX = 3 * DEPTH_MAX
ITEMS_MAX = 1_000
# The least number of characters to keep of a value that cannot be stored.
_SHOWN_MIN = 20
_INT_BITS_MAX = 4_000
_TAG, _VALUE = "$", "v"
_MICROSECOND = timedelta(microseconds=1)
_PATH = type(Path())


class ValueWriter:
    """Writes the values of one error. `lost` names those that were replaced by their text.

    `nested` writes an error inside the error. All values share one budget of `VALUES_LENGTH_MAX` characters.
    """

    def __init__(self, nested: Callable[[BaseException, int], Any]) -> None:
        self.lost: list[str] = []
        self._left = VALUES_LENGTH_MAX
        self._nested = nested

    def write(self, value: Any, where: str, depth: int = 0) -> Any:
        """A value as JSON data. It never raises, whatever the code of the value does."""
        self._left -= 4
        try:
            data = self._write(value, where, depth)
        except BaseException:
            data = ABSENT
        return self.lose(value, where) if data is ABSENT else data

    def lose(self, value: Any, where: str) -> str:
        """The text of a value that cannot be stored. Adds it to `lost`."""
        if len(self.lost) < ITEMS_MAX:
            self.lost.append(f"{where} ({type(value).__name__})")
        try:
            text = value if type(value) is str else show(value)
            text = storable(text, max(min(self._left, TEXT_LENGTH_MAX // 2), _SHOWN_MIN))
        except BaseException:
            text = f"<{type(value).__name__}>"
        self._left -= len(text)
        return text

    def _write(self, value: Any, where: str, depth: int) -> Any:
        """The JSON data of a value; `ABSENT` if the value has no exact form, is too deep, or exceeds the budget."""
        kind = type(value)
        if value is None or kind is bool:
            return value
        if self._left <= 0 or depth > DEPTH_MAX:
            return ABSENT
        if kind is str:
            return self._text(value)
        if kind is int:
            return value if value.bit_length() <= _INT_BITS_MAX else ABSENT
        if kind is float:
            return value if math.isfinite(value) else _tagged("float", repr(value))
        if kind in _TEXTS:
            name, write, _ = _TEXTS[kind]
            data = write(value)
            return _tagged(name, self._text(data) if type(data) is str else data)
        if kind in (list, tuple, set, frozenset, dict):
            return self._container(kind, value, where, depth)
        return self._instance(kind, value, where, depth)

    def _text(self, text: str) -> Any:
        """A text as it is, charged to the budget; `ABSENT` if it is too long. Raises for a lone surrogate."""
        if len(text) > min(self._left, TEXT_LENGTH_MAX):
            return ABSENT
        text.encode()
        self._left -= len(text)
        return text

    def _container(self, kind: type, value: Any, where: str, depth: int) -> Any:
        """The data of a built-in container. Sets must have plain members, because reading a set hashes them."""
        if 4 * len(value) > self._left:
            return ABSENT
        if kind is dict:
            return self._dict(value, where, depth)
        if kind in (set, frozenset) and not all(map(_is_plain, value)):
            return ABSENT
        items = [self.write(item, f"{where}[{index}]", depth + 1) for index, item in enumerate(value)]
        if kind is list:
            return items
        # Sorted by their text, so that equal sets give equal texts.
        return _tagged(kind.__name__, items if kind is tuple else sorted(items, key=msgspec.json.encode))

    def _dict(self, value: dict[Any, Any], where: str, depth: int) -> Any:
        """The data of a dict: an object if all keys are text and none is the tag, otherwise a tagged list of pairs."""
        if all(type(key) is str for key in value) and _TAG not in value:
            return {self._key(key): self.write(item, f"{where}[{key!r:.50}]", depth + 1) for key, item in value.items()}
        if not all(map(_is_plain, value)):
            return ABSENT
        pairs = [
            [self.write(key, f"{where}, a key", depth + 1), self.write(item, f"{where}[{key!r:.50}]", depth + 1)]
            for key, item in value.items()
        ]
        return _tagged("dict", pairs)

    def _key(self, key: str) -> str:
        self._left -= len(key)
        key.encode()
        return key

    def _instance(self, kind: type, value: Any, where: str, depth: int) -> Any:
        """The data of an error, an enum member, or an instance of an attrs class or dataclass; else `ABSENT`.

        A class with `__del__` is refused: an instance that is rebuilt without its constructor must not run it.
        """
        if issubclass(kind, BaseException):
            return _tagged("error", self._nested(value, depth + 1))
        name = self._text(stored_name(kind))
        if name is ABSENT:
            return ABSENT
        if issubclass(kind, Enum):
            member: Any = value.name
            return _tagged("enum", [name, self._text(member)]) if type(member) is str else ABSENT
        names = _field_names(kind)
        if names is None or part_of(kind, "__del__") is not ABSENT:
            return ABSENT
        fields = {field: getattr(value, field) for field in names if hasattr(value, field)}
        return _tagged("object", [name, self._dict(fields, where, depth)])


def read_value(data: Any, nested: Callable[[Any, int], BaseException], depth: int = 0) -> Any:
    """The value in JSON data from `ValueWriter`; the data itself if it no longer fits the code."""
    if depth > READ_DEPTH_MAX:
        return data
    if type(data) is list:
        return [read_value(item, nested, depth + 1) for item in data]
    if type(data) is not dict:
        return data
    if _TAG not in data:
        return {key: read_value(item, nested, depth + 1) for key, item in data.items()}
    kind: Any = data[_TAG]
    value: Any = data.get(_VALUE)
    try:
        if kind == "error":
            return nested(value, depth + 1)
        if kind in _NAMED_TEXTS:
            return _NAMED_TEXTS[kind](value)
        if kind == "enum":
            return _member(*value)
        return _CONTAINERS[kind](read_value(value, nested, depth + 1))
    except Exception:
        # The class has changed since, or the row was edited.
        return value


def storable(text: str, length_max: int) -> str:
    """A text that can be stored: without lone surrogates, and with its middle cut out if it is too long."""
    # Called on `str`, because a message may be of a subclass that overrides `encode`.
    text = str.encode(text, "utf-8", "backslashreplace").decode()
    if len(text) <= length_max:
        return text
    half = max((length_max - 50) // 2, length_max // 4)
    return f"{text[:half]}\n... [{len(text) - 2 * half} characters cut] ...\n{text[-half:]}"


# --- kinds of values ----------------------------------------------------------------------------------------------

_TEXTS: dict[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    bytes: ("bytes", lambda value: base64.b64encode(value).decode(), base64.b64decode),
    datetime: ("datetime", write_datetime, read_datetime),
    date: ("date", date.isoformat, date.fromisoformat),
    time: ("time", write_time, read_time),
    timedelta: ("timedelta", lambda value: value // _MICROSECOND, lambda data: timedelta(microseconds=data)),
    Decimal: ("decimal", str, Decimal),
    UUID: ("uuid", str, UUID),
    _PATH: ("path", str, Path),
}
_NAMED_TEXTS: dict[str, Callable[[Any], Any]] = {
    "float": float,
    **{name: read for name, _, read in _TEXTS.values()},
}
# Classes whose `__hash__` runs no code of a user, so that they are safe as keys and in sets.
_PLAIN = frozenset({type(None), bool, int, float, str, *_TEXTS})


def _tagged(kind: str, data: Any) -> Any:
    """A tagged value, or `ABSENT` if its data is."""
    return ABSENT if data is ABSENT else {_TAG: kind, _VALUE: data}


def _is_plain(value: Any) -> bool:
    """Whether a value hashes without code of a user."""
    kind = type(value)
    return kind in _PLAIN or issubclass(kind, Enum) or (kind is tuple and all(map(_is_plain, value)))


def _plainly(make: Callable[[Any], Any], items: list[Any], keys: Iterable[Any]) -> Any:
    """A container of these items if all keys are plain; otherwise the items, because hashing could run user code."""
    return make(items) if all(map(_is_plain, keys)) else items


def _member(name: str, member: str) -> Any:
    """A member of a loaded enum; its name as text if there is none."""
    cls = stored_class(name)
    members = part_of(cls, "_member_map_") if cls is not None and issubclass(cls, Enum) else {}
    return members.get(member, f"{name}.{member}")


def _object(data: list[Any]) -> Any:
    """An instance of a loaded attrs class or dataclass; only its fields, as a dict, if it cannot be made."""
    name, fields = data
    cls = stored_class(name)
    names = None if cls is None else _field_names(cls)
    if cls is None or names is None or part_of(cls, "__del__") is not ABSENT:
        return fields
    try:
        instance: object = object.__new__(cls)
    except TypeError:
        return fields
    fill(instance, cls, slots_of(cls, object), {field: fields[field] for field in names if field in fields})
    return instance


def _field_names(cls: type) -> tuple[str, ...] | None:
    """The fields of an attrs class or dataclass, read without running code; None for any other class."""
    fields = part_of(cls, "__attrs_attrs__")
    if issubclass(type(fields), tuple):
        return tuple(field.name for field in fields)
    fields = part_of(cls, "__dataclass_fields__")
    return tuple(fields) if type(fields) is dict else None


_CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "set": lambda items: _plainly(set, items, items),
    "frozenset": lambda items: _plainly(frozenset, items, items),
    "dict": lambda pairs: _plainly(dict, pairs, [key for key, _ in pairs]),
    "object": _object,
}

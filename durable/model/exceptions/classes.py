"""Classes by their dotted names, and their parts, without running code of anybody.

Only what is loaded already is looked at, and only past every `__getattr__`, property and metaclass: a stored name may
be anything. Knows Python's object model and nothing of durable.
"""

from __future__ import annotations

import sys
from types import GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any

NAME_LENGTH_MAX = 1_000
_MRO = type.__dict__["__mro__"]
_FLAGS = type.__dict__["__flags__"]
_NAMES = type.__dict__["__dict__"]
_IS_HEAP_TYPE = 1 << 9
ABSENT: Any = object()

Slots = dict[str, MemberDescriptorType | GetSetDescriptorType]


def loaded_class(name: str) -> type | None:
    """The class of this dotted name, if it is loaded."""
    if len(name) > NAME_LENGTH_MAX:
        return None
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        module = sys.modules.get(".".join(parts[:length]))
        if module is not None:
            return _walk(module, parts[length:])
    return None


def _walk(module: Any, path: list[str]) -> type | None:
    # `isinstance` and plain attribute access ask the object itself, and lazy modules and proxies then run code.
    if not issubclass(type(module), ModuleType):
        return None
    value = object.__getattribute__(module, "__dict__").get(path[0])
    for part in path[1:]:
        if not issubclass(type(value), type):
            return None
        value = _NAMES.__get__(value).get(part)
    return value if issubclass(type(value), type) else None


def class_name(cls: type) -> str:
    """The dotted name of a class."""
    return f"{cls.__module__}.{cls.__qualname__}"


def mro_of(cls: type) -> tuple[type, ...]:
    """The class and its bases, in the order in which Python looks into them."""
    order: tuple[type, ...] = _MRO.__get__(cls)
    return order


def is_static(cls: type) -> bool:
    """Whether a class is written in C and part of Python itself or of an extension, and not made at run time."""
    return not _FLAGS.__get__(cls) & _IS_HEAP_TYPE


def part_of(cls: type, name: str) -> Any:
    """What a class or one of its bases has under this name, as it lies there; `ABSENT` if there is nothing."""
    for base in mro_of(cls):
        names = _NAMES.__get__(base)
        if name in names:
            return names[name]
    return ABSENT


def slots_of(cls: type, below: type) -> Slots:
    """The fields outside of `__dict__` that a class and its bases before `below` have: slots, and fields of C."""
    slots: Slots = {}
    for base in mro_of(cls):
        if base is below:
            break
        kinds = (MemberDescriptorType, GetSetDescriptorType) if is_static(base) else (MemberDescriptorType,)
        for name, part in _NAMES.__get__(base).items():
            if type(part) in kinds and not name.startswith("__"):
                slots.setdefault(name, part)
    return slots


def fill(instance: object, cls: type, slots: Slots, values: dict[str, Any]) -> None:
    """Set attributes of an instance past any `__setattr__`. Those that it cannot have are left out."""
    plain = {name: value for name, value in values.items() if name not in slots}
    holder = part_of(cls, "__dict__")
    if plain and type(holder) is GetSetDescriptorType:
        holder.__get__(instance).update(plain)
    for name in values.keys() & slots.keys():
        try:
            slots[name].__set__(instance, values[name])
        except (AttributeError, TypeError, ValueError, OverflowError):
            # A field of C that takes no such value, or none at all.
            continue

"""Classes by their dotted names, and the parts of classes, without running any code of theirs.

A stored name may be anything. So only loaded modules are searched, and every `__getattr__`, property and metaclass is
bypassed. Knows Python's object model, and nothing about durable.
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
    """The class with this dotted name; None if it is not loaded."""
    if len(name) > NAME_LENGTH_MAX:
        return None
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        module = sys.modules.get(".".join(parts[:length]))
        if module is not None:
            return _walk(module, parts[length:])
    return None


def _walk(module: Any, path: list[str]) -> type | None:
    """The class at the end of a path of names below a module; None if a name is missing or is not a class."""
    # `isinstance` and plain attribute access ask the object, and then lazy modules and proxies run code.
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
    """The class and its bases, in the order in which Python searches them."""
    order: tuple[type, ...] = _MRO.__get__(cls)
    return order


def is_static(cls: type) -> bool:
    """Whether a class is defined statically in C, by Python or an extension, rather than created at run time."""
    return not _FLAGS.__get__(cls) & _IS_HEAP_TYPE


def part_of(cls: type, name: str) -> Any:
    """The raw attribute of a class or its first base that has this name; `ABSENT` if none has. No descriptor runs."""
    for base in mro_of(cls):
        names = _NAMES.__get__(base)
        if name in names:
            return names[name]
    return ABSENT


def slots_of(cls: type, below: type) -> Slots:
    """The fields outside of `__dict__` of a class and its bases before `below`: slots, and fields in C."""
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
    """Set attributes of an instance, bypassing any `__setattr__`. Those that it cannot have are skipped."""
    plain = {name: value for name, value in values.items() if name not in slots}
    holder = part_of(cls, "__dict__")
    if plain and type(holder) is GetSetDescriptorType:
        holder.__get__(instance).update(plain)
    for name in values.keys() & slots.keys():
        try:
            slots[name].__set__(instance, values[name])
        except (AttributeError, TypeError, ValueError, OverflowError):
            # A field in C that does not accept this value, or is read-only.
            continue

"""What a type alias stands for: `type Name = ...` of Python 3.12, and `TypeAliasType` of typing_extensions before.

Knows annotations only. An alias may be generic, and may contain itself.
"""

from __future__ import annotations

import sys
import typing
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import typing_extensions

# Two classes before Python 3.14, one after it.
_ALIASES: tuple[type, ...] = (
    typing_extensions.TypeAliasType,
    getattr(typing, "TypeAliasType", typing_extensions.TypeAliasType),
)


def is_alias(annotation: Any) -> bool:
    """Whether an annotation is an alias, perhaps a generic one with its arguments."""
    return isinstance(annotation, _ALIASES) or isinstance(get_origin(annotation), _ALIASES)


def resolve(annotation: Any) -> Any:
    """What an alias stands for, one level down. Raises `NameError` for a name in it that does not exist."""
    if isinstance(annotation, _ALIASES):
        return _value(annotation)
    alias: Any = get_origin(annotation)
    given = dict(zip(alias.__type_params__, get_args(annotation), strict=False))
    value = _value(alias)
    if isinstance(value, TypeVar):
        return given.get(value, value)
    parameters: tuple[Any, ...] = getattr(value, "__parameters__", ())
    return value[tuple(given.get(one, one) for one in parameters)] if parameters else value


def _value(alias: Any) -> Any:
    # Names in quotation marks are looked up where the alias was made.
    holder = type("Holder", (), {"__annotations__": {"value": alias.__value__}})
    module = sys.modules.get(alias.__module__ or "")
    return get_type_hints(holder, globalns=vars(module) if module else {}, include_extras=True)["value"]

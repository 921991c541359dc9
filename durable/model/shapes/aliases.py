"""The meaning of a type alias: `type Name = ...` of Python 3.12, and `TypeAliasType` of typing_extensions before.

Knows annotations only. An alias may be generic, and may contain itself.
"""

from __future__ import annotations

import sys
import typing
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import typing_extensions

# Two different classes before Python 3.14, the same one since.
_ALIASES: tuple[type, ...] = (
    typing_extensions.TypeAliasType,
    getattr(typing, "TypeAliasType", typing_extensions.TypeAliasType),
)


def is_alias(annotation: Any) -> bool:
    """Whether an annotation is an alias, or a generic alias with arguments."""
    return isinstance(annotation, _ALIASES) or isinstance(get_origin(annotation), _ALIASES)


def resolve(annotation: Any) -> Any:
    """The annotation that an alias names, one level down. Raises `NameError` if it contains an undefined name."""
    if isinstance(annotation, _ALIASES):
        return _value(annotation)
    alias: Any = get_origin(annotation)
    arguments = dict(zip(alias.__type_params__, get_args(annotation), strict=False))
    value = _value(alias)
    if isinstance(value, TypeVar):
        return arguments.get(value, value)
    parameters: tuple[Any, ...] = getattr(value, "__parameters__", ())
    return value[tuple(arguments.get(parameter, parameter) for parameter in parameters)] if parameters else value


def _value(alias: Any) -> Any:
    # Quoted names are looked up in the module that defines the alias.
    holder = type("Holder", (), {"__annotations__": {"value": alias.__value__}})
    module = sys.modules.get(alias.__module__ or "")
    return get_type_hints(holder, globalns=vars(module) if module else {}, include_extras=True)["value"]

"""Types of pydantic, and types that only pydantic understands, where the program has loaded it.

pydantic is never imported from here: a type of a library that nobody has loaded cannot turn up. Knows types and JSON
data.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, ForwardRef

from durable.sameness import field_names

Shape = tuple[Callable[[Any], Any], Callable[[Any], Any]]

SECRETS = (
    "secrets cannot be stored, because everybody who can read the store could read them; "
    "pass a reference, such as the name of the secret, and look it up in the activity that needs it"
)
_LOOK_DEPTH = 8


def is_model(annotation: Any) -> bool:
    """Whether it is a model."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel)


def model_shape(annotation: Any, _converter: object) -> Shape:
    """How a model is written and read."""
    return (
        lambda value: value.model_dump(mode="json", by_alias=True, round_trip=True),
        annotation.model_validate,
    )


def is_secret(annotation: Any) -> bool:
    """Whether values of this type hide what they hold."""
    pydantic = sys.modules.get("pydantic")
    kinds = () if pydantic is None else (pydantic.SecretStr, pydantic.SecretBytes, pydantic.Secret)
    return isinstance(annotation, type) and issubclass(annotation, kinds)


def secret_in(value: Any, depth: int = 0) -> str | None:
    """The name of the class of a secret somewhere in a value."""
    kind = type(value)
    if is_secret(kind):
        return kind.__name__
    parts: Iterable[Any] = ()
    if is_model(kind):
        parts = vars(value).values()
    elif (names := field_names(kind)) is not None:  # type: ignore[arg-type]  # mypy takes a class for unhashable
        parts = [getattr(value, name, None) for name in names]
    elif issubclass(kind, list | tuple | set | frozenset):
        parts = value
    elif issubclass(kind, dict):
        parts = value.values()
    found = (secret_in(part, depth + 1) for part in parts) if depth < _LOOK_DEPTH else ()
    return next(filter(None, found), None)


def adapter_shape(annotation: Any) -> Shape | None:
    """How pydantic writes and reads a type that nobody else knows; None if it does not know it either."""
    pydantic = sys.modules.get("pydantic")
    if pydantic is None or isinstance(annotation, str | ForwardRef):
        # pydantic would take a name that nobody knows, and wait for it.
        return None
    try:
        adapter = pydantic.TypeAdapter(annotation)
        # Some types, such as those of functions, can be checked and not written.
        adapter.json_schema(mode="serialization")
    except Exception:
        return None
    return (
        lambda value: adapter.dump_python(value, mode="json", by_alias=True, round_trip=True, warnings="error"),
        adapter.validate_python,
    )

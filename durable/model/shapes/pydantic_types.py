"""Types of pydantic, and types that only pydantic understands, where the program has loaded it.

pydantic is never imported from here: a type of a library that nobody has loaded cannot turn up. Knows types and JSON
data.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from datetime import datetime, time
from typing import Any, ForwardRef

from durable.model.shapes.sameness import field_names, zones_in
from durable.model.shapes.zones import read_datetime, read_time, write_datetime, write_time, zone_key

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

    def write(value: Any) -> Any:
        data = value.model_dump(mode="json", by_alias=True, round_trip=True)
        return _with_zones(data, value, lambda: value.model_dump(by_alias=True, round_trip=True))

    return write, lambda data: annotation.model_validate(_zoned(data))


# --- time zones ---------------------------------------------------------------------------------------------------

# pydantic writes the offset of a time and forgets its zone. A value with zones is stored as an object of two keys: the
# data, in which those times have the form of RFC 9557, and the paths to them.
_ZONES, _DATA = "$zones", "value"


def _with_zones(data: Any, value: Any, plain: Callable[[], Any]) -> Any:
    """The JSON data of a value, with the zones of its times. `plain` gives the data with times as they are."""
    if not zones_in(value):
        return data
    paths: list[list[Any]] = []
    return {_DATA: _named(data, plain(), [], paths), _ZONES: paths}


def _named(data: Any, plain: Any, path: list[Any], paths: list[list[Any]]) -> Any:
    """JSON data with the zones of the times that stand at the same places of the plain data."""
    if type(data) is str and isinstance(plain, datetime | time) and zone_key(plain) is not None:
        paths.append(path)
        return write_datetime(plain) if isinstance(plain, datetime) else write_time(plain)
    if type(data) is list and isinstance(plain, list | tuple) and len(data) == len(plain):
        return [_named(one, other, [*path, at], paths) for at, (one, other) in enumerate(zip(data, plain, strict=True))]
    if type(data) is dict and isinstance(plain, dict) and len(data) == len(plain):
        pairs = zip(data.items(), plain.values(), strict=True)
        return {key: _named(one, other, [*path, key], paths) for (key, one), other in pairs}
    return data


def _zoned(data: Any) -> Any:
    """The data to validate: with times where a zone was stored."""
    if type(data) is not dict or data.keys() != {_DATA, _ZONES}:
        return data
    holder = [data[_DATA]]
    for path in data[_ZONES]:
        place: Any = holder
        steps = [0, *path]
        last = steps.pop()
        for key in steps:
            place = place[key]
        text = place[last]
        place[last] = read_datetime(text) if "T" in text.partition("[")[0] else read_time(text)
    return holder[0]


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


# --- errors -------------------------------------------------------------------------------------------------------


def is_validation_error(cls: type) -> bool:
    """Whether it is the class of the errors that pydantic raises for a value that does not fit."""
    core = sys.modules.get("pydantic_core")
    return core is not None and cls is core.ValidationError


def validation_args(error: Any) -> tuple[Any, ...]:
    """What a validation error holds, as plain values: its title, and what is wrong at which place."""
    return error.title, error.errors(include_url=False)


def make_validation_error(cls: Any, args: list[Any]) -> BaseException:
    """The validation error with these arguments. Raises `TypeError`, `ValueError` or `KeyError` if there is none."""
    title, lines = args
    error: BaseException = cls.from_exception_data(title, [_line(dict(one)) for one in lines])
    return error


def _line(line: dict[str, Any]) -> dict[str, Any]:
    core = sys.modules["pydantic_core"]
    place = {"loc": tuple(line["loc"]), "input": line["input"]}
    known = {**place, "type": line["type"], "ctx": line.get("ctx") or {}}
    try:
        if core.ValidationError.from_exception_data("", [known]).errors()[0]["msg"] == line["msg"]:
            return known
    except Exception:  # a type of the user's own, or a context that was stored as text
        pass
    return {**place, "type": core.PydanticCustomError(line["type"], line["msg"])}


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

    def write(value: Any) -> Any:
        data = adapter.dump_python(value, mode="json", by_alias=True, round_trip=True, warnings="error")
        return _with_zones(data, value, lambda: adapter.dump_python(value, by_alias=True, round_trip=True))

    return write, lambda data: adapter.validate_python(_zoned(data))
